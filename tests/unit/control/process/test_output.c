/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "control/process/output.h"
#include "harness/tap.h"
#include "unit/lib/tar/scratch.h"

#define BOX "sbx_00000000000000000001"

static struct err e;
static struct scratch place;

static struct process_output open_output(void)
{
    struct process_output o;

    if (!place.path[0])
        place = scratch_make();
    CHECK_OK(output_open(&o, place.dir, BOX, 7, OUTPUT_MAKE, &e), e);
    return o;
}

/* Everything that can be read, as "1:text2:text", one channel after the other as they come. */
static struct str all_of(const struct process_output *o, uint64_t from)
{
    static char text[4 << 20];
    struct output_cursor c = { .at = from };
    size_t at = 0, n;
    int channel, before = 0;

    for (;;) {
        char bytes[1000];

        n = output_read(o, &c, &channel, bytes, sizeof bytes);
        if (!n)
            return (struct str){ text, at };
        if (channel != before) {
            text[at++] = (char)('0' + channel);
            text[at++] = ':';
        }
        before = channel;
        memcpy(text + at, bytes, n);
        at += n;
    }
}

TEST(channels_keep_their_order_over_a_restart)
{
    struct process_output o = open_output();

    output_append(&o, 1, STR("one "));
    output_append(&o, 1, STR("two "));
    output_append(&o, 2, STR("three "));
    CHECK_STR(all_of(&o, 0), "1:one two 2:three ");
    CHECK_STR(all_of(&o, 6), "1:o 2:three ");
    output_close(&o);
    o = open_output();
    CHECK_INT(o.total, 14);
    output_append(&o, 2, STR("four"));
    output_append(&o, 1, STR("five"));
    CHECK_STR(all_of(&o, 0), "1:one two 2:three four1:five");
    output_close(&o);
}

TEST(a_torn_end_is_cut_off)
{
    struct process_output o = open_output();
    int fd;

    output_append(&o, 1, STR("whole"));
    output_close(&o);
    fd = openat(place.dir, "output/" BOX "/7.0", O_WRONLY | O_APPEND);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, "\x10\0\0\0\1\0\0\0torn", 12), 12);
    close(fd);
    o = open_output();
    CHECK_STR(all_of(&o, 0), "1:whole");
    output_append(&o, 1, STR(" again"));
    CHECK_STR(all_of(&o, 0), "1:whole again");
    output_close(&o);
}

TEST(the_last_bytes_are_kept_and_the_disk_is_bounded)
{
    static char line[1000];
    struct process_output o = open_output();
    struct output_cursor c = { 0 };
    struct stat st;
    uint64_t got = 0;
    int channel;

    for (int i = 0; i < 5000; i++) {
        memset(line, 'a' + i % 26, sizeof line);
        output_append(&o, 1 + i % 2, (struct str){ line, sizeof line });
        if (i == 4000) { /* in the middle of everything */
            output_close(&o);
            o = open_output();
        }
    }
    CHECK_INT(o.total, 5000000);
    CHECK(output_start(&o) <= o.total - OUTPUT_KEEP);
    for (int i = 0; i < 2; i++) {
        CHECK(fstat(o.file[i].fd, &st) == 0);
        CHECK(st.st_size <= OUTPUT_FILE_MAX + OUTPUT_RECORD_MAX + 16);
    }
    c.at = o.total - OUTPUT_KEEP;
    for (size_t n; (n = output_read(&o, &c, &channel, line, sizeof line)); got += n) {
        uint64_t number = (c.at - n) / 1000;

        CHECK_INT(line[0], 'a' + number % 26);
        CHECK_INT(channel, 1 + number % 2);
    }
    CHECK_INT(got, OUTPUT_KEEP);
    output_close(&o);
}

TEST(a_second_file_is_made_when_the_first_is_full)
{
    static char piece[OUTPUT_RECORD_MAX];
    struct process_output o = open_output();

    output_append(&o, 1, STR("little"));
    CHECK(!exists(place.dir, "output/" BOX "/7.1"));
    while (o.total <= OUTPUT_FILE_MAX)
        output_append(&o, 1, (struct str){ piece, sizeof piece });
    CHECK(exists(place.dir, "output/" BOX "/7.1"));
    CHECK_INT(output_start(&o), 0);
    output_close(&o);
    CHECK_OK(output_open(&o, place.dir, BOX, 7, OUTPUT_READ, &e), e);
    CHECK_INT(output_start(&o), 0);
    output_close(&o);
}

TEST(a_reader_that_is_left_behind_goes_on_with_what_is_kept)
{
    static char line[60000];
    struct process_output o = open_output();
    struct output_cursor c = { 0 };
    int channel;

    output_append(&o, 1, STR("first"));
    CHECK_INT(output_read(&o, &c, &channel, line, 3), 3);
    for (int i = 0; i < 100; i++)
        output_append(&o, 1, (struct str){ line, sizeof line });
    CHECK(output_read(&o, &c, &channel, line, sizeof line) > 0);
    CHECK(c.at > output_start(&o));
    output_close(&o);
}

TEST(what_cannot_be_written_is_lost_and_counted)
{
    struct process_output o = OUTPUT_INIT;

    output_append(&o, 1, STR("nowhere"));
    CHECK_INT(o.total, 7);
    CHECK_INT(output_start(&o), 7);
    CHECK_STR(all_of(&o, 0), "");
}

TEST(files_of_strangers_are_not_followed_and_garbage_is_no_output)
{
    struct process_output o = open_output();

    output_append(&o, 1, STR("text"));
    output_close(&o);
    CHECK(shell("echo garbage > %s/output/" BOX "/7.0", place.path));
    o = open_output();
    CHECK_INT(o.total, 0);
    CHECK_STR(all_of(&o, 0), "");
    output_append(&o, 2, STR("new"));
    output_close(&o);
    o = open_output();
    CHECK_STR(all_of(&o, 0), "2:new");
    output_close(&o);
    CHECK(shell("cd %s/output/" BOX " && rm 7.0 && ln -s /etc/passwd 7.0", place.path));
    CHECK(output_open(&o, place.dir, BOX, 7, OUTPUT_MAKE, &e) < 0);
}

static bool knows_none(void *user, const char *id)
{
    return false;
}

TEST(removing_leaves_nothing)
{
    struct process_output o = open_output();

    output_append(&o, 1, STR("text"));
    output_close(&o);
    output_remove(place.dir, BOX, 7);
    CHECK(!exists(place.dir, "output/" BOX "/7.0"));
    o = open_output();
    output_close(&o);
    output_sweep(place.dir, knows_none, NULL);
    CHECK(!exists(place.dir, "output/" BOX));
    output_remove_all(place.dir, BOX);
}

TEST(output_that_may_not_grow_keeps_the_newest)
{
    static char block[16 << 10];
    struct quota q;
    struct quota_hold hold = { 0 };
    const struct quota_who who = { .key = STR("uid:1"), .parts = { STR("tok_1"), STR("sbx_1") } };
    struct process_output o;
    struct output_cursor at = { 0 };
    uint64_t total = 0;
    char got[4096];
    bool found = false;
    int channel;

    quota_init(&q, &(struct quota_limits){ .share = 3 * OUTPUT_FLOOR }, "bytes", "", "");
    CHECK_OK(quota_take(&q, &who, OUTPUT_FLOOR, &hold, &e), e);
    place = scratch_make();
    CHECK_OK(output_open(&o, place.dir, BOX, 9, OUTPUT_MAKE, &e), e);
    output_bound(&o, &hold, 0);
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 100; i++) {
        output_append(&o, 1, (struct str){ block, sizeof block - (size_t)i });
        total += sizeof block - (size_t)i;
        CHECK(q.used <= 3 * OUTPUT_FLOOR && output_size(&o) <= hold.n);
        if (i > 6) /* half of what it may have, but for what frames it */
            CHECK(o.total - output_start(&o) >= OUTPUT_FLOOR / 16 * 23);
    }
    output_append(&o, 1, STR("the end"));
    CHECK(output_size(&o) <= 3 * OUTPUT_FLOOR);
    CHECK(q.used >= output_size(&o));
    CHECK_INT(o.total, total + 7);
    for (size_t n; (n = output_read(&o, &at, &channel, got, sizeof got)) > 0;)
        found = n >= 7 && memcmp(got + n - 7, "the end", 7) == 0;
    CHECK(found);
    output_close(&o);
    quota_drop(&hold);
    quota_done(&q);
}
