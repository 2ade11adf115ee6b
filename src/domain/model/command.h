/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a program that was started in a sandbox: the detail of the events
 * `command.started` and `command.ended`. */
#ifndef DOMAIN_MODEL_COMMAND_H
#define DOMAIN_MODEL_COMMAND_H

#include "domain/model/record.h"
#include "lib/json/bind.h"

/* A program that still runs when its record is written has a `command.started`; every program has a
 * `command.ended`, with everything. */
#define COMMAND_STARTED "command.started"
#define COMMAND_ENDED   "command.ended"
/* Programs of an administrator beyond its share of events: their number. */
#define COMMAND_SKIPPED "command.skipped"

enum {
    COMMAND_JSON_MAX = 64 << 10,
    COMMAND_USER_MAX = 64,
    COMMAND_REASON_MAX = 160,
    COMMAND_REQUESTED_MAX = 16 << 10, /* of a request; more than is read of it */
};

/* Whether the programs of a sandbox are recorded, and their arguments as they are. */
enum command_recording { RECORDING_MASKED, RECORDING_FULL, RECORDING_NONE };
extern const char *const command_recording_names[];

enum command_end {
    COMMAND_RUNNING,
    COMMAND_EXITED,
    COMMAND_SIGNALLED,
    COMMAND_TIMED_OUT,
    COMMAND_OUT_OF_MEMORY,
    COMMAND_ABANDONED,   /* killed, because its client disconnected */
    COMMAND_NOT_STARTED, /* the program is missing, or cannot be executed */
    COMMAND_SENT,        /* a program that runs already was given it: its end is not followed */
    COMMAND_LOST,        /* its end is unknown: the daemon or the sandbox ended before it */
    COMMAND_OUTCOME_COUNT_
};
extern const char *const command_outcome_names[];

struct command {
    const char *id;        /* "cmd_…" */
    struct json_strs argv; /* masked, and bounded: domain/model/mask.h */
    const char *requested; /* a claim of the client that the daemon cannot check; NULL: none */
    unsigned masked;       /* values that are masked */
    bool truncated;        /* arguments are missing, or the end of `requested` */
    const char *user;      /* inside */
    const char *client;    /* the interface: "cli", "rest", "mcp", "e2b", "daytona", "ssh" */
    const char *token;     /* the name of the caller's token; NULL: none */
    bool background;
    uint32_t process; /* its number in the sandbox */
    int64_t started_ms, duration_ms;
    enum command_end outcome;
    int exit_code;      /* of COMMAND_EXITED */
    const char *signal; /* of COMMAND_SIGNALLED and COMMAND_OUT_OF_MEMORY; NULL: none */
    const char *reason; /* of COMMAND_NOT_STARTED and COMMAND_LOST; NULL: none */
};

/* The detail of an event. Texts that are not UTF-8 are an error. */
int command_write(const struct command *c, struct buf *out, struct err *e);
int command_read(struct str detail, struct command *ret, struct arena *a, struct err *e);

/* Whether it has ended in another way than with the exit code 0. */
bool command_failed(const struct command *c);

/* A row of a list. */
struct command_row {
    int64_t seq; /* of its command.ended; 0: it runs */
    const struct event_record *event;
    const struct command *command;
};
extern const struct json_shape command_answer;

#endif
