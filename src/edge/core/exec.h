/* SPDX-License-Identifier: Apache-2.0 */
/* A program that runs in the foreground of a request: it is killed when the client disconnects.
 *
 * The engine starts it, reads its output under the client's back-pressure and waits for its end. An
 * encoder decides how that looks on the wire: NDJSON lines, one JSON answer, WebSocket messages, or
 * the descriptors themselves. */
#ifndef EDGE_CORE_EXEC_H
#define EDGE_CORE_EXEC_H

#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "lib/loop/fd.h"
#include "lib/loop/timer.h"

enum { EXEC_CHUNK = 64 << 10 };

struct exec;
struct ws_session; /* exec_ws.c */

struct exec_encoder {
    /* The program runs. False: the encoder has ended the exec itself. */
    bool (*started)(struct exec *x);
    /* Output of channel 1 or 2. False: the client is full, exec_resume() continues. NULL: the
     * encoder handed out the descriptors. */
    bool (*output)(struct exec *x, int channel, struct str data);
    void (*ended)(struct exec *x, const struct backend_end *end); /* after all output */
    void (*failed)(struct exec *x, const struct err *e);          /* the program did not start */
};

struct exec_pump {
    struct exec *exec;
    struct loop_fd source;
    int fd, channel;
};

struct exec {
    struct call *call;
    const struct exec_encoder *encoder;
    struct run_op op;
    struct process_request request;
    struct exec_pump pumps[2];
    bool full, running, ended;
    struct backend_end end;
    struct sandbox_op removal; /* removal of the call's own sandbox, before the end is reported */
    const struct sandbox *own; /* that sandbox, once removed */
    /* after the end: bounds the wait for output that a grandchild keeps open */
    struct loop_timer linger;
    /* pending stdin */
    struct loop_fd input;
    struct buf pending;
    bool close_input;
    void (*on_input_room)(struct exec *x);
    /* state of the encoders */
    struct buf out[2];
    bool truncated;
    struct ws_session *session;
};

/* Starts the program; the exec becomes the call's state. session: for exec_ws, whose callbacks may
 * run inside this call; NULL for other encoders. */
void exec_start(struct call *c, const struct process_request *q, const struct exec_encoder *encoder,
                struct ws_session *session);
/* The same with descriptors that the program inherits (backend_start.lent); the caller keeps its
 * own. When the program ends, all of its descendants are killed. requested: struct command_begin. */
void exec_start_lent(struct call *c, const struct process_request *q, const int *lent, size_t n,
                     const char *requested, const struct exec_encoder *encoder);
void exec_resume(struct exec *x);  /* the client has room again */
void exec_abandon(struct exec *x); /* the client disconnected: kills the program */
/* Writes to stdin. False: stdin is full, on_input_room follows. */
bool exec_input(struct exec *x, struct str data);
void exec_close_input(struct exec *x);
/* Handles a control message of the client; invalid ones are ignored. */
void exec_control(struct exec *x, struct str json);

struct exec_message {
    enum { EXEC_RESIZE, EXEC_SIGNAL, EXEC_CLOSE_STDIN } op;
    int signal;
    uint16_t rows, cols;
};
int exec_message_read(struct str json, struct exec_message *ret);

struct exec_output {
    int channel;
    struct str data;
};
struct exec_ended {
    const struct backend_end *end;
    const struct sandbox *own; /* made for the program and already removed; NULL: none */
};
/* Write one event as JSON: of a struct exec, exec_output and exec_ended. */
call_write_fn exec_write_started, exec_write_output, exec_write_ended;
/* A foreground program, without its arguments, which the client sent. */
struct process_answer exec_process_answer(const struct exec *x);

/* The encoder that the call selects by Accept and Upgrade. */
const struct exec_encoder *exec_encoder_for(const struct call *c);
extern const struct exec_encoder exec_ndjson, exec_collect, exec_stdio, exec_ws;
void exec_fail_plain(struct exec *x, const struct err *e); /* a `failed` that answers the call */

/* Accepts a WebSocket; its first message is the request. */
void exec_ws_accept(struct call *c);

/* Describes the limit that ended a process: "out of memory (limit 64M)". */
enum { EXEC_LIMIT_TEXT = 64 };
const char *exec_oom_text(const struct backend_end *end, char ret[static EXEC_LIMIT_TEXT]);

#endif
