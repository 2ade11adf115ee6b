/* mirror_send() or mirror_receive() in a process of its own: with the rights of one user, without
 * capabilities, reaching nothing but the directory (proc/confine.h) and the descriptors it was
 * given. It dies with the thread that started it. */
#ifndef MIRROR_CHILD_H
#define MIRROR_CHILD_H

#include <sys/types.h>

#include "base/err.h"
#include "mirror/mirror.h"

struct mirror_job;
/* Opens the directory and says whose rights the process gets: fills in dir, uid, gid and groups. */
typedef int mirror_find_fn(struct mirror_job *job, struct err *e);

struct mirror_job {
    bool receive;         /* else send */
    int dir;              /* may be O_PATH */
    mirror_find_fn *find; /* NULL: that is done; else called in the process, before it gives
                             anything up: a file system that hangs holds up nobody else */
    const void *find_ctx; /* for find */
    int tar;              /* a stream: written by send, read by receive */
    int manifest_in, manifest_out; /* as of mirror_receive(); -1: none */
    uid_t uid;                     /* as root, whom to become; else it must be ourselves */
    gid_t gid;
    const gid_t *groups; /* as root: the other groups of that user */
    size_t n_groups;
    struct mirror_options options; /* without line, pause and ctx: they stay here */
};

struct mirror_child {
    pid_t pid;  /* to be waited for */
    int report; /* frames of report.h, then the end of the file */
};
#define MIRROR_CHILD_NONE ((struct mirror_child){ .report = -1 })

/* Forks. The job's descriptors stay the caller's, which closes its end of the stream now, so that
 * each side sees the other's end. */
int mirror_child_start(const struct mirror_job *job, struct mirror_child *ret, struct err *e);
/* The same with a pipe for the report that somebody else reads: the child's pid. */
int mirror_child_fork(const struct mirror_job *job, int report, pid_t *ret, struct err *e);

/* Reads the report to its end and waits: what the call in the child returned. -ERR_BUG if it died
 * without a word. Blocks; a caller with a loop feeds a report_reader and waits by itself. */
int mirror_child_wait(struct mirror_child *c, mirror_line_fn *line, void *ctx,
                      struct mirror_report *ret, struct err *e);

/* Kills it if it still runs, waits, and closes. */
void mirror_child_end(struct mirror_child *c);

#endif
