/* SPDX-License-Identifier: Apache-2.0 */
/* A background process that a call starts or is attached to.
 *
 * The process outlives the call and is found again by its tag, "KIND" followed by a name: the
 * daemon keeps no state of the sessions, terminals and code contexts that clients see. */
#ifndef EDGE_CORE_BACKGROUND_H
#define EDGE_CORE_BACKGROUND_H

#include "edge/core/internal.h"
#include "control/process/processes.h"

struct background;
typedef void background_started_fn(struct background *b, int r, const struct err *e);

struct background {
    struct call *call;
    struct process *process; /* referenced; NULL: none yet */
    struct watcher watcher;
    struct buf input; /* not yet accepted by the process's stdin */
    struct process_op op;
    struct process_request request;
    background_started_fn *started_;
};

/* Allocates the call's state, whose first member is a struct background. Its watcher stops when the
 * client disconnects. on_end: as of call_state(), must call background_done(); NULL: that is all.
 * A state with more to stop when the client disconnects replaces the call's on_gone. */
void *background_new(struct call *c, size_t size, size_t input_max, void (*on_end)(void *state));
void background_done(void *state);

/* Starts a process; the strings of the request live as long as the call. `started` is called unless
 * the client has disconnected; on success, b->process is set. */
void background_start(struct background *b, const struct process_request *q,
                      background_started_fn *started);
void background_watch(struct background *b, const struct watcher_events *events, bool live_only);
void background_drained(struct http_exchange *x); /* an http_on_drain(): resumes the watcher */

/* Writes pending input: 1 if all of it was written; 0 if stdin is full, the watcher's `room`
 * follows; -ERR_CONFLICT if the process has ended, which the watcher reports as well. */
int background_send_input(struct background *b, struct err *e);

/* Kills the process with its descendants; `events` report its end. */
void background_kill(struct background *b, const struct watcher_events *events);
/* Kills the process with its descendants, removes it with its output and answers 204. Takes the
 * reference; continues without the client. */
void background_remove(struct call *c, struct process *p);
void background_forget(struct call *c, struct process *p); /* the same for an ended process */

/* --- tags --- */

const char *background_tag(struct call *c, const char *kind, const char *name); /* on its arena */
/* The name in the tag of a process of that kind, else NULL. */
const char *background_name(const struct process_view *v, const char *kind);
/* The newest process of that kind and name, referenced, or NULL. */
struct process *background_find(struct sandbox *s, const char *kind, struct str name);
size_t background_count(struct sandbox *s, const char *kind); /* running ones */

#endif
