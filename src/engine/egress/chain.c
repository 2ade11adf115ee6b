/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/crypto/secret.h"
#include "engine/egress/limits.h"

enum {
    LINE_LIMIT = EGRESS_AUDIT_LINE_MAX,
    TAIL_BYTES = 2 * LINE_LIMIT,
    HEX = 2 * CHAIN_SIZE,
    MAC_HEX = 2 * CHAIN_MAC_SIZE,
};

const char *const chain_fault_names[CHAIN_FAULTS_] = {
    [CHAIN_CHANGED] = "changed",       [CHAIN_FORGED] = "forged",
    [CHAIN_MISSING] = "missing",       [CHAIN_REPEATED] = "repeated",
    [CHAIN_UNREADABLE] = "unreadable", [CHAIN_BEGIN] = "beginning_missing",
    [CHAIN_DIFFERS] = "differs",       [CHAIN_SHORT] = "end_missing",
};

static struct str chain_bytes(const void *p, size_t n)
{
    return (struct str){ p, n };
}

bool chain_same(const struct chain_place *a, const struct chain_place *b)
{
    return a->seq == b->seq && memcmp(a->digest, b->digest, CHAIN_SIZE) == 0;
}

void chain_box_key(const unsigned char key[static CHAIN_SIZE], const char *box,
                   unsigned char ret[static CHAIN_SIZE])
{
    char text[128];
    int n = snprintf(text, sizeof text, "egress log of %s", box);

    crypto_hmac_sha256(chain_bytes(key, CHAIN_SIZE), chain_bytes(text, (size_t)n), ret);
}

/* --- writing --- */

static size_t put_hex_member(char *to, struct str key, const unsigned char *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    char *at = to + key.n;

    memcpy(to, key.p, key.n);
    for (size_t i = 0; i < n; i++) {
        *at++ = digits[bytes[i] >> 4];
        *at++ = digits[bytes[i] & 15];
    }
    *at++ = '"';
    return (size_t)(at - to);
}

static void hash_line(const unsigned char before[static CHAIN_SIZE], struct str body,
                      unsigned char ret[static CHAIN_SIZE])
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };

    crypto_sha256_add(&h, chain_bytes(before, CHAIN_SIZE));
    crypto_sha256_add(&h, body);
    crypto_sha256_end(&h, ret);
}

size_t chain_add(struct chain_place *at, bool with_prev, struct crypto_hmac *mac, char *line,
                 size_t n)
{
    static const struct str end = STR("}}\n");
    unsigned char code[CRYPTO_SHA256_SIZE];

    n -= end.n;
    at->seq++;
    n += (size_t)snprintf(line + n, 32, ",\"seq\":%llu", (unsigned long long)at->seq);
    if (with_prev)
        n += put_hex_member(line + n, STR(",\"prev\":\""), at->digest, CHAIN_SIZE);
    hash_line(at->digest, chain_bytes(line, n), at->digest);
    n += put_hex_member(line + n, STR(",\"chain\":\""), at->digest, CHAIN_SIZE);
    if (mac) {
        crypto_hmac_of(mac, chain_bytes(at->digest, CHAIN_SIZE), code);
        n += put_hex_member(line + n, STR(",\"mac\":\""), code, CHAIN_MAC_SIZE);
    }
    memcpy(line + n, end.p, end.n);
    return n + end.n;
}

/* --- taking lines apart --- */

static int lower_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Cuts a member with `size` bytes in hex off the end of the text. */
static bool cut_hex_member(struct str *text, const char *key, size_t size, unsigned char *ret)
{
    struct str k = str_from(key);
    size_t n = k.n + 2 * size + 1;
    const char *at;

    if (text->n < n)
        return false;
    at = text->p + text->n - n;
    if (memcmp(at, k.p, k.n) != 0 || at[n - 1] != '"')
        return false;
    at += k.n;
    for (size_t i = 0; i < size; i++) {
        int high = lower_hex_digit(at[2 * i]), low = lower_hex_digit(at[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret[i] = (unsigned char)(high << 4 | low);
    }
    text->n -= n;
    return true;
}

/* Parses ,"seq":N at the end of the text; N has only one valid spelling. */
static bool cut_seq(struct str text, uint64_t *ret)
{
    static const struct str key = STR(",\"seq\":");
    size_t n = text.n;

    while (n > 0 && text.n - n < 20 && text.p[n - 1] >= '0' && text.p[n - 1] <= '9')
        n--;
    if (n == text.n || n < key.n || memcmp(text.p + n - key.n, key.p, key.n) != 0 ||
        text.p[n] == '0')
        return false;
    return str_to_u64(chain_bytes(text.p + n, text.n - n), ret) && *ret <= INT64_MAX;
}

bool chain_parse(struct str line, struct chain_line *ret)
{
    struct str rest = line;

    *ret = (struct chain_line){ 0 };
    if (line.n > LINE_LIMIT || !str_ends(line, STR("}}")))
        return false;
    rest.n -= 2;
    ret->has_mac = cut_hex_member(&rest, ",\"mac\":\"", CHAIN_MAC_SIZE, ret->mac);
    if (!cut_hex_member(&rest, ",\"chain\":\"", CHAIN_SIZE, ret->place.digest))
        return false;
    ret->body = rest;
    ret->has_prev = cut_hex_member(&rest, ",\"prev\":\"", CHAIN_SIZE, ret->prev);
    return cut_seq(rest, &ret->place.seq);
}

bool chain_tail(int fd, struct chain_place *ret, int64_t *ret_end)
{
    char text[TAIL_BYTES];
    struct stat st;
    struct chain_line line;
    struct str last;
    const char *end, *before;
    ssize_t n;
    off_t from;

    if (fstat(fd, &st) < 0)
        return false;
    from = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
    n = pread(fd, text, sizeof text, from);
    if (n < 0)
        return false;
    *ret = (struct chain_place){ 0 };
    end = n ? memrchr(text, '\n', (size_t)n) : NULL;
    *ret_end = end ? from + (end - text) + 1 : from;
    if (!end)
        return true;
    before = end == text ? NULL : memrchr(text, '\n', (size_t)(end - text));
    last.p = before ? before + 1 : text;
    last.n = (size_t)(end - last.p);
    if (chain_parse(last, &line))
        *ret = line.place;
    return true;
}

bool chain_head(int fd, struct chain_place *ret)
{
    char text[LINE_LIMIT];
    ssize_t n = pread(fd, text, sizeof text, 0);
    const char *end = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;
    struct chain_line line;

    if (!end || !chain_parse(chain_bytes(text, (size_t)(end - text)), &line) || !line.has_prev)
        return false;
    ret->seq = line.place.seq - 1;
    memcpy(ret->digest, line.prev, CHAIN_SIZE);
    return true;
}

/* --- checking --- */

static int64_t time_of(struct str line)
{
    static const struct str key = STR("{\"time\":");
    struct str digits;
    uint64_t ms;

    if (!str_starts(line, key))
        return 0;
    str_cut(chain_bytes(line.p + key.n, line.n - key.n), ',', &digits);
    return str_to_u64(digits, &ms) && ms < INT64_MAX ? (int64_t)ms : 0;
}

static void note_chain_fault(struct chain_reader *r, enum chain_fault fault, uint64_t seq,
                             uint64_t to, struct str line)
{
    size_t i = r->n_findings++;

    if (i < CHAIN_FINDINGS_MAX)
        r->findings[i] = (struct chain_finding){
            .fault = fault, .seq = seq, .to = to, .line = r->lines, .time_ms = time_of(line)
        };
}

static bool begins_chain(const struct chain_line *l)
{
    static const unsigned char none[CHAIN_SIZE];

    return l->place.seq == 1 && l->has_prev && memcmp(l->prev, none, CHAIN_SIZE) == 0;
}

/* A log may begin with the first line of all, the first behind a cut, or the first of a file whose
 * removal is recorded but that still exists. */
static void begin_chain(struct chain_reader *r, const struct chain_line *l, struct str line)
{
    struct chain_place before = { .seq = l->place.seq - 1 };

    memcpy(before.digest, l->prev, CHAIN_SIZE);
    if (!begins_chain(l) && !(l->has_prev && (r->open_begin || before.seq < r->cut.seq ||
                                              chain_same(&before, &r->cut))))
        note_chain_fault(r, CHAIN_BEGIN, 1, l->place.seq - 1, line);
    r->last = before;
    if (!r->begun_)
        r->first_before = before;
    r->begun_ = true;
    r->begins++;
}

static bool mac_is_good(struct chain_reader *r, const struct chain_line *l)
{
    unsigned char code[CRYPTO_SHA256_SIZE];

    if (!r->key)
        return true;
    if (!r->mac_.context_)
        crypto_hmac_init(&r->mac_, chain_bytes(r->key, CHAIN_SIZE));
    crypto_hmac_of(&r->mac_, chain_bytes(l->place.digest, CHAIN_SIZE), code);
    return l->has_mac &&
           crypto_equal(chain_bytes(code, CHAIN_MAC_SIZE), chain_bytes(l->mac, CHAIN_MAC_SIZE));
}

static void check_anchors(struct chain_reader *r, const struct chain_line *l, struct str line)
{
    bool same = r->cut.seq != l->place.seq || chain_same(&r->cut, &l->place);

    while (r->anchor_ < r->n_anchors && r->anchors[r->anchor_].seq < l->place.seq)
        r->anchor_++;
    for (; r->anchor_ < r->n_anchors && r->anchors[r->anchor_].seq == l->place.seq; r->anchor_++)
        same = same && chain_same(&r->anchors[r->anchor_], &l->place);
    if (!same)
        note_chain_fault(r, CHAIN_DIFFERS, l->place.seq, l->place.seq, line);
}

static void check_link(struct chain_reader *r, const struct chain_line *l, struct str line)
{
    const unsigned char *before = r->last.digest;
    unsigned char digest[CHAIN_SIZE];
    uint64_t seq = l->place.seq, next = r->last.seq + 1;

    if (seq < next) {
        note_chain_fault(r, CHAIN_REPEATED, seq, seq, line);
        return; /* the lines behind it may be valid */
    }
    if (seq > next) {
        note_chain_fault(r, CHAIN_MISSING, next, seq - 1, line);
    } else {
        hash_line(before, l->body, digest);
        if (memcmp(digest, l->place.digest, CHAIN_SIZE) != 0 ||
            (l->has_prev && memcmp(l->prev, before, CHAIN_SIZE) != 0))
            note_chain_fault(r, CHAIN_CHANGED, seq, seq, line);
        else if (!mac_is_good(r, l))
            note_chain_fault(r, CHAIN_FORGED, seq, seq, line);
        else
            check_anchors(r, l, line);
    }
    r->last = l->place;
}

static void check_unreadable_line(struct chain_reader *r, struct str line)
{
    r->lines++;
    if (r->begun_)
        note_chain_fault(r, CHAIN_UNREADABLE, r->last.seq, r->last.seq, line);
    else
        r->unchained++;
}

static void check_line(struct chain_reader *r, struct str line)
{
    struct chain_line l;

    if (!chain_parse(line, &l)) {
        check_unreadable_line(r, line);
        return;
    }
    r->lines++;
    if (!r->begun_ || (r->open_begin && begins_chain(&l)))
        begin_chain(r, &l, line);
    check_link(r, &l, line);
}

static void keep_unfinished(struct chain_reader *r, struct str piece)
{
    if (!r->line_ && !(r->line_ = malloc(LINE_LIMIT)))
        abort();
    if (r->skipping_ || piece.n > LINE_LIMIT - r->n_) {
        r->skipping_ = true;
        return;
    }
    if (piece.n)
        memcpy(r->line_ + r->n_, piece.p, piece.n);
    r->n_ += piece.n;
}

void chain_read_text(struct chain_reader *r, struct str piece)
{
    while (piece.n) {
        const char *end = memchr(piece.p, '\n', piece.n);
        size_t n = end ? (size_t)(end - piece.p) : piece.n;
        struct str line;

        if (!end) {
            keep_unfinished(r, piece);
            return;
        }
        line = chain_bytes(piece.p, n);
        piece = chain_bytes(piece.p + n + 1, piece.n - n - 1);
        if (r->n_ || r->skipping_) {
            keep_unfinished(r, line);
            line = chain_bytes(r->line_, r->n_);
        }
        if (r->skipping_ || line.n > LINE_LIMIT)
            check_unreadable_line(r, (struct str){ 0 });
        else
            check_line(r, line);
        r->n_ = 0;
        r->skipping_ = false;
    }
}

void chain_end_file(struct chain_reader *r)
{
    r->partial += r->n_;
    if (r->skipping_)
        check_unreadable_line(r, (struct str){ 0 });
    r->n_ = 0;
    r->skipping_ = false;
}

void chain_end(struct chain_reader *r)
{
    uint64_t most = r->n_anchors ? r->anchors[r->n_anchors - 1].seq : 0;
    /* the cut may have removed the whole log */
    uint64_t last = r->lines ? r->last.seq : r->cut.seq;

    if (most > last)
        note_chain_fault(r, CHAIN_SHORT, last + 1, most, (struct str){ 0 });
}

void chain_reader_done(struct chain_reader *r)
{
    crypto_hmac_done(&r->mac_);
    free(take_ptr(r->line_));
}

void chain_explain(const struct chain_finding *f, char *ret, size_t cap)
{
    unsigned long long seq = f->seq, to = f->to, line = f->line;

    switch (f->fault) {
    case CHAIN_CHANGED:
        snprintf(ret, cap, "line %llu (seq %llu) was changed after it was written", line, seq);
        return;
    case CHAIN_FORGED:
        snprintf(ret, cap, "line %llu (seq %llu) was written without the daemon's key", line, seq);
        return;
    case CHAIN_MISSING:
        snprintf(ret, cap, "lines with seq %llu to %llu are missing before line %llu", seq, to,
                 line);
        return;
    case CHAIN_REPEATED:
        snprintf(ret, cap, "line %llu (seq %llu) was inserted, repeated or moved", line, seq);
        return;
    case CHAIN_UNREADABLE:
        snprintf(ret, cap, "line %llu, behind seq %llu, has no place in the chain", line, seq);
        return;
    case CHAIN_BEGIN:
        snprintf(ret, cap,
                 "lines up to seq %llu are missing, and no retention cut accounts for them", to);
        return;
    case CHAIN_DIFFERS:
        snprintf(ret, cap, "line %llu (seq %llu) is not the one that the daemon's chain recorded",
                 line, seq);
        return;
    case CHAIN_SHORT:
        snprintf(ret, cap, "lines with seq %llu to %llu are missing at the end", seq, to);
        return;
    case CHAIN_FAULTS_:
        break;
    }
    snprintf(ret, cap, "line %llu", line);
}
