/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a process, kept on disk: two files that take turns, so that at least the last
 * PROCESS_KEEP bytes are kept in a bounded amount of space.
 *
 * A file begins with the position of its first byte in the whole output; then come records: a
 * channel, a length, bytes. Records are only appended, or the last one grows, so a crash at any
 * moment leaves whole records and perhaps a torn end, which is truncated when the file is opened
 * again. Output that cannot be written (a full disk) is lost and counted as lost, without further
 * effect: output must not block its process. The files of one sandbox and of one owner are limited
 * together (output_bound()); at the limit, less of each is kept. */
#ifndef CONTROL_PROCESS_OUTPUT_H
#define CONTROL_PROCESS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "lib/quota/quota.h"

enum {
    OUTPUT_RECORD_MAX = 64 << 10,
    OUTPUT_FLOOR = 64 << 10, /* minimum for every process, and the step in which the quota grows */
    OUTPUT_KEEP = 1 << 20,   /* at least this much is kept */
    OUTPUT_FILE_MAX = OUTPUT_KEEP + OUTPUT_KEEP / 16 /* of each file, including record headers */
};

struct output_file {
    int fd;           /* of the second file: -1 until it is needed */
    bool blank;       /* nothing was ever written to it */
    uint64_t base, n; /* position and number of its bytes */
    uint64_t size;    /* of the file; 0: not begun */
    struct {
        uint64_t at;
        uint32_t n;
        int channel; /* 0: no record */
    } last;          /* record */
};

/* Initialize with OUTPUT_INIT. Positions stay valid after output_close(). */
struct process_output {
    struct output_file file[2];
    int state_;               /* borrowed */
    unsigned now_;            /* the file that is written */
    uint64_t total;           /* position after the last byte */
    bool failing_;            /* logged already */
    bool tight_;              /* its quota did not grow */
    bool full_;               /* the disk is full: limited to … */
    uint64_t full_at_;        /* … its size when that began */
    struct quota_hold *hold_; /* the quota that its files are charged to; NULL: none */
    uint64_t free_min_;
    char name_[ID_MAX + 32];
};

#define OUTPUT_INIT ((struct process_output){ .file = { { .fd = -1 }, { .fd = -1 } } })

enum output_mode { OUTPUT_READ, OUTPUT_MAKE };

/* Opens or creates the files below STATE/output/SANDBOX. `state` must stay open while output is
 * appended. */
int output_open(struct process_output *o, int state, const char *sandbox, uint32_t proc,
                enum output_mode mode, struct err *e);
void output_close(struct process_output *o);
bool output_is_open(const struct process_output *o);

/* Charges its files to this hold, which has OUTPUT_FLOOR, from now on. If the hold cannot grow, or
 * less than free_min bytes (a twentieth of a small file system) would stay free, the newest output
 * replaces the oldest, without effect on the process. */
void output_bound(struct process_output *o, struct quota_hold *hold, uint64_t free_min);
uint64_t output_size(const struct process_output *o); /* bytes of its files */
/* The charge for n more bytes: for each file as much as the larger one has. So a file that may not
 * grow leaves room for the other one, and the two never exceed the hold. */
uint64_t output_reserve(const struct process_output *o, uint64_t n);

void output_append(struct process_output *o, int channel, struct str data);

/* The first position that can be read. */
uint64_t output_start(const struct process_output *o);

/* A read position; zeroed: the very beginning. */
struct output_cursor {
    uint64_t at;
    uint64_t base_, record_, first_; /* its record, if known; record_ 0: unknown */
};

/* Reads up to `cap` bytes of one channel and advances; 0: at the end. Skips output that was
 * discarded. */
size_t output_read(const struct process_output *o, struct output_cursor *c, int *ret_channel,
                   char *ret, size_t cap);

/* Removes the files of one process, or of all processes of a sandbox. Missing files are no
 * error. */
void output_remove(int state, const char *sandbox, uint32_t proc);
void output_remove_all(int state, const char *sandbox);
/* Removes the output of all sandboxes that `known` rejects. */
void output_sweep(int state, bool (*known)(void *user, const char *id), void *user);

/* Whether the disk of the state directory has room for more output, beyond the reserve: free_min,
 * or a twentieth of a smaller disk. */
bool output_disk_has_room(int state, uint64_t free_min);

#endif
