/* SPDX-License-Identifier: Apache-2.0 */
/* Records the programs that callers start in sandboxes, as events (domain/model/command.h).
 *
 * A record is written after the start, together with others: a program that has ended by then is
 * one event, another one is a `command.started` and, when it has ended, a `command.ended`. Beside
 * the former a setting of the store names the program until its end is recorded. A daemon that
 * finds such a setting at its start, and no program that it belongs to, records the end as lost: so
 * every recorded start has a recorded end.
 *
 * Programs count for the events of their owner (control/owner/event_share.h). An administrator on
 * the unix socket is not refused: its programs beyond the share of an owner are counted in one event.
 *
 * A record that the store does not take, because the disk is full, is kept and tried again; while
 * COMMANDS_WAITING_MAX of them wait, or the store has no room, no program is started. A daemon that
 * is killed loses the records of the last COMMANDS_BATCH_MS. */
#ifndef CONTROL_EVENT_COMMANDS_H
#define CONTROL_EVENT_COMMANDS_H

#include "backends/backend.h"
#include "domain/model/command.h"

struct control;
struct command_run; /* a program whose record is not complete */
struct commands;

enum {
    COMMANDS_BATCH_MS = 50,
    COMMANDS_BATCH = 256, /* events in a transaction */
    COMMANDS_WAITING_MAX = 4096,
};

/* Reads the programs that an earlier daemon run left open; blocks. After the store is open. */
int commands_open(struct control *c, struct err *e);
/* Every sandbox has answered, and its processes were claimed: the others are lost. */
void commands_settle(struct control *c);
void commands_flush(struct control *c); /* before the store is closed: writes what waits */
void commands_close(struct control *c); /* after that; idempotent */
bool commands_are_idle(const struct control *c);

/* Before a start that will be recorded: -ERR_QUOTA, -ERR_FULL, -ERR_BUSY. */
int commands_check(const struct control *c, const char *owner, const struct actor *who,
                   struct err *e);

struct command_begin {
    const char *sandbox, *owner;
    const struct actor *who;
    enum command_recording recording;
    const char *client;      /* static */
    const char *const *argv; /* ended by NULL */
    const char *requested;   /* a command line that the client says it will give it; NULL: none */
    const char *user;        /* NULL: unknown */
    bool background;
};
/* The start was requested just now. NULL: it is not recorded. The caller reports one of the ends
 * below, or leaves it to the next daemon run; NULL is fine there. Nothing is written before
 * command_started(). */
struct command_run *command_begin(struct control *c, const struct command_begin *b);
const char *command_id(const struct command_run *r); /* "": NULL */
void command_started(struct command_run *r, uint32_t process);
void command_not_started(struct command_run *r, const struct err *e);
void command_ended(struct command_run *r, const struct backend_end *end);
/* Its end will not be known. outcome: COMMAND_ABANDONED or COMMAND_LOST. */
void command_gave_up(struct command_run *r, enum command_end outcome, const char *reason);

/* A program of an earlier daemon run that is still followed, by its id; NULL: unknown. */
struct command_run *command_claim(struct control *c, const char *id);

/* Calls `each` for programs that run, of all owners, the newest first, until it returns false. */
typedef bool command_each_fn(void *user, const struct command_row *row);
void commands_each_running(struct control *c, command_each_fn *each, void *user);

#endif
