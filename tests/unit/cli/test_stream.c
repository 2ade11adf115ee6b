/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

enum { BIG = 10 << 20, WAIT_MS = 10000 };

static char room[STREAM_BUFFER];

/* The byte at a place: any byte lost, doubled or moved shows. */
static char pattern(size_t i)
{
    return (char)(i * 31 + (i >> 8) + (i >> 16));
}

/* A child that writes n bytes of the pattern into a pipe: its reading end. */
static int start_writer(size_t n)
{
    int ends[2];

    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    if (fork() == 0) {
        static char block[50000]; /* not a divisor of anything */

        close(ends[0]);
        for (size_t at = 0; at < n;) {
            size_t want = n - at < sizeof block ? n - at : sizeof block;

            for (size_t i = 0; i < want; i++)
                block[i] = pattern(at + i);
            for (size_t put = 0; put < want;) {
                ssize_t got = write(ends[1], block + put, want - put);

                if (got < 0)
                    _exit(1);
                put += (size_t)got;
            }
            at += want;
        }
        _exit(0);
    }
    close(ends[1]);
    CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    return ends[0];
}

/* A child that reads the pattern and exits 0 if it was n bytes of it; sleeps now and then. */
static int start_reader(size_t n, bool slow)
{
    int ends[2];

    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    if (fork() == 0) {
        static char block[30000];
        size_t at = 0;
        ssize_t got;

        close(ends[1]);
        while ((got = read(ends[0], block, sizeof block)) > 0) {
            for (ssize_t i = 0; i < got; i++)
                if (block[i] != pattern(at + (size_t)i))
                    _exit(2);
            at += (size_t)got;
            if (slow)
                usleep(500);
        }
        _exit(at == n ? 0 : 3);
    }
    close(ends[0]);
    return ends[1];
}

static void pump(struct stream *s)
{
    while (stream_open(s)) {
        struct pollfd p;

        stream_poll(s, &p);
        CHECK(p.fd >= 0 && p.events);
        if (poll(&p, 1, WAIT_MS) != 1)
            FAIL("nothing moves");
        stream_move(s);
    }
}

static void expect_children(int n)
{
    for (int status; n > 0; n--) {
        CHECK(wait(&status) > 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            FAIL("a child ended with %x", (unsigned)status);
    }
}

TEST(ten_megabytes_from_pipe_to_pipe)
{
    struct stream s;
    int to = start_reader(BIG, false), from = start_writer(BIG);

    stream_init(&s, from, to, true, room);
    pump(&s);
    CHECK_INT(fcntl(from, F_GETFD), -1); /* it owned that one */
    CHECK(fcntl(to, F_GETFD) >= 0);
    CHECK_INT(s.moved, BIG);
    close(to);
    expect_children(2);
}

TEST(a_slow_reader_gets_everything)
{
    struct stream s;
    int to = start_reader(BIG / 4, true), from = start_writer(BIG / 4);

    CHECK(fcntl(to, F_SETFL, O_NONBLOCK) == 0);
    stream_init(&s, from, to, false, room);
    pump(&s);
    CHECK_INT(fcntl(to, F_GETFD), -1); /* it closed the end that was not ours: end of file there */
    close(from);
    expect_children(2);
}

static void check_file(int fd, size_t skip, size_t n)
{
    AUTO_FREE char *all = malloc(n + skip + 1);

    CHECK(all);
    CHECK_INT(pread(fd, all, n + skip + 1, 0), n + skip);
    for (size_t i = 0; i < n; i++)
        if (all[skip + i] != pattern(i))
            FAIL("byte %zu is wrong", i);
}

TEST(into_a_file)
{
    struct stream s;
    FILE *f = tmpfile();

    CHECK(f);
    stream_init(&s, start_writer(BIG), fileno(f), true, room);
    pump(&s);
    check_file(fileno(f), 0, BIG);
    expect_children(1);
    fclose(f);
}

/* splice() does not write to one: it goes through the buffer. */
TEST(into_a_file_that_is_appended_to)
{
    char path[] = "/tmp/sandboxer-test-XXXXXX";
    int fd = mkstemp(path), append;
    struct stream s;

    CHECK(fd >= 0 && write(fd, "before", 6) == 6);
    append = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(append >= 0 && unlink(path) == 0);
    stream_init(&s, start_writer(BIG), append, true, room);
    pump(&s);
    CHECK(s.no_splice);
    check_file(fd, 6, BIG);
    expect_children(1);
}

TEST(from_a_file)
{
    static char block[100000];
    int to = start_reader(sizeof block, false);
    FILE *f = tmpfile();
    struct stream s;

    for (size_t i = 0; i < sizeof block; i++)
        block[i] = pattern(i);
    CHECK(f && pwrite(fileno(f), block, sizeof block, 0) == (ssize_t)sizeof block);
    stream_init(&s, fileno(f), to, false, room);
    pump(&s);
    expect_children(1);
    CHECK(fcntl(fileno(f), F_GETFD) >= 0);
    fclose(f);
}

TEST(nothing_at_all)
{
    struct stream s;
    int to = start_reader(0, false);

    stream_init(&s, start_writer(0), to, true, room);
    pump(&s);
    close(to);
    expect_children(2);
}

TEST(a_reader_that_went_away_ends_the_stream)
{
    int out[2], status;
    struct stream s;

    signal(SIGPIPE, SIG_IGN);
    CHECK(pipe2(out, O_CLOEXEC) == 0);
    close(out[0]);
    stream_init(&s, start_writer(BIG), out[1], true, room);
    pump(&s);
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 1); /* it was told */
}

/* Nobody reads: moving returns at once, waits for the right side, and loses nothing. */
TEST(a_full_pipe_does_not_block)
{
    int out[2], from = start_writer(BIG / 10);
    size_t total = 0;
    struct stream s;
    struct pollfd p;
    ssize_t n;

    CHECK(pipe2(out, O_CLOEXEC | O_NONBLOCK) == 0);
    stream_init(&s, from, out[1], true, room);
    alarm(20);
    for (int i = 0; i < 50; i++) {
        usleep(2000);
        stream_move(&s);
    }
    stream_poll(&s, &p);
    CHECK(p.fd == out[1] && p.events == POLLOUT);
    while (stream_open(&s)) {
        stream_move(&s);
        while ((n = read(out[0], room, sizeof room)) > 0)
            for (ssize_t i = 0; i < n; i++)
                CHECK(room[i] == pattern(total++));
    }
    while ((n = read(out[0], room, sizeof room)) > 0)
        total += (size_t)n;
    CHECK_INT(total, BIG / 10);
    expect_children(1);
}

TEST(a_closed_stream_is_closed_once)
{
    struct pollfd p;
    struct stream s;
    int ends[2];

    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    stream_init(&s, ends[0], STDOUT_FILENO, true, room);
    stream_close(&s);
    CHECK(!stream_open(&s));
    stream_poll(&s, &p);
    CHECK_INT(p.fd, -1);
    CHECK_INT(open("/dev/null", O_RDONLY | O_CLOEXEC), ends[0]); /* the number is somebody else's */
    stream_close(&s);
    stream_move(&s);
    CHECK(fcntl(ends[0], F_GETFD) >= 0);
    stream_init(&s, -1, -1, false, NULL);
    stream_close(&s);
}
