/* Keepers of layers, started by the warden for the control plane: with the warden's rights, which
 * they give up as far as they can before they touch anything (layers/job.h). They end with their
 * job or their socket. */
#ifndef DAEMON_KEEPERS_H
#define DAEMON_KEEPERS_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* One that hangs stays until its file system lets it go. */
enum { KEEPERS_MAX = 64 };

struct keepers {
    pid_t pid[KEEPERS_MAX];
    size_t n;
};

/* `storage` is a descriptor of the storage directory; *ret is the control plane's end. */
int keepers_start(struct keepers *k, int storage, int *ret, struct err *e);
void keepers_ended(struct keepers *k, pid_t pid); /* some child was: maybe none of these */

#endif
