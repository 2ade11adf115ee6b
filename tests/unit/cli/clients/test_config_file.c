/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/clients/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "harness/tap.h"

enum { MEMORY = 1 << 16 };

static char dir[64];

static const char *place_in(const char *name)
{
    static char paths[8][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, PATH_MAX, "%s/%s", dir, name);
    return path;
}

static void put_file(const char *name, const char *text, mode_t mode)
{
    AUTO_CLOSE int fd = open(place_in(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct err e;

    CHECK(fd >= 0 && fchmod(fd, mode) == 0);
    CHECK_OK(write_all(fd, str_from(text), &e), e);
}

static void check_file(const char *name, const char *text)
{
    AUTO_CLOSE int fd = open(place_in(name), O_RDONLY | O_CLOEXEC);
    AUTO(buf_done) struct buf now = BUF_INIT(MEMORY);
    struct err e;

    CHECK(fd >= 0);
    CHECK_OK(buf_read_fd(&now, fd, &e), e);
    CHECK_STR(buf_str(&now), text);
}

static void make_dir(void)
{
    snprintf(dir, sizeof dir, "/tmp/config-file-XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
}

static void remove_dir(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", dir);
    CHECK(system(command) == 0);
}

/* Opens, replaces, and checks the copy's name. */
static int replace_file(const char *name, const char *text, const char *copy, struct err *e)
{
    AUTO(config_file_done) struct config_file f = { .dir = -1 };
    char backup[PATH_MAX];
    int r = config_file_open_below(&f, dir, name, MEMORY, e);

    if (r >= 0)
        r = config_file_replace(&f, str_from(text), 0644, backup, e);
    if (r >= 0)
        CHECK_STR(str_from(backup), copy[0] ? place_in(copy) : "");
    return r;
}

TEST(config_file_keeps_old_texts_and_the_mode)
{
    struct stat st;
    struct err e;

    make_dir();
    put_file("a", "one", 0640);
    CHECK_OK(replace_file("a", "two", "a.bak-sandboxer", &e), e);
    CHECK_OK(replace_file("a", "three", "a.bak-sandboxer-2", &e), e);
    CHECK_OK(replace_file("a", "one", "a.bak-sandboxer-3", &e), e);
    CHECK_OK(replace_file("a", "four", "a.bak-sandboxer", &e), e); /* that is there */
    check_file("a", "four");
    check_file("a.bak-sandboxer", "one");
    check_file("a.bak-sandboxer-2", "two");
    CHECK(stat(place_in("a"), &st) == 0 && (st.st_mode & 07777) == 0640);
    CHECK(stat(place_in("a.bak-sandboxer"), &st) == 0 && (st.st_mode & 07777) == 0640);
    remove_dir();
}

TEST(config_file_makes_a_new_file_with_its_directory)
{
    struct stat st;
    struct err e;

    make_dir();
    CHECK_OK(replace_file(".x/a", "new", "", &e), e);
    check_file(".x/a", "new");
    CHECK(stat(place_in(".x/a"), &st) == 0 && (st.st_mode & 07777) == 0644);
    remove_dir();
}

TEST(config_file_notices_changes_of_others)
{
    AUTO(config_file_done) struct config_file f = { .dir = -1 }, new = { .dir = -1 };
    char backup[PATH_MAX];
    struct err e;

    make_dir();
    put_file("a", "one", 0600);
    CHECK_OK(config_file_open_below(&f, dir, "a", MEMORY, &e), e);
    put_file("a", "two", 0600); /* the same inode */
    CHECK_INT(config_file_replace(&f, STR("x"), 0600, backup, &e), -(int)ERR_CONFLICT);
    check_file("a", "two");
    put_file("c", "one", 0600); /* the same text in another file */
    CHECK(unlink(place_in("a")) == 0);
    CHECK_INT(config_file_replace(&f, STR("x"), 0600, backup, &e), -(int)ERR_CONFLICT);
    CHECK(access(place_in("a"), F_OK) < 0 && rename(place_in("c"), place_in("a")) == 0);
    CHECK_INT(config_file_replace(&f, STR("x"), 0600, backup, &e), -(int)ERR_CONFLICT);
    CHECK_OK(config_file_open_below(&new, dir, "b", MEMORY, &e), e);
    put_file("b", "meanwhile", 0600);
    CHECK_INT(config_file_replace(&new, STR("x"), 0600, backup, &e), -(int)ERR_CONFLICT);
    check_file("b", "meanwhile");
    remove_dir();
}

TEST(config_file_follows_no_link_of_a_project)
{
    AUTO(config_file_done) struct config_file f = { .dir = -1 }, user = { .dir = -1 };
    char backup[PATH_MAX];
    struct err e;

    make_dir();
    put_file("real", "secret", 0600);
    CHECK(symlink("real", place_in("link")) == 0 && symlink(".", place_in(".x")) == 0);
    CHECK_INT(replace_file("link", "x", "", &e), -(int)ERR_DENIED);
    CHECK_INT(replace_file(".x/real", "x", "", &e), -(int)ERR_DENIED);
    CHECK_OK(config_file_open(&user, place_in("link"), MEMORY, &e), e); /* a user's own */
    CHECK_OK(config_file_replace(&user, STR("new"), 0600, backup, &e), e);
    check_file("real", "new");
    CHECK(link(place_in("real"), place_in("hard")) == 0);
    CHECK_INT(replace_file("real", "x", "", &e), -(int)ERR_DENIED);
    CHECK(mkfifo(place_in("pipe"), 0600) == 0);
    CHECK_INT(replace_file("pipe", "x", "", &e), -(int)ERR_INVALID);
    CHECK(unlink(place_in("link")) == 0 && symlink("nowhere", place_in("link")) == 0);
    CHECK_INT(config_file_open(&f, place_in("link"), MEMORY, &e), -(int)ERR_SYS);
    remove_dir();
}

TEST(config_file_is_bounded)
{
    AUTO(config_file_done) struct config_file f = { .dir = -1 };
    struct err e;

    make_dir();
    put_file("a", "12345", 0600);
    CHECK_INT(config_file_open_below(&f, dir, "a", 4, &e), -(int)ERR_TOO_BIG);
    remove_dir();
}
