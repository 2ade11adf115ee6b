/* SPDX-License-Identifier: Apache-2.0 */
/* The monitor: the part of the daemon that keeps the rights it was started with.
 *
 * It starts the processes that need those rights, for a control plane that has given them up:
 * launchers, egress workers, the fetch process (engine/fetcher/server.h), layer workers
 * (engine/layers/job.h) and processes that copy a workspace; and it reads the operator's secret
 * files. The two talk over one socket with messages of one fixed layout (daemon/monitor_request.h).
 *
 * The monitor never blocks: each request is worked on in a child process with a deadline
 * (daemon/jobs.h), the number of children of each kind is bounded, and an answer that the control
 * plane does not read is dropped.
 *
 * When the control plane ends, so does the monitor; when the monitor ends, the kernel ends the
 * control plane. Sandboxes live on. */
#ifndef DAEMON_MONITOR_H
#define DAEMON_MONITOR_H

#include <sys/types.h>

#include "base/err.h"
#include "control/control.h"
#include "daemon/client.h"
#include "daemon/requests.h"
#include "daemon/companion.h"
#include "daemon/worker.h"
#include "engine/runtime/launcher.h"

struct monitor_options {
    struct launcher_options launcher;
    const char *headers_file;    /* NULL: none */
    const struct config *domain; /* for the domain's certificate */
    struct worker_options worker;
    struct identity_choice fetch; /* whom the fetch process runs as */
    struct gate *gate;            /* of egress workers; NULL: they have none */
    int storage;                  /* the directory of layers */
    int grants;                   /* the directory of grants (daemon/grants.h) */
    struct client_doors doors;
    struct companion *companions; /* started; restarted when they end */
    size_t n_companions;
    const char *log_state; /* state directory with the log that stderr is; NULL: it is elsewhere */
};

/* Serves `sock` until `child` has ended: its exit status, or 128 and the signal. Signals that ask
 * us to end are passed on to it. */
int monitor_run(int sock, pid_t child, const struct monitor_options *o);

/* The control plane's side (daemon/requests.h has the rest). Nothing waits; the result of a copy is
 * written to m->report. */
int monitor_sync(void *requests, const struct control_sync *m, struct err *e);
int monitor_grant(struct requests *q, const struct launcher_options *o,
                  const struct control_grant *g, struct control_request *r, struct err *e);
void monitor_forget(void *requests, const char *sandbox);
/* Replaces the places that an egress worker may connect to beside public addresses. */
int monitor_places(void *requests, uint64_t worker, const struct gate_place *list, size_t n,
                   struct control_request *r, struct err *e);

#endif
