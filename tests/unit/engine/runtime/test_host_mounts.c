/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/host_mounts.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/tap.h"

/* A file as the kernel shows it, of these lines. */
static int read_text(const char *text, struct host_mounts *ret, struct err *e)
{
    char path[] = "/tmp/host-mounts-XXXXXX";
    int fd = mkstemp(path), r;

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    r = host_mounts_read(path, ret, e);
    unlink(path);
    return r;
}

TEST(only_mounts_that_sandboxes_see_are_kept)
{
    static const char text[] = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
                               "28 27 0:21 / /proc rw - proc proc rw\n"
                               "29 27 254:1 / /usr/local rw,relatime shared:7 - ext4 /dev/vdb rw\n"
                               "30 27 254:2 / /usr2 rw - ext4 /dev/vdb rw\n"
                               "31 27 254:2 / /etc/ssl rw - ext4 /dev/vdb rw\n"
                               "32 31 254:2 / /etc/ssl rw - ext4 /dev/vdc rw\n"
                               "33 31 254:2 / /usr/a\\040b rw - ext4 /dev/vdc rw\n";
    struct host_mounts m;
    struct err e;

    CHECK_OK(read_text(text, &m, &e), e);
    CHECK_INT(m.n, 3);
    CHECK_STR(str_from(m.mounts[0].path), "/usr/local");
    CHECK_STR(str_from(m.mounts[1].path), "/etc/ssl");
    CHECK_STR(str_from(m.mounts[2].path), "/usr/a b");
    CHECK_INT(m.mounts[2].fd, -1);
    CHECK(!host_mounts_of(&m, "/usr") && !host_mounts_of(&m, "/usr/localized"));
    CHECK(host_mounts_of(&m, "/usr/local") == &m.mounts[0]);
    CHECK(host_mounts_of(&m, "/etc/ssl/certs") == &m.mounts[1]);
    host_mounts_done(&m);
}

TEST(more_than_there_is_room_for_is_an_error)
{
    char text[16384];
    struct host_mounts m;
    struct err e;
    size_t n = 0;

    for (int i = 0; i <= HOST_MOUNTS_MAX; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%d 1 0:1 / /usr/%d rw - x x rw\n", i, i);
    CHECK_INT(read_text(text, &m, &e), -(int)ERR_TOO_BIG);
    memset(text, 'x', sizeof text);
    snprintf(text, sizeof text, "1 1 0:1 / /usr/%0300d rw - x x rw\n", 7);
    CHECK_INT(read_text(text, &m, &e), -(int)ERR_TOO_BIG);
    CHECK_INT(read_text("garbage\n", &m, &e), -(int)ERR_INVALID);
    CHECK_INT(read_text("1 1 0:1 / /usr/\\9 rw - x x rw\n", &m, &e), -(int)ERR_INVALID);
}

/* Lines that meet the end of what one read returned. */
TEST(long_files_are_read_to_the_end)
{
    static char text[80 << 10];
    struct host_mounts m;
    struct err e;
    size_t n = 0;

    while (n < sizeof text - 300)
        n += (size_t)snprintf(text + n, sizeof text - n, "1 1 0:1 / /var/%0*d rw - x x rw\n",
                              (int)(n % 97) + 1, 7);
    snprintf(text + n, sizeof text - n, "1 1 0:1 / /lib64 rw - x x rw\n");
    CHECK_OK(read_text(text, &m, &e), e);
    CHECK_INT(m.n, 1);
    host_mounts_done(&m);
}
