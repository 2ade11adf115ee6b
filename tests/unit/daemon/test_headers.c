/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/headers.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/lib/tar/scratch.h"
#include "base/own.h"
#include "harness/tap.h"

static struct scratch place;
static char path[128];
static struct err e;

static void write_headers(const char *text)
{
    if (!place.path[0])
        place = scratch_make();
    snprintf(path, sizeof path, "%s/headers", place.path);
    unlink(path);
    make_file(place.dir, "headers", text);
    CHECK(chmod(path, 0600) == 0);
}

static int open_it(void)
{
    AUTO_CLOSE int fd = -1;

    return headers_open(path, &fd, &e);
}

TEST(what_the_file_says_is_handed_over_and_cannot_be_changed)
{
    char text[64];
    int fd;

    write_headers("Authorization: Bearer x\n");
    CHECK_OK(headers_open(path, &fd, &e), e);
    CHECK(unlink(path) == 0);
    CHECK_INT(read(fd, text, sizeof text), 24);
    CHECK(memcmp(text, "Authorization: Bearer x\n", 24) == 0);
    CHECK_INT(write(fd, "x", 1), -1);
    CHECK_INT(ftruncate(fd, 0), -1);
    close(fd);
}

TEST(others_must_not_be_able_to_read_it)
{
    static const mode_t modes[] = { 0604, 0640, 0620, 0602, 0644 };

    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        write_headers("A: b\n");
        CHECK(chmod(path, modes[i]) == 0);
        CHECK_INT(open_it(), -ERR_DENIED);
    }
}

TEST(it_must_be_ours)
{
    if (geteuid() != 0)
        SKIP("only root can give a file away");
    write_headers("A: b\n");
    CHECK(chown(path, 1000, 1000) == 0);
    CHECK_INT(open_it(), -ERR_DENIED);
    CHECK(strstr(e.msg, "hub.headers_file"));
}

TEST(links_and_pipes_and_directories_are_refused)
{
    write_headers("A: b\n");
    snprintf(path, sizeof path, "%s/link", place.path);
    CHECK(symlink("headers", path) == 0);
    CHECK_INT(open_it(), -ERR_SYS);
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    CHECK_INT(open_it(), -ERR_DENIED);
    CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
    CHECK_INT(open_it(), -ERR_DENIED);
    CHECK(rmdir(path) == 0);
    CHECK_INT(open_it(), -ERR_SYS);
}

TEST(its_size_is_bounded)
{
    static char text[HEADERS_FILE_MAX + 2];

    memset(text, '#', HEADERS_FILE_MAX);
    write_headers(text);
    CHECK_OK(open_it(), e);
    text[HEADERS_FILE_MAX] = '#';
    write_headers(text);
    CHECK_INT(open_it(), -ERR_TOO_BIG);
}
