/* SPDX-License-Identifier: Apache-2.0 */
/* Code sessions: kernels that run code in pieces and keep its variables. A session is a background
 * process with a tag (core/background.h).
 *
 * The engine finds and starts sessions, writes the code to the kernel, parses its output and passes
 * the messages on under the client's back-pressure. A dialect decides how they look on the wire. */
#ifndef EDGE_CODE_SESSION_H
#define EDGE_CODE_SESSION_H

#include "edge/code/code_output.h"
#include "edge/code/kernels.h"
#include "edge/core/background.h"
#include "lib/loop/timer.h"

enum { CODE_MAX = 4 << 20 }; /* bytes of a piece of code */

/* Why an execution is over. */
enum code_stop {
    CODE_COMPLETED,
    CODE_SESSION_ENDED,
    CODE_SANDBOX_LOST,
    CODE_TOO_BIG, /* a message of the kernel */
    CODE_UNSENT,  /* `send` failed */
    CODE_BEHIND,  /* the client read too slowly */
    CODE_TIMED_OUT,
};

struct code_run;
struct code_wire {
    /* Sends messages, one JSON object on each line. Returns as http_write(). */
    int (*send)(struct code_run *r, struct str json_lines);
    /* The last callback: ends the exchange. */
    void (*stop)(struct code_run *r, enum code_stop why);
};

/* The state of a call that uses a session; the first member of the dialect's. */
struct code_run {
    struct background session;
    const struct code_wire *wire;
    const struct kernel *kernel; /* of the session that is started */
    char id[ID_MAX];             /* of the execution */
    struct command_run *command; /* the record of the execution; NULL: none, or ended */
    struct code_output output;
    struct loop_timer deadline;
    size_t request_bytes; /* of the prepared request */
    bool abandoned;       /* the client has left; it waits for the execution to be interrupted */
    unsigned interrupts;  /* that were sent */
};

/* wire: NULL for calls that execute nothing. */
void *code_run_new(struct call *c, size_t size, const struct code_wire *wire);
/* The client waits no longer: the execution has no further callbacks. Code that runs is interrupted. A
 * request that waits behind others is withdrawn, also if the kernel has a part of it. One that the
 * kernel has is interrupted as soon as it has begun; until then, for some seconds, the call remains. */
void code_run_stop(struct code_run *r);

/* The name of a running session of that kind, else NULL. */
const char *code_session_name(const struct process_view *v, const char *kind);
/* The newest running session of that kind and name, referenced, or NULL. */
struct process *code_session_find(struct sandbox *s, const char *kind, struct str name);
const struct kernel *code_session_kernel(const struct process *session);
void code_session_start(struct code_run *r, const struct kernel *kernel, const char *tag,
                        const char *cwd, background_started_fn *started);

/* Writes the request for the kernel of r->session. */
int code_prepare(struct code_run *r, const char *code, const struct json_map *env, struct err *e);
/* Executes the prepared request. At the timeout the code is interrupted; 0: none. */
void code_execute(struct code_run *r, int64_t timeout_ns);

#endif
