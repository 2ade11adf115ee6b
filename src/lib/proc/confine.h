/* What a forked child gives up before it touches input that nobody should trust. */
#ifndef PROC_CONFINE_H
#define PROC_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { CONFINE_FDS_MAX = 8, CONFINE_OPEN_DEFAULT = 64 };

/* fds[i] becomes descriptor i; -1 is /dev/null; nothing else stays open. At most CONFINE_FDS_MAX.
 * On failure no descriptor is where anybody would expect it: exit. */
int confine_fds(const int *fds, int n, struct err *e);

struct confine {
    pid_t parent;      /* whom it shall not outlive */
    int dir;           /* descriptor of the only directory it can reach; -1: it can reach, and only
                          read and execute, the programs of the system */
    uint64_t caps;     /* capabilities that it keeps if it has them */
    uint64_t file_max; /* bytes of a file that it writes */
    uint64_t memory_max; /* bytes of memory that it may map; 0: as many as before */
    unsigned fds_max;    /* descriptors that it may have open; 0: CONFINE_OPEN_DEFAULT */
    bool nodes;          /* with `dir`: may make FIFOs, sockets and what stands for "removed" in an
                            overlay's layer: a character device 0:0, for which nobody needs a right */
    const int *readable; /* with `dir`: descriptors of directories that it can read as well */
    size_t n_readable;
    bool become; /* with `dir`: be uid:gid with these other groups, or fail */
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t n_groups;
};

/* For the child, right after fork() and confine_fds(). No new privileges, no other capabilities, no
 * core dumps, signals at their defaults (but files that grow too large give EFBIG, not SIGXFSZ).
 * With `dir`: a root directory of its own there, if we are root, and the user that is asked for.
 * Without: the user nobody, if we are root and there is one. Landlock on top where the kernel has
 * it. Nothing allocates. */
int confine_enter(const struct confine *c, struct err *e);

#endif
