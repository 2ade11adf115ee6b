/* SPDX-License-Identifier: Apache-2.0 */
/* Drops the privileges of a forked child before it processes untrusted input. */
#ifndef LIB_PROC_CONFINE_H
#define LIB_PROC_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { CONFINE_FDS_MAX = 8, CONFINE_OPEN_DEFAULT = 64 };

/* Makes fds[i] descriptor i, and /dev/null if it is -1; closes all others. At most CONFINE_FDS_MAX.
 * After a failure the descriptors are in an undefined state: the caller must exit. */
int confine_fds(const int *fds, int n, struct err *e);

struct confine {
    pid_t parent;        /* the process is killed when its parent dies */
    int dir;             /* descriptor of the only accessible directory; -1: only the system's
                            programs are accessible, for reading and executing */
    uint64_t caps;       /* capabilities to keep, as far as they are permitted */
    uint64_t file_max;   /* RLIMIT_FSIZE in bytes */
    uint64_t memory_max; /* RLIMIT_AS in bytes; 0: unchanged */
    unsigned fds_max;    /* RLIMIT_NOFILE; 0: CONFINE_OPEN_DEFAULT */
    bool nodes;          /* with `dir`: may make FIFOs, sockets and overlay whiteouts (character
                            devices 0:0, which need no capability) */
    const int *readable; /* with `dir`: descriptors of further directories, for reading */
    size_t n_readable;
    bool become; /* with `dir`: become uid:gid with these supplementary groups, or fail */
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t n_groups;
};

/* Confines the calling process, a child right after fork() and confine_fds(): no new privileges, no
 * other capabilities, no core dumps, default signal dispositions (except SIGXFSZ, which is ignored:
 * writes beyond file_max fail with EFBIG). With `dir`: root directory `dir`, if the caller is root,
 * and the user of `become`. Without: user 65534, if the caller is root and that id is mapped. Also
 * Landlock if the kernel supports it. Does not allocate. */
int confine_enter(const struct confine *c, struct err *e);

#endif
