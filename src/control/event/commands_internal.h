/* SPDX-License-Identifier: Apache-2.0 */
/* Shared declarations of the files that record programs. */
#ifndef CONTROL_EVENT_COMMANDS_INTERNAL_H
#define CONTROL_EVENT_COMMANDS_INTERNAL_H

#include "control/event/commands.h"
#include "control/plane/plane.h"

#define COMMAND_KEY "command.open." /* of the settings of open programs */

struct command_run {
    struct commands *commands;
    struct map_entry entry; /* by id */
    struct link open;       /* in commands.open: the oldest first */
    struct link waiting;    /* in commands.waiting or in a batch */
    struct arena arena;     /* of a program that was found */
    char id[ID_MAX];
    char sandbox[ID_MAX];
    struct actor who;
    char owner[OWNER_MAX];
    char user[COMMAND_USER_MAX];
    char token[COMMAND_USER_MAX]; /* "": none */
    char reason[COMMAND_REASON_MAX];
    const char **argv;
    char *text;   /* what argv points to */
    char *claim;  /* what command.requested points into */
    char *detail; /* of the event in the current batch */
    struct command command;
    struct event_record event; /* likewise */
    int64_t started_ns;        /* monotonic; 0: of an earlier daemon run */
    bool ended;                /* its end is known */
    bool stored;               /* its start is on record */
    bool writes_end;           /* the current batch has its end */
    bool found;                /* of an earlier daemon run, and not claimed */
};

struct commands {
    struct control *control;
    struct map by_id;
    struct list open;
    struct list waiting;
    size_t n_waiting;
    struct loop_timer timer;
    struct command_batch *batch; /* under way; NULL: none */
    struct rate exempt;          /* of administrators */
    uint64_t skipped;            /* since the last event about them, which the timer writes */
    struct loop_timer skipped_timer;
    char skipped_owner[OWNER_MAX];
    int64_t complained_ns;
    bool closing;
};

/* --- commands_batch.c --- */

/* Its record is to be written, or to be written again. */
void command_enqueue(struct command_run *r);
/* A program is only counted. */
void commands_skip(struct commands *x, const char *owner);
void command_free(struct command_run *r);

#endif
