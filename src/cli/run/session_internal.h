/* SPDX-License-Identifier: Apache-2.0 */
/* A session while its program runs, for the files of this noun. */
#ifndef CLI_RUN_SESSION_INTERNAL_H
#define CLI_RUN_SESSION_INTERNAL_H

#include "base/clock.h"
#include "cli/run/session.h"
#include "cli/stream.h"
#include "cli/terminal.h"

enum { TAG = 1, LISTENERS_TAG, MAKE_TAG, FEED_TAG, COLLECT_TAG };
enum { FORCE_AFTER_SIGNALS = 3 };
#define BACKSTOP_NS NS_PER_S
#define WHO_TAG     (UINT32_C(1) << 31) /* with the worker's own tag */

/* The state of a run: event sources and progress. */
struct session_run {
    struct session *s;
    const struct process_start *start;
    struct stream streams[STREAMS];
    struct terminal terminal;
    int signals;
    uint32_t proc;    /* 0 until it started */
    int master;       /* the terminal's, with START_TTY; owned by streams[STREAM_OUT] */
    bool ended;       /* the program has ended, or never started */
    bool created;     /* the launcher has done its part */
    int64_t deadline; /* by when PID 1 must have ended a program that timed out; 0: none */
    bool destroying, destroyed;
    bool said;     /* why it failed */
    int n_signals; /* signals that asked this process to stop */
    int status;    /* our exit status */
    bool killed;   /* by SIGKILL: was it the memory limit? */
    uint32_t oom_kills;
    bool filled;             /* session.collect: the directory is made */
    bool collecting, packed; /* … is being packed; PID 1 has written all of it */
    int tar;                 /* the pipe it comes from; -1: not open yet, or closed */
    uint64_t tar_bytes;
};

/* Fails the run: prints the reason, unless one was printed, and destroys the sandbox. */
void session_fail(struct session_run *r, int status, const char *what);
/* Destroys the sandbox, after the program has ended or in order to end it. */
void session_destroy(struct session_run *r);

/* --- session_files.c: session.collect, a directory that is made, fed and collected --- */
int session_make_files(struct session_run *r,
                       struct err *e);     /* ends with the start of the program */
void session_start(struct session_run *r); /* after the sandbox is built and the directory filled */
void session_collect(struct session_run *r); /* ends with the sandbox's destruction */
void session_receive_files(struct session_run *r, const union supervisor_message *m,
                           struct ipc_fds *fds);
void session_receive_tar(struct session_run *r);

/* --- session_network.c: PID 1 and the egress worker, between whom we carry --- */
void session_serve_network(struct session_run *r, const struct control_listening *m,
                           struct ipc_fds *fds);
void session_receive_network(struct session_run *r, struct network *n);
void session_tick_network(struct session_run *r); /* runs timers that are due */
/* Answers to unknown questions are dropped. m NULL: PID 1 has no answer. */
void session_receive_who_is(struct session_run *r, uint32_t tag, const struct control_who_is *m);

#endif
