/* SPDX-License-Identifier: Apache-2.0 */
#include "control/egress/egress_tail.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "control/egress/egress_tail_file.h"
#include "engine/egress/chain.h"
#include "unit/control/fixture.h"
#include "lib/json/value.h"

#define DENIED                                                                                     \
    ",\"type_uid\":400105,\"message\":\"no \\\"action_id\\\":1\",\"action_id\":2,\"x\":0}"
#define ALLOWED ",\"type_uid\":400101,\"message\":\"yes\",\"action_id\":1,\"x\":0}"
#define CLOSED  ",\"type_uid\":400102,\"action_id\":1,\"x\":0}"
#define POLICY  ",\"type_uid\":501901,\"x\":0}"

/* --- lines and files --- */

TEST(a_line_says_when_and_what)
{
    enum egress_tail_kind kind = EGRESS_TAIL_KINDS_;

    CHECK_INT(egress_tail_line_time(STR("{\"time\":1794805033333" DENIED)), 1794805033333);
    CHECK_INT(egress_tail_line_time(STR("{\"time\":-1" DENIED)), -1);
    CHECK_INT(egress_tail_line_time(STR("{\"tim\":1,\"time\":2,")), -1);
    CHECK_INT(egress_tail_line_time(STR("")), -1);
    CHECK(egress_tail_line_kind(STR("{\"time\":1" DENIED), &kind) && kind == EGRESS_TAIL_DENIED);
    CHECK(egress_tail_line_kind(STR("{\"time\":1" ALLOWED), &kind) && kind == EGRESS_TAIL_ALLOWED);
    CHECK(egress_tail_line_kind(STR("{\"time\":1" CLOSED), &kind) && kind == EGRESS_TAIL_CLOSED);
    CHECK(!egress_tail_line_kind(STR("{\"time\":1" POLICY), &kind));
    CHECK(!egress_tail_line_kind(STR(""), &kind));
}

static int file_of(const char *name)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "state/egress/%s", name);
    fd = openat(fix.scratch.dir, path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    return fd;
}

static void write_line(int fd, long long time, const char *rest)
{
    CHECK(dprintf(fd, "{\"time\":%lld%s\n", time, rest) > 0);
}

TEST(a_time_is_found_in_a_long_file)
{
    AUTO_CLOSE int fd = memfd_create("log", MFD_CLOEXEC);
    char piece[1 << 10];
    int64_t at;

    CHECK_INT(egress_tail_file_name(fd), 0);
    CHECK_INT(egress_tail_file_seek(fd, 1), 0);
    for (int i = 0; i < 20000; i++)
        write_line(fd, 1000 + i, DENIED);
    CHECK_INT(egress_tail_file_name(fd), 1000);
    for (int wanted = 500; wanted < 22000; wanted += 997) {
        int64_t time;

        at = egress_tail_file_seek(fd, wanted);
        CHECK(egress_tail_file_read(fd, &at, piece, sizeof piece) > 0);
        time = egress_tail_line_time((struct str){ piece, sizeof piece });
        CHECK(time <= wanted || time == 1000);
        CHECK(wanted > 20999 || wanted - time < 1000);
    }
}

TEST(what_is_no_line_is_passed_over)
{
    AUTO_CLOSE int fd = memfd_create("log", MFD_CLOEXEC);
    char piece[64];
    int64_t at = 0;

    CHECK(dprintf(fd, "%0100d\nhalf", 0) > 0);
    CHECK_INT(egress_tail_file_read(fd, &at, piece, sizeof piece), 0);
    CHECK_INT(at, 64);
    CHECK_INT(egress_tail_file_read(fd, &at, piece, sizeof piece), 37);
    at = 101;
    CHECK_INT(egress_tail_file_read(fd, &at, piece, sizeof piece), 0);
    CHECK_INT(at, 101);
}

/* --- readers --- */

static struct egress_tail_reader reader;
static int woken, over;

static bool sees(struct egress_tail_reader *r, const char *box)
{
    return strcmp(box, "sbx_hidden") != 0;
}

static void on_more(struct egress_tail_reader *r)
{
    woken++;
}

static void on_over(struct egress_tail_reader *r, const char *box,
                    const struct egress_tail_place *at)
{
    over++;
}

static void listen_from(int64_t from_ms, bool resumes)
{
    reader = (struct egress_tail_reader){ .kinds = 1u << EGRESS_TAIL_DENIED,
                                          .from_ms = from_ms,
                                          .resumes = resumes,
                                          .sees = sees,
                                          .more = on_more,
                                          .finished = on_over };
    egress_tail_begin(fix.control, &reader);
}

/* The times of what comes, as text; those that are lost as "lost". */
static const char *heard(const char *box)
{
    static char text[256];
    struct egress_tail_line l;
    size_t n = 0;

    text[0] = '\0';
    egress_tail_scan(&reader, box);
    while (egress_tail_next(&reader, &l) > 0) {
        if (l.kind == EGRESS_TAIL_LOST)
            n += (size_t)snprintf(text + n, sizeof text - n, "lost ");
        else
            n += (size_t)snprintf(text + n, sizeof text - n, "%lld ", (long long)l.time_ms);
    }
    return text;
}

static void rotate(const char *now, const char *before)
{
    CHECK(renameat(fix.scratch.dir, now, fix.scratch.dir, before) == 0);
}

TEST(a_reader_has_its_place_in_every_file)
{
    AUTO_CLOSE int fd = -1;
    struct sandbox *s;
    char name[64], now[96], before[96];

    plane_open();
    s = new_sandbox();
    snprintf(name, sizeof name, "%s.jsonl", id_of(s));
    snprintf(now, sizeof now, "state/egress/%s", name);
    snprintf(before, sizeof before, "state/egress/%s.1", name);
    fd = file_of(name);
    listen_from(50, false);
    CHECK_STR(str_from(heard(id_of(s))), ""); /* nothing there yet */
    for (int i = 10; i < 100; i += 10)
        write_line(fd, i, i % 20 ? DENIED : ALLOWED);
    CHECK_STR(str_from(heard(id_of(s))), "50 70 90 ");
    CHECK_STR(str_from(heard(id_of(s))), "");
    write_line(fd, 40, DENIED); /* the clock was set: it is news all the same */
    CHECK_STR(str_from(heard(id_of(s))), "40 ");

    /* The next file; the worker still writes into the old one. */
    rotate(now, before);
    close(file_of(name));
    write_line(fd, 110, DENIED);
    CHECK_STR(str_from(heard(id_of(s))), "110 ");
    write_line(fd, 120, DENIED);
    close(take_fd(&fd));
    fd = file_of(name);
    write_line(fd, 130, DENIED);
    CHECK_STR(str_from(heard(id_of(s))), "120 130 ");

    /* Two more before it looks again. */
    for (int i = 0; i < 2; i++) {
        rotate(now, before);
        close(take_fd(&fd));
        fd = file_of(name);
        write_line(fd, 140 + i, DENIED);
    }
    CHECK_STR(str_from(heard(id_of(s))), "lost 140 141 ");
    CHECK_STR(str_from(heard("sbx_hidden")), "");
    CHECK_INT(over, 0);
    egress_tail_end(&reader);
    egress_tail_end(&reader);
    destroy(s);
    sandbox_unref(s);
    plane_close();
}

TEST(a_reader_follows_all_parts_in_their_order)
{
    struct sandbox *s;
    char dir[96], name[64], now[96], part[128];

    plane_open();
    s = new_sandbox();
    snprintf(name, sizeof name, "%s.jsonl", id_of(s));
    snprintf(now, sizeof now, "state/egress/%s", name);
    snprintf(dir, sizeof dir, "state/egress/%s.parts", id_of(s));
    CHECK(mkdirat(fix.scratch.dir, dir, 0700) == 0);
    for (int i = 1; i <= 12; i++) {
        int fd = file_of(name);

        write_line(fd, 10 * i, DENIED);
        close(fd);
        snprintf(part, sizeof part, "%s/%09d", dir, i);
        if (i < 12)
            rotate(now, part);
    }
    listen_from(25, true); /* the newest part that begins before */
    CHECK_STR(str_from(heard(id_of(s))), "30 40 50 60 70 80 90 100 110 120 ");
    egress_tail_end(&reader);
    listen_from(1, true);
    CHECK_STR(str_from(heard(id_of(s))), "10 20 30 40 50 60 70 80 90 100 110 120 ");
    egress_tail_end(&reader);
    destroy(s);
    sandbox_unref(s);
    plane_close();
}

TEST(a_reader_learns_that_lines_before_the_first_expired)
{
    char line[512] = "{\"time\":10" DENIED "\n", rest[] = "{\"x\":1}}\n";
    struct chain_place at = { .seq = 2 };
    AUTO_CLOSE int fd = -1;
    size_t n;

    plane_open();
    fd = file_of("sbx_cut.jsonl");
    snprintf(line + strlen(line) - 2, 64, ",\"unmapped\":%s", rest);
    n = chain_add(&at, true, NULL, line, strlen(line));
    CHECK(write(fd, line, n) == (ssize_t)n);
    listen_from(5, true);
    CHECK_STR(str_from(heard("sbx_cut")), "lost 10 ");
    egress_tail_end(&reader);
    plane_close();
}

TEST(a_reader_goes_on_where_it_was)
{
    AUTO_CLOSE int fd = -1, older = -1;

    plane_open();
    fd = file_of("sbx_gone.jsonl");
    older = file_of("sbx_gone.jsonl.1");
    write_line(older, 10, DENIED);
    write_line(older, 20, DENIED);
    write_line(fd, 30, DENIED);
    CHECK(dprintf(fd, "{\"time\":35,\"half") > 0); /* of a worker that died … */
    write_line(fd, 40, DENIED);                    /* … and of the next */
    write_line(fd, 50, DENIED);
    listen_from(20, true);
    CHECK_STR(str_from(heard("sbx_gone")), "20 30 50 ");
    CHECK_INT(over, 1); /* the box has ended */
    egress_tail_end(&reader);
    listen_from(5, true);
    CHECK_STR(str_from(heard("sbx_gone")), "10 20 30 50 ");
    woken = 0;
    egress_tail_scan(&reader, "sbx_gone");
    WAIT_FOR(woken);
    egress_tail_end(&reader);
    plane_close();
}
