/* What a process wrote, kept on disk: two files that take turns, so that the last PROCESS_KEEP
 * bytes at least are there and the disk holds a bounded amount.
 *
 * A file begins with the position of its first byte among everything the process ever wrote; then
 * come records: a channel, a length, bytes. Records are only added at the end, or the last one
 * grows, so whatever moment we die at leaves whole records and perhaps a torn end, which is cut off
 * when the file is taken up again. What cannot be written (a full disk) is lost and counted as
 * such, and nothing else happens: output must not hold up its process. Files of one sandbox and of
 * one owner are bounded together (output_bound()); who is at its bound keeps less of each. */
#ifndef CONTROL_OUTPUT_H
#define CONTROL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "quota/quota.h"

enum {
    OUTPUT_RECORD_MAX = 64 << 10,
    OUTPUT_FLOOR = 64 << 10, /* every process may keep about this much; it grows in such steps */
    OUTPUT_KEEP = 1 << 20,   /* at least this much is kept; */
    OUTPUT_FILE_MAX = OUTPUT_KEEP + OUTPUT_KEEP / 16 /* of each file, with what frames the bytes */
};

struct output_file {
    int fd;           /* of the second, -1 until it is needed */
    bool blank;       /* nothing was ever written to it */
    uint64_t base, n; /* position of its first byte, and how many */
    uint64_t size;    /* of the file; 0: it has not been begun */
    struct {
        uint64_t at;
        uint32_t n;
        int channel; /* 0: there is none */
    } last;          /* record */
};

/* All -1 and 0: OUTPUT_INIT. Positions stay known when it is closed. */
struct output {
    struct output_file file[2];
    int state_;               /* borrowed */
    unsigned now_;            /* the one that grows */
    uint64_t total;           /* position behind the last byte */
    bool failing_;            /* said so already */
    bool tight_;              /* its budget did not let it grow */
    bool full_;               /* the disk did not: no more than … */
    uint64_t full_at_;        /* … it had when that began */
    struct quota_hold *hold_; /* what its files count as; NULL: nothing */
    uint64_t free_min_;
    char name_[ID_MAX + 32];
};

#define OUTPUT_INIT ((struct output){ .file = { { .fd = -1 }, { .fd = -1 } } })

enum output_mode { OUTPUT_READ, OUTPUT_MAKE };

/* Takes up what is there below STATE/output/SANDBOX, or makes it. `state` stays open as long as
 * something is appended. */
int output_open(struct output *o, int state, const char *sandbox, uint32_t proc,
                enum output_mode mode, struct err *e);
void output_close(struct output *o);
bool output_is_open(const struct output *o);

/* Counts its files with this hold, which holds OUTPUT_FLOOR, from now on. Where it cannot grow, or
 * less than free_min bytes, or a twentieth of a small file system, would stay free, the oldest
 * output makes room for the newest, and the process is none the wiser. */
void output_bound(struct output *o, struct quota_hold *hold, uint64_t free_min);
uint64_t output_size(const struct output *o); /* bytes of its files */
/* What it holds with n more bytes: as much for each file as the larger one has. So a file that may
 * not grow any more leaves room for the other one, and the two never pass the hold. */
uint64_t output_reserve(const struct output *o, uint64_t n);

void output_append(struct output *o, int channel, struct str data);

/* The first position that can be read. */
uint64_t output_start(const struct output *o);

/* A place to read from; zeroed it is the very beginning. */
struct output_cursor {
    uint64_t at;
    uint64_t base_, record_, first_; /* where that is, as far as known; record_ 0: not */
};

/* Up to `cap` bytes of one channel, and moves on; 0: there is no more. What is not kept any more is
 * skipped. */
size_t output_read(const struct output *o, struct output_cursor *c, int *ret_channel, char *ret,
                   size_t cap);

/* Removes the files of one process, or of all of a sandbox. Nothing to remove is no error. */
void output_remove(int state, const char *sandbox, uint32_t proc);
void output_remove_all(int state, const char *sandbox);
/* Removes everything of sandboxes that `known` does not know. */
void output_sweep(int state, bool (*known)(void *user, const char *id), void *user);

/* Whether the disk of the state directory has room for more output, beyond what output leaves free:
 * free_min, or a twentieth of a smaller disk. */
bool output_disk_has_room(int state, uint64_t free_min);

#endif
