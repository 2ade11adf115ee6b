/* A session while its program runs, for the files of this noun. */
#ifndef CLI_SESSION_INSIDE_H
#define CLI_SESSION_INSIDE_H

#include "base/clock.h"
#include "cli/session.h"
#include "cli/stream.h"
#include "cli/terminal.h"

enum { TAG = 1, LISTENERS_TAG = 2, FORCE_AFTER_SIGNALS = 3 };
#define BACKSTOP_NS NS_PER_S
#define WHO_TAG     (UINT32_C(1) << 31) /* with the worker's own tag */
enum { STREAM_IN, STREAM_OUT, STREAM_ERR, STREAMS };

/* What we wait for, and what happened so far. */
struct run {
    struct session *s;
    const struct supervisor_start *start;
    struct stream streams[STREAMS];
    struct terminal terminal;
    int signals;
    uint32_t proc;    /* 0 until it started */
    int master;       /* the terminal's, with CONTROL_TTY; owned by streams[STREAM_OUT] */
    bool ended;       /* the program is over, one way or the other */
    bool created;     /* the launcher has done its part */
    int64_t deadline; /* by when PID 1 must have ended a program that timed out; 0: none */
    bool destroying, destroyed;
    bool said;     /* why it failed */
    int n_signals; /* how often somebody asked us to stop */
    int status;    /* our exit status */
    bool killed;   /* by SIGKILL: was it the memory limit? */
    uint32_t oom_kills;
};

/* It went wrong: says why, unless something was said, and takes the sandbox down. */
void session_fail(struct run *r, int status, const char *what);

/* --- session_network.c: PID 1 and the egress worker, between whom we carry --- */
void session_serve_network(struct run *r, const struct control_listening *m, struct ipc_fds *fds);
void session_hear_network(struct run *r, struct network *n);
/* What was not asked is not answered. m NULL: PID 1 does not know. */
void session_hear_who_is(struct run *r, uint32_t tag, const struct control_who_is *m);

#endif
