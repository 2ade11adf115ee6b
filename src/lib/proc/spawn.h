/* Starting a program of ours with exactly the descriptors it shall have. */
#ifndef PROC_SPAWN_H
#define PROC_SPAWN_H

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
    /* For good, without groups, capabilities and a way to new privileges; false: as we are. */
    bool become;
    uid_t uid;
    gid_t gid;
};

enum { SPAWN_FDS_MAX = 8 };

/* A failing execve() is this call's error, not a child's exit status. All signals have their
 * default disposition in the child and none is blocked. */
int spawn_start(const struct spawn *s, pid_t *ret, struct err *e);

/* Replaces this process, a fresh child of fork(), with the program, so that the caller of fork()
 * does not wait for execve(), which can block on the program's file system. Returns only on
 * failure.
 * `*status` is a descriptor that stays open until execve() succeeds (-1: none), and becomes
 * descriptor n_fds. */
int spawn_exec(const struct spawn *s, int *status, struct err *e);

/* Waits for the end of a child: its wait status. */
int spawn_wait(pid_t pid, int *ret_status, struct err *e);

/* Writes the path of a program of ours into out: beside the running one in a build tree, else in
 * the libexec directory next to it. */
int spawn_find(const char *name, char *out, size_t cap, struct err *e);

#endif
