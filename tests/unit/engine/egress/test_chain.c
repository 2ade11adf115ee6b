/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/chain.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "engine/egress/limits.h"
#include "harness/tap.h"

enum { LINES = 9 };

static const unsigned char key[CHAIN_SIZE] = "a key of this test's";
static char lines[LINES][EGRESS_AUDIT_LINE_MAX]; /* with their newlines */
static struct chain_place places[LINES];

/* Two files: the second begins with line 6. */
static void write_lines(const unsigned char *with)
{
    AUTO(crypto_hmac_done) struct crypto_hmac mac = { 0 };
    struct chain_place at = { 0 };

    if (with)
        crypto_hmac_init(&mac, (struct str){ (const char *)with, CHAIN_SIZE });
    for (size_t i = 0; i < LINES; i++) {
        size_t n =
            (size_t)snprintf(lines[i], sizeof lines[i],
                             "{\"time\":%zu,\"message\":\"m\",\"unmapped\":{\"a\":1}}\n", 1000 + i);

        n = chain_add(&at, i == 0 || i == 5, with ? &mac : NULL, lines[i], n);
        lines[i][n] = 0;
        places[i] = at;
    }
}

static void read_lines(struct chain_reader *r, const size_t *which, size_t n)
{
    for (size_t i = 0; i < n; i++)
        chain_read_text(r, str_from(lines[which[i]]));
    chain_end_file(r);
    chain_end(r);
}

static void expect(struct chain_reader *r, const size_t *which, size_t n, enum chain_fault fault,
                   uint64_t seq)
{
    char text[192];

    r->key = key;
    read_lines(r, which, n);
    if (fault == CHAIN_FAULTS_) {
        if (r->n_findings)
            chain_explain(&r->findings[0], text, sizeof text);
        CHECK_STR(str_from(r->n_findings ? text : ""), "");
    } else {
        CHECK(r->n_findings > 0);
        chain_explain(&r->findings[0], text, sizeof text);
        CHECK_STR(str_from(chain_fault_names[r->findings[0].fault]), chain_fault_names[fault]);
        CHECK_INT(r->findings[0].seq, seq);
    }
    chain_reader_done(r);
}

#define WITH(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define EXPECT(fault, seq, in, ...)                                                                \
    expect(&(struct chain_reader)in, (const size_t[]){ __VA_ARGS__ },                              \
           sizeof((const size_t[]){ __VA_ARGS__ }) / sizeof(size_t), (fault), (seq))
#define ANY WITH(0)

TEST(a_chain_that_is_whole_is_good)
{
    write_lines(key);
    EXPECT(CHAIN_FAULTS_, 0, ANY, 0, 1, 2, 3, 4, 5, 6, 7, 8);
    EXPECT(CHAIN_FAULTS_, 0, ANY, 0, 1, 2);
    CHECK_INT(places[8].seq, 9);
}

TEST(what_is_moved_removed_or_added_is_found)
{
    write_lines(key);
    EXPECT(CHAIN_MISSING, 4, ANY, 0, 1, 2, 4, 5, 6);
    EXPECT(CHAIN_MISSING, 3, ANY, 0, 1, 3, 2, 4);
    EXPECT(CHAIN_REPEATED, 3, ANY, 0, 1, 2, 2, 3);
    EXPECT(CHAIN_REPEATED, 1, ANY, 0, 1, 2, 0, 3);
    EXPECT(CHAIN_BEGIN, 1, ANY, 1, 2, 3);
    EXPECT(CHAIN_BEGIN, 1, ANY, 5, 6, 7);
}

TEST(every_byte_of_a_line_counts)
{
    write_lines(key);
    for (size_t at = 0; lines[3][at + 1]; at++) {
        struct chain_reader r = { .key = key };
        char was = lines[3][at];

        lines[3][at] = was == '1' ? '2' : '1';
        read_lines(&r, (const size_t[]){ 0, 1, 2, 3, 4, 5 }, 6);
        if (r.n_findings == 0)
            FAIL("byte %zu of %s", at, lines[3]);
        lines[3][at] = was;
        chain_reader_done(&r);
    }
}

TEST(without_the_key_nothing_can_be_continued)
{
    static const unsigned char other[CHAIN_SIZE] = "another";

    write_lines(other);
    EXPECT(CHAIN_FORGED, 1, ANY, 0, 1);
    write_lines(NULL);
    EXPECT(CHAIN_FORGED, 1, ANY, 0, 1);
}

TEST(a_cut_accounts_for_what_is_not_there)
{
    write_lines(key);
    EXPECT(CHAIN_FAULTS_, 0, WITH(.cut = places[4]), 5, 6, 7, 8);
    EXPECT(CHAIN_BEGIN, 1, WITH(.cut = places[3]), 5, 6, 7, 8);
    /* on record, and not done yet */
    EXPECT(CHAIN_FAULTS_, 0, WITH(.cut = places[4]), 0, 1, 2, 3, 4, 5, 6);
}

TEST(anchors_show_what_a_chain_cannot)
{
    struct chain_place wrong = places[2];

    write_lines(key);
    wrong = places[2];
    wrong.digest[0] ^= 1;
    EXPECT(CHAIN_SHORT, 6, WITH(.anchors = places, .n_anchors = 8), 0, 1, 2, 3, 4);
    EXPECT(CHAIN_FAULTS_, 0, WITH(.anchors = places, .n_anchors = 5), 0, 1, 2, 3, 4, 5);
    EXPECT(CHAIN_DIFFERS, 3, WITH(.anchors = &wrong, .n_anchors = 1), 0, 1, 2, 3, 4);
    EXPECT(CHAIN_FAULTS_, 0, WITH(.cut = places[4], .anchors = places, .n_anchors = 9), 5, 6, 7, 8);
}

TEST(lines_from_before_the_chain_are_counted)
{
    struct chain_reader r = { .key = key };

    write_lines(key);
    chain_read_text(&r, STR("{\"time\":1}\n{\"time\":2}\n"));
    read_lines(&r, (const size_t[]){ 0, 1, 2 }, 3);
    CHECK_INT(r.n_findings, 0);
    CHECK_INT(r.unchained, 2);
    CHECK_INT(r.lines, 5);
    chain_read_text(&r, STR("{\"time\":3}\n"));
    CHECK_INT(r.findings[0].fault, CHAIN_UNREADABLE);
    chain_reader_done(&r);
}

TEST(pieces_of_any_size_are_the_same_lines)
{
    write_lines(key);
    for (size_t size = 1; size < 400; size += 7) {
        AUTO(buf_done) struct buf all = BUF_INIT(1 << 20);
        AUTO(chain_reader_done) struct chain_reader r = { .key = key };
        struct str rest;

        for (size_t i = 0; i < LINES; i++)
            buf_add(&all, str_from(lines[i]));
        buf_add(&all, STR("{\"half"));
        for (rest = buf_str(&all); rest.n;) {
            size_t n = rest.n < size ? rest.n : size;

            chain_read_text(&r, (struct str){ rest.p, n });
            rest = (struct str){ rest.p + n, rest.n - n };
        }
        chain_end_file(&r);
        CHECK_INT(r.lines, LINES);
        CHECK_INT(r.n_findings, 0);
        CHECK_INT(r.partial, 6);
    }
}

TEST(a_line_that_is_too_long_is_not_kept)
{
    AUTO(chain_reader_done) struct chain_reader r = { .key = key };
    char piece[4096];

    write_lines(key);
    chain_read_text(&r, str_from(lines[0]));
    memset(piece, 'x', sizeof piece);
    for (int i = 0; i < 100; i++)
        chain_read_text(&r, (struct str){ piece, sizeof piece });
    chain_read_text(&r, STR("\n"));
    chain_read_text(&r, str_from(lines[1]));
    CHECK_INT(r.n_findings, 1);
    CHECK_INT(r.findings[0].fault, CHAIN_UNREADABLE);
    CHECK_INT(r.last.seq, 2);
}

TEST(the_ends_of_files_are_found)
{
    AUTO_CLOSE int fd = memfd_create("log", MFD_CLOEXEC);
    struct chain_place at;
    int64_t end;

    write_lines(key);
    CHECK(chain_tail(fd, &at, &end) && at.seq == 0 && end == 0);
    CHECK(!chain_head(fd, &at));
    for (size_t i = 5; i < LINES; i++)
        CHECK(write(fd, lines[i], strlen(lines[i])) > 0);
    CHECK(chain_head(fd, &at) && chain_same(&at, &places[4]));
    CHECK(chain_tail(fd, &at, &end) && chain_same(&at, &places[8]));
    CHECK_INT(end, lseek(fd, 0, SEEK_END));
    CHECK(write(fd, lines[0], 20) == 20);
    CHECK(chain_tail(fd, &at, &end) && chain_same(&at, &places[8]));
    CHECK_INT(end, lseek(fd, 0, SEEK_END) - 20);
}

TEST(a_log_of_several_workers_without_a_daemon_begins_again)
{
    AUTO(chain_reader_done) struct chain_reader r = { .open_begin = true };

    write_lines(NULL);
    read_lines(&r, (const size_t[]){ 0, 1, 2, 0, 1, 2, 3 }, 7);
    CHECK_INT(r.n_findings, 0);
    CHECK_INT(r.begins, 2);
}
