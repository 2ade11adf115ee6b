/* A session while its program runs, for the files of this noun. */
#ifndef CLI_SESSION_INSIDE_H
#define CLI_SESSION_INSIDE_H

#include "base/clock.h"
#include "cli/session.h"
#include "cli/stream.h"
#include "cli/terminal.h"

enum { TAG = 1, LISTENERS_TAG, MAKE_TAG, FEED_TAG, COLLECT_TAG };
enum { FORCE_AFTER_SIGNALS = 3 };
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
    bool filled;             /* session.collect: the directory is made */
    bool collecting, packed; /* … is being packed; PID 1 has written all of it */
    int tar;                 /* where it comes from; -1: not yet, or no more */
    uint64_t tar_bytes;
};

/* It went wrong: says why, unless something was said, and takes the sandbox down. */
void session_fail(struct run *r, int status, const char *what);
/* The program is over, or has to be: takes the sandbox down. */
void session_destroy(struct run *r);

/* --- session_files.c: session.collect, a directory that is made, fed and collected --- */
int session_make_files(struct run *r, struct err *e); /* ends with the start of the program */
void session_start(struct run *r);   /* once the sandbox stands and the directory is filled */
void session_collect(struct run *r); /* ends with the sandbox's destruction */
bool session_is_file_tag(uint32_t tag);
void session_hear_files(struct run *r, const union supervisor_message *m, struct ipc_fds *fds);
void session_hear_tar(struct run *r);

/* --- session_network.c: PID 1 and the egress worker, between whom we carry --- */
void session_serve_network(struct run *r, const struct control_listening *m, struct ipc_fds *fds);
void session_hear_network(struct run *r, struct network *n);
void session_tick_network(struct run *r); /* what is due */
/* What was not asked is not answered. m NULL: PID 1 does not know. */
void session_hear_who_is(struct run *r, uint32_t tag, const struct control_who_is *m);

#endif
