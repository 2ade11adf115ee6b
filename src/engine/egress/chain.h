/* The hash chain of an egress log: what links its lines, and a reader that checks the links.
 *
 * Each line ends with its place in the chain, as the last members of `unmapped`:
 *
 *     …,"seq":7,"prev":"HEX","chain":"HEX","mac":"HEX"}}
 *
 *     seq    counts the lines of one sandbox from 1 on, over all files and workers
 *     prev   the chain value of the line before; only in the first line that a worker writes to a
 *            descriptor, so that the lines of a file can be checked without the file before it
 *     chain  SHA-256 over the chain value of the line before (32 bytes; zeros before the first)
 *            and this line's bytes up to here: everybody can check it
 *     mac    the first 16 bytes of HMAC-SHA-256 over the 32 bytes of `chain`, with a key that the
 *            daemon has: nobody else can continue the chain. Not in logs without a daemon.
 *
 * docs/egress-audit.md says what that detects. */
#ifndef EGRESS_CHAIN_H
#define EGRESS_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "crypto/hash.h"

enum {
    CHAIN_SIZE = CRYPTO_SHA256_SIZE, /* of a chain value, and of a key */
    CHAIN_MAC_SIZE = 16,
    CHAIN_TEXT_MAX = 256, /* bytes that the members add to a line */
};

/* A place in a chain: the last line so far. Zeroed: before the first. */
struct chain_place {
    uint64_t seq;
    unsigned char digest[CHAIN_SIZE];
};

bool chain_same(const struct chain_place *a, const struct chain_place *b);

/* The key of one sandbox's chain, from the daemon's. */
void chain_box_key(const unsigned char key[static CHAIN_SIZE], const char *box,
                   unsigned char ret[static CHAIN_SIZE]);

/* Adds its place to a line that ends in "}}\n" and has room for CHAIN_TEXT_MAX more bytes; *at
 * moves there. The new length. mac may be NULL. */
size_t chain_add(struct chain_place *at, bool with_prev, struct crypto_hmac *mac, char *line,
                 size_t n);

/* A line, taken apart; it has no newline. */
struct chain_line {
    struct chain_place place;
    bool has_prev, has_mac;
    unsigned char prev[CHAIN_SIZE];
    unsigned char mac[CHAIN_MAC_SIZE];
    struct str body; /* that the chain value is made of */
};

/* False: it has no place in a chain. */
bool chain_parse(struct str line, struct chain_line *ret);

/* The last whole line of a file: its place, if it has one, else a zeroed one; and where the line
 * ends. False: the file cannot be read. */
bool chain_tail(int fd, struct chain_place *ret, int64_t *ret_end);
/* The place before the first line of a file; false: there is no such line, or it names none. */
bool chain_head(int fd, struct chain_place *ret);

/* --- checking --- */

enum chain_fault {
    CHAIN_CHANGED,    /* a line's bytes are not those that were written */
    CHAIN_FORGED,     /* its chain value was computed without the key */
    CHAIN_MISSING,    /* lines are missing before it */
    CHAIN_REPEATED,   /* it was there before, or is out of order, or was inserted */
    CHAIN_UNREADABLE, /* it has no place in the chain, but lines before it have */
    CHAIN_BEGIN,      /* the lines before the first one are missing, and no cut says so */
    CHAIN_DIFFERS,    /* it is not the line that the daemon's chain recorded */
    CHAIN_SHORT,      /* lines that the daemon's chain recorded are missing at the end */
    CHAIN_FAULTS_,
};
extern const char *const chain_fault_names[CHAIN_FAULTS_]; /* "changed", … */

struct chain_finding {
    enum chain_fault fault;
    uint64_t seq, to; /* the line; of missing ones the first and the last */
    uint64_t line;    /* its number in what was read, from 1 */
    int64_t time_ms;  /* that it says; 0: none */
};

enum { CHAIN_FINDINGS_MAX = 16 };

/* A member of its owner; zeroed first. chain_read_text() is given a file, or several in their
 * order, in pieces of any size. */
struct chain_reader {
    /* in */
    const unsigned char *key; /* of the box; NULL: macs are not checked */
    bool open_begin; /* nothing is known of what was before the first line; and the chain may begin
                        again: a log that several workers without a daemon wrote */
    struct chain_place cut; /* the last line that rotation removed, or is about to; seq 0: none */
    const struct chain_place *anchors; /* lines that the daemon recorded, by ascending seq */
    size_t n_anchors;
    /* out */
    struct chain_place first_before, last; /* what was before the first line; the last line */
    uint64_t lines, unchained, begins;     /* all; those before the chain; how often it began */
    size_t partial;                        /* bytes of a last line that does not end */
    struct chain_finding findings[CHAIN_FINDINGS_MAX];
    size_t n_findings; /* all of them; the first ones are in the array */
    /* private */
    struct crypto_hmac mac_;
    size_t anchor_; /* the next one */
    bool begun_;
    bool skipping_; /* the rest of a line that is too long */
    char *line_;    /* what came of a line that is not whole yet */
    size_t n_;
};

void chain_read_text(struct chain_reader *r, struct str piece);
/* One file ends here: a line that does not end in it never does. */
void chain_end_file(struct chain_reader *r);
/* All was read: compares with the anchors. */
void chain_end(struct chain_reader *r);
void chain_reader_done(struct chain_reader *r); /* frees what is private; idempotent */

/* A sentence: what is wrong, where. */
void chain_explain(const struct chain_finding *f, char *ret, size_t cap);

#endif
