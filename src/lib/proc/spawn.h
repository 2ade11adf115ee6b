/* SPDX-License-Identifier: Apache-2.0 */
/* Starts one of our programs, with exactly the given descriptors. */
#ifndef LIB_PROC_SPAWN_H
#define LIB_PROC_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct spawn {
    const char *path; /* absolute */
    char *const *argv;
    char *const *envp;
    const int
        *fds;  /* fds[i] becomes descriptor i in the child; -1 is /dev/null; nothing else is open */
    int n_fds; /* at most SPAWN_FDS_MAX */
    /* Become uid:gid, without supplementary groups, capabilities and new privileges; false: keep
     * the caller's identity. */
    bool become;
    uid_t uid;
    gid_t gid;
};

enum { SPAWN_FDS_MAX = 8 };

/* Starts the program; a failed execve() is an error of this call, not an exit status of the child.
 * In the child all signals have their default disposition and are unblocked. */
int spawn_start(const struct spawn *s, pid_t *ret, struct err *e);

/* Replaces the calling process, a fresh child of fork(), with the program. Unlike spawn_start(),
 * the parent does not wait for execve(), which can block on the program's file system. Returns only
 * on failure. `*status` is a descriptor, or -1, that becomes descriptor n_fds and is closed when
 * execve() succeeds. */
int spawn_exec(const struct spawn *s, int *status, struct err *e);

/* Waits for the end of a child; *ret_status is as of waitpid(2). */
int spawn_wait(pid_t pid, int *ret_status, struct err *e);

/* Writes the path of one of our programs into out: beside the running program, as in a build tree,
 * else in ../libexec/sandboxer. */
int spawn_find(const char *name, char *out, size_t cap, struct err *e);

#endif
