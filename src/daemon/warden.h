/* The warden: the part of the daemon that keeps the rights it was started with.
 *
 * It starts the processes that need those rights, for a control plane that has given them up:
 * launchers, processes that copy a workspace with the rights of its owner, and egress workers,
 * which have an owner of their own, keepers of layers (layers/job.h); and it reads the files of the
 * operator's that are secret. The two talk over one socket with messages of one fixed layout; an
 * answer is a descriptor or an error. A host directory is named by the position of a configured
 * root and a path beneath it, resolved by the process that copies, without following a link; only a
 * plain user's control plane, which has the warden's own rights, may name any. The warden itself
 * touches no file system that a request names: it is always there for the next one.
 *
 * When the control plane ends, so does the warden; when the warden ends, the kernel ends the
 * control plane. Sandboxes live on. */
#ifndef DAEMON_WARDEN_H
#define DAEMON_WARDEN_H

#include <sys/types.h>

#include "base/err.h"
#include "control/control.h"
#include "daemon/worker.h"
#include "runtime/launcher.h"

struct warden_options {
    struct launcher_options launcher;
    const char *headers_file;    /* NULL: none */
    const struct config *domain; /* whose certificate is asked for */
    struct worker_options worker;
    int storage; /* the directory of layers */
};

/* Serves `sock` until `child` has ended: its exit status, or 128 and the signal. Signals that ask
 * us to end are passed on to it. */
int warden_run(int sock, pid_t child, const struct warden_options *o);

/* The control plane's side. The first five wait for the answer, which is a fork or a small file
 * away; the others wait for nothing, and what becomes of a copy is in m->report. */
int warden_launcher(int sock, int *ret, struct err *e);
int warden_headers(int sock, int *ret, struct err *e);
int warden_certificate(int sock, int *ret, struct err *e); /* api/certificate.h reads it */
int warden_egress(int sock, int *ret, pid_t *ret_pid, struct err *e);
int warden_keeper(int sock, int *ret, struct err *e);
void warden_end_egress(int sock, pid_t pid);
int warden_mirror(int sock, const struct launcher_options *o, const struct control_mirror *m,
                  struct err *e);

#endif
