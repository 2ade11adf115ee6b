/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a directory: every file with its hash, and the violations of the export rules. */
#ifndef ENGINE_ATTEST_FILES_H
#define ENGINE_ATTEST_FILES_H

#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "lib/crypto/hash.h"
#include "lib/json/writer.h"

enum {
    ATTEST_FILES_MAX = 100000,
    ATTEST_VIOLATIONS_MAX = 100, /* reported; one is enough for a refusal */
};

enum attest_kind { ATTEST_FILE, ATTEST_DIRECTORY, ATTEST_LINK, ATTEST_OTHER };
enum attest_change { ATTEST_ADDED, ATTEST_CHANGED, ATTEST_SAME };
enum attest_content { ATTEST_DATA, ATTEST_ELF, ATTEST_SCRIPT };

/* The mark of an entry in an overlay's upper directory. */
enum attest_mark {
    ATTEST_PLAIN,
    ATTEST_WHITEOUT, /* the lower entry is deleted */
    ATTEST_OPAQUE,   /* a directory: all that the lower one has in it is gone */
};

extern const char *const attest_kinds[], *const attest_contents[], *const attest_changes[];

struct attest_file {
    const char *path; /* below the directory, without a leading slash */
    enum attest_kind kind;
    enum attest_content content;
    enum attest_change change; /* as attest_compare() says; before, added */
    enum attest_mark mark;
    bool has_lower; /* from an upper directory */
    unsigned mode;  /* permissions, with setuid, setgid and sticky */
    unsigned links; /* names of a file, wherever they are */
    uint64_t size;
    const char *target;             /* of a link; else NULL */
    char sha256[CRYPTO_SHA256_HEX]; /* of a file that was read; else "" */
};

struct attest_files {
    struct arena arena;
    struct attest_file *p; /* by path, byte by byte */
    size_t n, cap_;
    uint64_t read; /* bytes of files */
};

/* How a directory is read. */
struct attest_reading {
    const char *at;      /* before the paths, without slashes at its ends; "": nothing */
    bool itself;         /* the directory is listed too, as "AT/." */
    bool has_lower;      /* an overlay's upper directory: it has marks … */
    const char *below;   /* … in these directories of it only, as "usr+bin"; NULL or "": in all */
    uint64_t file_bytes; /* longer files, holes counted, are listed but not read; 0: none are */
    uint64_t bytes;      /* to read in all, with what was read before; 0: no ceiling */
};

void attest_files_done(struct attest_files *f);

/* Lists everything beneath dir, following no link. -ERR_TOO_BIG beyond ATTEST_FILES_MAX. */
int attest_files_read(struct attest_files *f, int dir, struct err *e);

/* The same in steps: adds everything beneath dir to files that were zeroed at first; then sort. */
int attest_files_add(struct attest_files *f, int dir, const struct attest_reading *how,
                     struct err *e);
void attest_files_sort(struct attest_files *f);

/* Whether two entries are equal, except for `change`. */
bool attest_file_same(const struct attest_file *a, const struct attest_file *b);

/* One file as an object. */
void attest_file_write(const struct attest_file *f, const char *change, struct json_writer *w);

/* Fills in `change`, against what was there before; writes the paths that are gone, as an array. */
void attest_compare(struct attest_files *f, const struct attest_files *before,
                    struct json_writer *w);

/* Limits of the export: all zeros allow nothing. */
struct attest_limits {
    uint64_t file_bytes, bytes, files;
};

/* Why a file may not leave, or NULL; `rule` is a stable word. */
const char *attest_refusal(const struct attest_file *f, const struct attest_limits *l,
                           const char **ret_rule);

/* The list as an array; and an array of those that may not leave, with rule and reason: how
 * many. */
void attest_files_write(const struct attest_files *f, struct json_writer *w);
size_t attest_violations_write(const struct attest_files *f, const struct attest_limits *l,
                               struct json_writer *w);

/* Compares a directory with its signed manifest. */

/* Prints a line for each file that is missing, not in the manifest, or different; returns their
 * number. -ERR_INVALID if the text is not a manifest. */
int attest_verify(struct str manifest, const struct attest_files *files, FILE *to, struct err *e);

#endif
