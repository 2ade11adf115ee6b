/* SPDX-License-Identifier: Apache-2.0 */
/* The process that keeps owners within their share of the disk (engine/storage/share.h).
 *
 * It looks ten times a second whether the file system has changed, a hundred times while it does, and
 * only then at the boxes; a look at very many of them is followed by a longer pause, so that it takes
 * at most a twentieth of a processor. What an owner writes in several boxes between two looks can
 * exceed its share.
 *
 * The monitor starts another one when it ends: at once, and after a growing pause if it ends again
 * and again. All that it knows is in the storage. */
#ifndef DAEMON_SHARE_KEEPER_H
#define DAEMON_SHARE_KEEPER_H

#include <stdint.h>
#include <sys/types.h>

struct share_keeper {
    int storage;
    uint64_t bytes; /* 0: there is no such process */
    pid_t pid;      /* 0: none now */
    int64_t started;
    int64_t due;   /* when the next one starts; 0: never */
    unsigned ends; /* in a row */
};

/* Starts it as a child of the caller, which ends with the caller. A failure is logged, and tried
 * again as an end is. */
void share_keeper_start(struct share_keeper *k);

/* A child of the caller ended, this one or another. */
void share_keeper_ended(struct share_keeper *k, pid_t pid, int status);
int64_t share_keeper_due(const struct share_keeper *k); /* 0: never */
/* Starts another one if it is due. */
void share_keeper_restart(struct share_keeper *k);

/* It holds the mount of a volume: before volume_done(). */
void share_keeper_stop(struct share_keeper *k);

#endif
