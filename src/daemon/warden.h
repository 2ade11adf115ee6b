/* The warden: the part of the daemon that keeps the rights it was started with.
 *
 * It starts two kinds of processes that need those rights, for a control plane that has given them
 * up: launchers, and processes that copy a workspace with the rights of its owner. The two talk
 * over one socket with messages of one fixed layout; the answer is a byte and a descriptor. A host
 * directory is named by the position of a configured root and a path beneath it, resolved here
 * without following a link; only a plain user's control plane, which has the warden's own rights,
 * may name any.
 *
 * When the control plane ends, so does the warden; when the warden ends, the kernel ends the
 * control plane. Sandboxes live on. */
#ifndef DAEMON_WARDEN_H
#define DAEMON_WARDEN_H

#include <sys/types.h>

#include "base/err.h"
#include "control/control.h"
#include "runtime/launcher.h"

/* Serves `sock` until `child` has ended: its exit status, or 128 and the signal. Signals that ask
 * us to end are passed on to it. */
int warden_run(int sock, pid_t child, const struct launcher_options *o);

/* The control plane's side. Both block for a moment. */
int warden_launcher(int sock, int *ret, struct err *e);
int warden_mirror(int sock, const struct launcher_options *o, const struct control_mirror *m,
                  int *ret_report, struct err *e);

#endif
