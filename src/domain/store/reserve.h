/* Disk space that the store alone may use.
 *
 * A file beside the store is as large as a few hundred commits. While the disk has room it only
 * lies there. When a commit finds the disk full, the file is cut, a little more at every try, and
 * the commit is tried again: what ends and removes things can be recorded, which is what makes
 * room. When there is room, the file gets its size again. Private to the store. */
#ifndef STORE_RESERVE_H
#define STORE_RESERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define RESERVE_FILE "sandboxer.db.reserve"

enum {
    RESERVE_MAX = 16 << 20,
    RESERVE_PART = 32,       /* of a small file system, no more than this part */
    RESERVE_STEP = 64 << 10, /* that is cut off first; then twice as much */
};

struct reserve {
    int fd;             /* -1: there is none */
    uint64_t wanted;    /* bytes */
    uint64_t size;      /* bytes it has; the writer's */
    int64_t look_ns;    /* when it was last tried to make it whole */
    atomic_bool short_; /* it has less than it should */
};

void reserve_open(struct reserve *r, int dir);
void reserve_close(struct reserve *r);

/* Cuts `n` bytes off. False: nothing is left. */
bool reserve_cut(struct reserve *r, uint64_t n);
/* Makes it whole if there is room, now and then. */
void reserve_mend(struct reserve *r);
/* Whether the disk has too little room to start anything new. From any thread. */
bool reserve_is_needed(const struct reserve *r);

#endif
