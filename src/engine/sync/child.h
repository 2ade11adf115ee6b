/* SPDX-License-Identifier: Apache-2.0 */
/* Runs sync_send(), sync_look() or sync_receive() in a process of its own: with the rights of one user, without
 * capabilities, limited to the directory (lib/proc/confine.h) and its descriptors. It dies with the
 * thread that started it. */
#ifndef ENGINE_SYNC_CHILD_H
#define ENGINE_SYNC_CHILD_H

#include <sys/types.h>

#include "base/err.h"
#include "engine/sync/sync.h"

struct sync_job;
/* Opens the directory and chooses the user of the process: fills in dir, uid, gid and groups. */
typedef int sync_find_fn(struct sync_job *job, struct err *e);

struct sync_job {
    bool receive;                  /* else send; with SYNC_DRY_RUN look */
    int dir;                       /* may be O_PATH */
    sync_find_fn *find;            /* NULL: done by the caller; else called in the process, before
                             confinement: a file system that hangs blocks only this process */
    const void *find_ctx;          /* for find */
    int tar;                       /* a stream: written by send, read by receive */
    int manifest_in, manifest_out; /* as for sync_receive(); -1: none */
    uid_t uid;                     /* the user to become, as root; else our own */
    gid_t gid;
    const gid_t *groups; /* as root: the other groups of that user */
    size_t n_groups;
    struct sync_job_options options; /* without line, pause and ctx, which are not used */
};

/* Forks: the child's pid. It writes its report (report.h) to the descriptor `report`. All descriptors
 * stay the caller's, which should close its ends of the pipes now, so that each side sees the
 * other's end. The caller reaps the child; one that dies early leaves a report without an end. */
int sync_child_fork(const struct sync_job *job, int report, pid_t *ret, struct err *e);

#endif
