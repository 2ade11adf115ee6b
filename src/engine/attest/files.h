/* What is in a directory: every file with its hash, and what of it may not leave a sandbox. */
#ifndef SEAL_FILES_H
#define SEAL_FILES_H

#include "base/arena.h"
#include "base/err.h"
#include "crypto/hash.h"
#include "json/writer.h"

enum {
    SEAL_FILES_MAX = 100000,
    SEAL_VIOLATIONS_MAX = 100, /* told; one is enough */
};

enum seal_kind { SEAL_FILE, SEAL_DIRECTORY, SEAL_LINK, SEAL_OTHER };
enum seal_change { SEAL_ADDED, SEAL_CHANGED, SEAL_SAME };
enum seal_content { SEAL_DATA, SEAL_ELF, SEAL_SCRIPT };

/* What an entry of an overlay's upper directory says about the lower one. */
enum seal_mark {
    SEAL_PLAIN,
    SEAL_WHITEOUT, /* what the lower one has there is gone */
    SEAL_OPAQUE,   /* a directory: all that the lower one has in it is gone */
};

extern const char *const seal_kinds[], *const seal_contents[], *const seal_changes[];

struct seal_file {
    const char *path; /* below the directory, without a leading slash */
    enum seal_kind kind;
    enum seal_content content;
    enum seal_change change; /* as seal_compare() says; before, added */
    enum seal_mark mark;
    bool has_lower; /* from an upper directory */
    unsigned mode;  /* permissions, with setuid, setgid and sticky */
    unsigned links; /* names of a file, wherever they are */
    uint64_t size;
    const char *target;                      /* of a link; else NULL */
    char sha256[2 * CRYPTO_SHA256_SIZE + 1]; /* of a file that was read; else "" */
};

struct seal_files {
    struct arena arena;
    struct seal_file *p; /* by path, byte by byte */
    size_t n, cap_;
    uint64_t read; /* bytes of files */
};

/* How a directory is read. */
struct seal_reading {
    const char *at;      /* before the paths, without slashes at its ends; "": nothing */
    bool itself;         /* the directory is listed too, as "AT/." */
    bool has_lower;      /* an overlay's upper directory: it has marks … */
    const char *below;   /* … in these directories of it only, as "usr+bin"; NULL or "": in all */
    uint64_t file_bytes; /* longer files, holes counted, are listed but not read; 0: none are */
    uint64_t bytes;      /* to read in all, with what was read before; 0: no ceiling */
};

void seal_files_done(struct seal_files *f);

/* All that is beneath dir, through no link. -ERR_TOO_BIG beyond SEAL_FILES_MAX. */
int seal_files_read(struct seal_files *f, int dir, struct err *e);

/* The same in pieces: adds what is beneath dir to files that were zeroed at first; then sorts. */
int seal_files_add(struct seal_files *f, int dir, const struct seal_reading *how, struct err *e);
void seal_files_sort(struct seal_files *f);

/* Whether two entries say the same, but for `change`. */
bool seal_file_same(const struct seal_file *a, const struct seal_file *b);

/* One file as an object. */
void seal_file_write(const struct seal_file *f, const char *change, struct json_writer *w);

/* Fills in `change`, against what was there before; writes the paths that are gone, as an array. */
void seal_compare(struct seal_files *f, const struct seal_files *before, struct json_writer *w);

/* What may leave: all zeros is nothing. */
struct seal_limits {
    uint64_t file_bytes, bytes, files;
};

/* Why a file may not leave, or NULL; `rule` is a stable word. */
const char *seal_refusal(const struct seal_file *f, const struct seal_limits *l,
                         const char **ret_rule);

/* The list as an array; and an array of those that may not leave, with rule and reason: how many.
 */
void seal_files_write(const struct seal_files *f, struct json_writer *w);
size_t seal_violations_write(const struct seal_files *f, const struct seal_limits *l,
                             struct json_writer *w);

#endif
