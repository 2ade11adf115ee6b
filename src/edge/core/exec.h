/* A program in the foreground of a request: it runs as long as its client is there.
 *
 * The engine starts it, reads its output under the client's back-pressure and waits for its end;
 * how that looks on the wire is a row of functions: lines, one JSON answer, WebSocket messages, or
 * the descriptors themselves. */
#ifndef API_EXEC_H
#define API_EXEC_H

#include "api/inside.h"
#include "loop/fd.h"
#include "loop/timer.h"

enum { EXEC_CHUNK = 64 << 10 };

struct exec;
struct ws_session; /* exec_ws.c */

struct exec_face {
    /* It runs. False: the face has ended the exec itself. */
    bool (*started)(struct exec *x);
    /* Bytes of channel 1 or 2. False: full; exec_resume() goes on. NULL: the face has the
     * descriptors. */
    bool (*output)(struct exec *x, int channel, struct str data);
    void (*ended)(struct exec *x, const struct ext_end *end); /* all output was told before */
    void (*failed)(struct exec *x, const struct err *e);      /* it did not start */
};

struct exec_pump {
    struct exec *exec;
    struct loop_fd source;
    int fd, channel;
};

struct exec {
    struct call *call;
    const struct exec_face *face;
    struct run_op op;
    struct process_request request;
    struct exec_pump pumps[2];
    bool full, running, ended;
    struct ext_end end;
    struct sandbox_op removal; /* of a sandbox of its own, before a bad end is told */
    const struct sandbox *own; /* … which is gone */
    struct loop_timer linger;  /* for output that a grandchild keeps open */
    /* what has to reach its stdin */
    struct loop_fd input;
    struct buf pending;
    bool close_input;
    void (*on_input_room)(struct exec *x);
    /* the faces' own */
    struct buf out[2];
    bool truncated;
    struct ws_session *session;
};

/* Starts it; the call's state is the exec from now on. session: what exec_ws is to tell, which may
 * be from inside; NULL for the others. */
void exec_start(struct call *c, const struct process_request *q, const struct exec_face *face,
                struct ws_session *session);
/* The same with descriptors that it finds open (ext_start.lent); they stay the caller's. When it
 * ends, so does everything it started. */
void exec_start_lent(struct call *c, const struct process_request *q, const int *lent, size_t n,
                     const struct exec_face *face);
void exec_resume(struct exec *x); /* the client takes bytes again */
void exec_gone(struct exec *x);   /* the client left: so does the program */
/* Bytes for its stdin; false: it has enough for now, on_input_room tells. */
bool exec_input(struct exec *x, struct str data);
void exec_close_input(struct exec *x);
/* A control message of the client; what is none is ignored. */
void exec_control(struct exec *x, struct str json);

struct exec_message {
    enum { EXEC_RESIZE, EXEC_SIGNAL, EXEC_CLOSE_STDIN } op;
    int signal;
    uint16_t rows, cols;
};
int exec_message_read(struct str json, struct exec_message *ret);

/* One event as JSON, without its line break. */
void exec_write_started(struct json_writer *w, const struct exec *x);
void exec_write_output(struct json_writer *w, int channel, struct str data);
/* own: a sandbox that was made for it, and is gone; NULL: none is. */
void exec_write_ended(struct json_writer *w, const struct ext_end *end, const struct sandbox *own);
void exec_end_fields(struct json_writer *w, const struct ext_end *end, const struct sandbox *own);
/* A member "process": one that is not in the background. Who asked knows its arguments. */
void exec_process_field(struct json_writer *w, const struct exec *x);

/* How this call wants it: by its Accept and Upgrade. */
const struct exec_face *exec_face_for(const struct call *c);
extern const struct exec_face exec_ndjson, exec_collect, exec_stdio, exec_ws;

/* WebSocket: the request is the first message. */
void exec_ws_accept(struct call *c);

#endif
