/* SPDX-License-Identifier: Apache-2.0 */
/* The hash chain of an egress log: the members that link its lines, and a reader that checks the
 * links.
 *
 * Each line ends with its place in the chain, as the last members of `unmapped`:
 *
 *     …,"seq":7,"prev":"HEX","chain":"HEX","mac":"HEX"}}
 *
 *     seq    counts the lines of one sandbox from 1 on, over all files and workers
 *     prev   the chain value of the line before; only in the first line that a worker writes to a
 *            descriptor, so that the lines of a file can be checked without the file before it
 *     chain  SHA-256 over the chain value of the line before (32 bytes; zeros before the first)
 *            and this line's bytes up to here: can be checked without a key
 *     mac    the first 16 bytes of HMAC-SHA-256 over the 32 bytes of `chain`, with a key that only
 *            the daemon has, so that only the daemon can continue the chain. Not in logs without a
 *            daemon.
 *
 * docs/egress-audit.md describes which changes this detects. */
#ifndef ENGINE_EGRESS_CHAIN_H
#define ENGINE_EGRESS_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "lib/crypto/hash.h"

enum {
    CHAIN_SIZE = CRYPTO_SHA256_SIZE, /* of a chain value and of a key */
    CHAIN_MAC_SIZE = 16,
    CHAIN_TEXT_MAX = 256, /* bytes that the members add to a line */
};

/* A place in a chain: the last line so far. Zeroed: before the first line. */
struct chain_place {
    uint64_t seq;
    unsigned char digest[CHAIN_SIZE];
};

bool chain_same(const struct chain_place *a, const struct chain_place *b);

/* Derives the key of one sandbox's chain from the daemon's key. */
void chain_box_key(const unsigned char key[static CHAIN_SIZE], const char *box,
                   unsigned char ret[static CHAIN_SIZE]);

/* Adds the chain members to a line that ends in "}}\n" and has room for CHAIN_TEXT_MAX more bytes.
 * Advances *at, and returns the new length. mac may be NULL. */
size_t chain_add(struct chain_place *at, bool with_prev, struct crypto_hmac *mac, char *line,
                 size_t n);

/* A parsed line, without its newline. */
struct chain_line {
    struct chain_place place;
    bool has_prev, has_mac;
    unsigned char prev[CHAIN_SIZE];
    unsigned char mac[CHAIN_MAC_SIZE];
    struct str body; /* the part that the chain value covers */
};

/* Returns false if the line has no chain members. */
bool chain_parse(struct str line, struct chain_line *ret);

/* Returns the place of the last complete line of a file (zeroed if the line has none) and the
 * offset of its end. False if the file cannot be read. */
bool chain_tail(int fd, struct chain_place *ret, int64_t *ret_end);
/* Returns the place before the first line of a file; false if there is no line, or it has no
 * `prev`. */
bool chain_head(int fd, struct chain_place *ret);

/* --- checking --- */

enum chain_fault {
    CHAIN_CHANGED,    /* the line's bytes were changed */
    CHAIN_FORGED,     /* its chain value was computed without the key */
    CHAIN_MISSING,    /* lines are missing before it */
    CHAIN_REPEATED,   /* it repeats a line, is out of order, or was inserted */
    CHAIN_UNREADABLE, /* it has no chain members, but earlier lines have */
    CHAIN_BEGIN,      /* the lines before the first one are missing, and no cut is recorded */
    CHAIN_DIFFERS,    /* it differs from the line that the daemon's chain recorded */
    CHAIN_SHORT,      /* lines that the daemon's chain recorded are missing at the end */
    CHAIN_FAULTS_,
};
extern const char *const chain_fault_names[CHAIN_FAULTS_]; /* "changed", … */

struct chain_finding {
    enum chain_fault fault;
    uint64_t seq, to; /* the line; of missing lines the first and the last */
    uint64_t line;    /* its number in the text that was read, from 1 */
    int64_t time_ms;  /* the line's own time; 0: none */
};

enum { CHAIN_FINDINGS_MAX = 16 };

/* A member of its owner; zeroed before use. chain_read_text() gets one file, or several in their
 * order, in pieces of any size. */
struct chain_reader {
    /* in */
    const unsigned char *key; /* of the box; NULL: macs are not checked */
    /* the chain before the first line is unknown, and the chain may begin again: a log of several
     * workers without a daemon */
    bool open_begin;
    /* the last line that rotation removed or is about to remove; seq 0: none */
    struct chain_place cut;
    const struct chain_place *anchors; /* lines that the daemon recorded, by ascending seq */
    size_t n_anchors;
    /* out */
    struct chain_place first_before, last; /* the place before the first line; the last line */
    /* all lines; lines before the chain; number of times that it began */
    uint64_t lines, unchained, begins;
    size_t partial; /* bytes of an incomplete last line */
    struct chain_finding findings[CHAIN_FINDINGS_MAX];
    size_t n_findings; /* all of them; only the first are in the array */
    /* private */
    struct crypto_hmac mac_;
    size_t anchor_; /* the next one */
    bool begun_;
    bool skipping_; /* inside a line that is too long */
    char *line_;    /* the bytes of an incomplete line */
    size_t n_;
};

void chain_read_text(struct chain_reader *r, struct str piece);
/* The end of one file: an incomplete line stays incomplete. */
void chain_end_file(struct chain_reader *r);
/* The end of the log: compares with the anchors. */
void chain_end(struct chain_reader *r);
void chain_reader_done(struct chain_reader *r); /* frees the private members; idempotent */

/* Describes a finding in a sentence. */
void chain_explain(const struct chain_finding *f, char *ret, size_t cap);

#endif
