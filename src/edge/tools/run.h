/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program or file operation in a sandbox for a tool: passes its output to the tool with
 * back-pressure, and reports its end last. */
#ifndef EDGE_TOOLS_RUN_H
#define EDGE_TOOLS_RUN_H

#include "edge/tools/tools.h"
#include "lib/loop/fd.h"

struct mcp_run;
struct mcp_run_events {
    /* Output of channel 1 or 2. Returning false pauses it until mcp_run_resume(). */
    bool (*output)(struct mcp_run *x, int channel, struct str data);
    void (*ended)(struct mcp_run *x, const struct backend_end *end);
    void (*failed)(struct mcp_run *x, const struct err *e); /* failed to start */
};

struct mcp_run_pump {
    struct mcp_run *run;
    struct loop_fd source;
    int fd, channel;
};

/* Embedded in a struct that is freed with the request; the run holds a reference to the request. */
struct mcp_run {
    struct mcp_request *request;
    const struct mcp_run_events *events;
    struct loop *loop;
    struct run_op op;
    struct mcp_run_pump pumps[2];
    struct loop_fd input;
    struct buf pending; /* for its stdin, which is closed afterwards */
    struct loop_timer linger;
    struct backend_end end;
    struct err failure; /* of a failed file operation; code 0: success */
    bool running, ended, full, over;
};

/* `input` is copied and written to stdin. `programs`: of a tool that the policy treats as running
 * programs. */
void mcp_run_start(struct mcp_run *x, struct mcp_request *r, struct sandbox *s,
                   const struct process_start *start, struct str input, bool programs,
                   const struct mcp_run_events *events);
void mcp_run_resume(struct mcp_run *x);
/* Kills the program with its descendants; no event follows. */
void mcp_run_cancel(struct mcp_run *x);
void mcp_run_done(struct mcp_run *x);

#endif
