/* The control plane's handle on a launcher process. Requests are sent and answered in order;
 * sending does not wait, so that a caller can do something else meanwhile. */
#ifndef RUNTIME_LAUNCHER_H
#define RUNTIME_LAUNCHER_H

#include <sys/types.h>

#include "base/err.h"
#include "runtime/launch.h"

struct launcher {
    pid_t pid;
    int sock; /* readable when an answer waits */
};

union launch_answer {
    struct launch_head head;
    struct launch_created created;
    struct launch_failed failed;
    struct launch_destroyed destroyed;
};

int launcher_start(struct launcher *ret, struct err *e);
/* Closes the connection, on which the launcher destroys every ephemeral sandbox, and waits for it.
 */
void launcher_done(struct launcher *l);
/* The same without waiting, for a caller that is about to exit and has had its answers. */
void launcher_leave(struct launcher *l);

/* fds are the plan's, in its order; they stay the caller's. */
int launcher_create(const struct launcher *l, const struct plan *p, const int *fds, size_t n,
                    struct err *e);
int launcher_destroy(const struct launcher *l, const char *id, struct err *e);

/* The next answer. LAUNCH_FAILED is returned as the error it carries, with the failed step in
 * front. ret_pidfd, which may be NULL, gets the pidfd of LAUNCH_CREATED. */
int launcher_answer(const struct launcher *l, union launch_answer *ret, int *ret_pidfd,
                    struct err *e);

#endif
