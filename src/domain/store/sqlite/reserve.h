/* SPDX-License-Identifier: Apache-2.0 */
/* Disk space reserved for the store.
 *
 * A file beside the store is as large as a few hundred commits. When a commit fails because the
 * disk is full, the file is truncated, by more at every attempt, and the commit is repeated: so
 * destroying sandboxes and snapshots, which frees space, can still be committed. When the disk has
 * room, the file gets its full size again. Private to the store. */
#ifndef DOMAIN_STORE_SQLITE_RESERVE_H
#define DOMAIN_STORE_SQLITE_RESERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define RESERVE_FILE "sandboxer.db.reserve"

enum {
    RESERVE_MAX = 16 << 20,
    RESERVE_PART = 32,       /* at most 1/32 of the file system */
    RESERVE_STEP = 64 << 10, /* truncated at the first attempt, doubled at each further one */
};

struct reserve {
    int fd;             /* -1: no reserve */
    uint64_t wanted;    /* full size in bytes */
    uint64_t size;      /* current size in bytes; the writer's */
    int64_t look_ns;    /* time of the last attempt to restore the full size */
    atomic_bool short_; /* size < wanted */
};

/* Frees what an earlier process has reserved: on a full disk the store needs some of it to be
 * opened. */
void reserve_give(int dir);
void reserve_open(struct reserve *r, int dir);
void reserve_close(struct reserve *r);

/* Frees `n` bytes. False if the file is empty or cannot be truncated. */
bool reserve_cut(struct reserve *r, uint64_t n);
/* Restores the full size if there is room; checks at most four times a second. */
void reserve_mend(struct reserve *r);
/* Whether the disk has too little room for new sandboxes and the like. From any thread. */
bool reserve_is_needed(const struct reserve *r);

#endif
