/* SPDX-License-Identifier: Apache-2.0 */
#include "base/io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static int memory_file(size_t n)
{
    int fd = memfd_create("io", MFD_CLOEXEC);

    for (size_t i = 0; i < n; i++)
        CHECK_INT(write(fd, "x", 1), 1);
    CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

TEST(a_file_of_the_ceiling_is_read_whole_and_a_longer_one_refused)
{
    AUTO(buf_done) struct buf b = BUF_INIT(100);
    AUTO_CLOSE int fits = memory_file(100), long_one = memory_file(101);
    struct err e;

    CHECK_OK(buf_read_fd(&b, fits, &e), e);
    CHECK_INT(b.n, 100);
    buf_clear(&b);
    CHECK_INT(buf_read_fd(&b, long_one, &e), -ERR_TOO_BIG);
    CHECK(strstr(e.msg, "longer than 100 bytes"));
}

TEST(reading_appends_and_reports_a_bad_descriptor)
{
    AUTO(buf_done) struct buf b = BUF_INIT(100);
    AUTO_CLOSE int fd = memory_file(3);
    struct err e;

    CHECK_INT(buf_add(&b, STR("ab")), 0);
    CHECK_OK(buf_read_fd(&b, fd, &e), e);
    CHECK_STR(buf_str(&b), "abxxx");
    CHECK_INT(buf_read_fd(&b, -1, &e), -ERR_SYS);
}

TEST(a_read_at_an_offset_stops_at_the_end_of_the_file)
{
    AUTO_CLOSE int fd = memory_file(10);
    char bytes[16];

    CHECK_INT(pread_full(fd, bytes, 4, 2), 4);
    CHECK_INT(pread_full(fd, bytes, sizeof bytes, 3), 7);
    CHECK_INT(pread_full(fd, bytes, sizeof bytes, 10), 0);
    CHECK_INT(pread_full(-1, bytes, 1, 0), -1);
}

/* A full pipe makes the writer wait until the reader has made room. */
TEST(writing_waits_for_room_in_a_nonblocking_pipe)
{
    static char piece[256 << 10];
    AUTO(buf_done) struct buf b = BUF_INIT(sizeof piece);
    struct err e;
    int ends[2];
    pid_t pid;

    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        _exit(write_all(ends[1], (struct str){ piece, sizeof piece }, NULL) < 0 ? 1 : 0);
    }
    close(ends[1]);
    CHECK_OK(buf_read_fd(&b, ends[0], &e), e);
    CHECK_INT(b.n, sizeof piece);
    close(ends[0]);
}
