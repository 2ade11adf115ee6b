/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's handle of a launcher process. Requests are answered in order; sending does
 * not wait for the answer. */
#ifndef ENGINE_RUNTIME_LAUNCHER_H
#define ENGINE_RUNTIME_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "lib/ipc/channel.h"
#include "engine/runtime/launch.h"

struct launcher {
    pid_t pid;
    int sock; /* readable when an answer has arrived */
};

union launch_answer {
    struct launch_head head;
    struct launch_created created;
    struct launch_failed failed;
    struct launch_destroyed destroyed;
    struct launch_named named; /* HELD, ASSIGNED */
};

struct launcher_options {
    bool untrusted; /* the peer may not use the launcher's file rights: layers and mounts only below
                       roots */
    const char *const *roots; /* directories that plans may name, as 1, 2, …; absolute */
    size_t n_roots;
    const char *store; /* directory of layers that plans may name; absolute; NULL: none */
    const char
        *driver;  /* storage driver of its sandboxes (engine/storage/driver.h), in the store; NULL:
                   memory */
    bool limited; /* … which enforces disk limits */
    const char *tag; /* part of the names of its sandboxes' groups, separate from those of other
                        tags; NULL: none (engine/runtime/cgroup.h) */
};

/* Starts sandboxer-launch with a new socket pair. It serves the holder of the other end, if that
 * was created by the launcher's own user (SO_PEERCRED): so a small parent process of root may start
 * it and pass `sock` to a control plane that is not root. */
int launcher_start_with(const struct launcher_options *o, struct launcher *ret, struct err *e);
int launcher_start(struct launcher *ret, struct err *e); /* trusted, no roots */
/* Executes sandboxer-launch, serving `sock`, in a new child of fork() (lib/proc/spawn.h:
 * spawn_exec()). With `untrusted` the socket may have been created by any user. */
int launcher_exec(const struct launcher_options *o, int sock, int *status, struct err *e);
/* Closes the connection, so that the launcher destroys every ephemeral sandbox, and waits for
 * it. */
void launcher_done(struct launcher *l);
/* Closes without waiting, for a caller that is about to exit and has received its answers. */
void launcher_leave(struct launcher *l);

/* fds are the plan's, in its order; they stay the caller's. */
int launcher_create(const struct launcher *l, const struct plan *p, const int *fds, size_t n,
                    struct err *e);
int launcher_destroy(const struct launcher *l, const char *id, struct err *e);
int launcher_release(const struct launcher *l, struct err *e); /* LAUNCH_RELEASE */
/* LAUNCH_DESTROY, LAUNCH_FREEZE, LAUNCH_THAW */
int launcher_ask(const struct launcher *l, enum launch_type type, const char *id, struct err *e);
int launcher_assign(const struct launcher *l, const char *id, const struct cgroup_owner *owner,
                    struct err *e);

/* Receives the next answer. ret_pidfd, which may be NULL, gets the pidfd of LAUNCH_CREATED.
 * -ERR_UPSTREAM if the launcher has exited, -ERR_BUSY if there is no answer and the socket does not
 * block. */
int launcher_next(const struct launcher *l, union launch_answer *ret, int *ret_pidfd,
                  struct err *e);
/* The error that a LAUNCH_FAILED carries, with the failed step in front. */
int launcher_failure(const struct launch_failed *f, struct err *e);
/* Both, for a caller with one pending request; with all received descriptors, which become the
 * caller's. */
int launcher_answer_with(const struct launcher *l, union launch_answer *ret,
                         struct ipc_fds *ret_fds, struct err *e);

#endif
