/* A program or file operation that a tool runs in a sandbox: what it writes goes to the tool, under
 * its back-pressure, and its end is told last. */
#ifndef API_MCP_RUN_H
#define API_MCP_RUN_H

#include "api/mcp.h"
#include "loop/fd.h"

struct mcp_run;
struct mcp_run_events {
    /* Bytes of channel 1 or 2. False: enough for now, mcp_run_resume() goes on. */
    bool (*output)(struct mcp_run *x, int channel, struct str data);
    void (*ended)(struct mcp_run *x, const struct ext_end *end);
    void (*failed)(struct mcp_run *x, const struct err *e); /* it did not start */
};

struct mcp_run_pump {
    struct mcp_run *run;
    struct loop_fd source;
    int fd, channel;
};

/* A member of its owner, which is freed with its request; the run holds a reference to that. */
struct mcp_run {
    struct mcp_request *request;
    const struct mcp_run_events *events;
    struct loop *loop;
    struct run_op op;
    struct mcp_run_pump pumps[2];
    struct loop_fd input;
    struct buf pending; /* for its stdin, which is closed behind it */
    struct loop_timer linger;
    struct ext_end end;
    struct err failure; /* of a file operation that ended badly; code 0: it did not */
    bool running, ended, full, over;
};

/* `input` is copied; it is what stdin gets. */
void mcp_run_start(struct mcp_run *x, struct mcp_request *r, struct sandbox *s,
                   const struct ext_start *start, struct str input,
                   const struct mcp_run_events *events);
/* The same of a program: for tools that the policy knows as such. */
void mcp_run_program(struct mcp_run *x, struct mcp_request *r, struct sandbox *s,
                     const struct ext_start *start, struct str input,
                     const struct mcp_run_events *events);
void mcp_run_resume(struct mcp_run *x);
/* Kills it with all it started; nothing is told any more. */
void mcp_run_cancel(struct mcp_run *x);
void mcp_run_done(struct mcp_run *x);

#endif
