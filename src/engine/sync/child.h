/* SPDX-License-Identifier: Apache-2.0 */
/* Runs sync_send() or sync_receive() in a process of its own: with the rights of one user, without
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
    bool receive;                  /* else send */
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

struct sync_child {
    pid_t pid;  /* must be waited for */
    int report; /* frames of report.h, then the end of the file */
};
#define SYNC_CHILD_NONE ((struct sync_child){ .report = -1 })

/* Forks. The job's descriptors stay the caller's, which should close its end of the stream now, so
 * that each side sees the other's end. */
int sync_child_start(const struct sync_job *job, struct sync_child *ret, struct err *e);
/* The same with the caller's pipe for the report: the child's pid. */
int sync_child_fork(const struct sync_job *job, int report, pid_t *ret, struct err *e);

/* Reads the report to its end and waits: returns the result of the call in the child. -ERR_BUG
 * if it died without a report. Blocks; a caller with a loop feeds a report_reader and waits by
 * itself. */
int sync_child_wait(struct sync_child *c, sync_line_fn *line, void *ctx, struct sync_report *ret,
                    struct err *e);

/* Kills the child if it still runs, waits, and closes. */
void sync_child_end(struct sync_child *c);

#endif
