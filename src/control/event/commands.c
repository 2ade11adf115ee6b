/* SPDX-License-Identifier: Apache-2.0 */
#include "control/event/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/event/commands_internal.h"
#include "control/owner/event_share.h"
#include "control/owner/owner_share.h"
#include "control/owner/tokens.h"
#include "domain/model/event.h"
#include "domain/model/mask.h"
#include "lib/proc/signals.h"

#define DAY_NS (24 * 3600 * NS_PER_S)

/* --- before a start --- */

int commands_check(const struct control *c, const char *owner, const struct actor *who,
                   struct err *e)
{
    int r = store_check_room(c->store, e);

    if (r < 0)
        return r;
    if (c->commands->n_waiting >= COMMANDS_WAITING_MAX)
        return err_set(e, ERR_BUSY,
                       "cannot start the program: %d records of programs wait for the store, "
                       "which does not take them; look for store.failed in the daemon's log",
                       COMMANDS_WAITING_MAX);
    return event_share_check(c, owner, who, e);
}

/* Whether it is one of an administrator, beyond the share of an owner. Programs of an administrator's
 * token are not: commands_check() refuses them, and they must not use up this share. */
static bool is_command_skipped(struct control *c, const struct command_begin *b)
{
    struct commands *x = c->commands;
    struct account a = account_of(c, b->owner, event_share_family(c, b->who));

    if (!a.exempt)
        return false;
    if (!rate_wait(&x->exempt, str_from(a.name), clock_mono())) {
        rate_use(&x->exempt, str_from(a.name), 1, clock_mono());
        return false;
    }
    commands_skip(x, b->owner);
    return true;
}

static const char **list_texts(char *text, size_t n)
{
    const char **list = new0_array(n + 1, sizeof *list);

    for (size_t i = 0; i < n; i++, text += strlen(text) + 1)
        list[i] = text;
    return list;
}

static void take_arguments(struct command_run *r, const struct command_begin *b)
{
    struct masked m;

    mask_arguments(b->argv, b->recording != RECORDING_FULL, &m);
    r->text = take_ptr(m.text.p);
    r->argv = list_texts(r->text, m.args);
    r->command.argv = (struct json_strs){ r->argv, m.args };
    r->command.masked = m.values;
    r->command.truncated = m.truncated;
}

/* Masked as the command line of a shell. */
static void take_requested(struct command_run *r, const struct command_begin *b)
{
    const char *const argv[] = { "-c", b->requested, NULL };
    struct masked m;

    if (!b->requested)
        return;
    mask_arguments(argv, b->recording != RECORDING_FULL, &m);
    r->claim = take_ptr(m.text.p);
    r->command.requested = r->claim + sizeof "-c";
    r->command.masked += m.values;
    r->command.truncated |= m.truncated;
}

static void take_token(struct command_run *r)
{
    const struct control *c = r->commands->control;
    const struct token_record *t = c->tokens ? tokens_by_id(c->tokens, str_from(r->who.id)) : NULL;

    if (!t)
        return;
    snprintf(r->token, sizeof r->token, "%s", t->name);
    r->command.token = r->token;
}

static void add_open_command(struct commands *x, struct command_run *r)
{
    r->commands = x;
    r->entry.id = r->id;
    r->command.id = r->id;
    r->command.user = r->user;
    map_add(&x->by_id, &r->entry);
    list_append(&x->open, &r->open);
}

struct command_run *command_begin(struct control *c, const struct command_begin *b)
{
    struct command_run *r;
    char id[ID_MAX];

    if (b->recording == RECORDING_NONE || is_command_skipped(c, b) || id_make("cmd_", id, NULL) < 0)
        return NULL;
    r = new0(sizeof *r);
    snprintf(r->id, sizeof r->id, "%s", id);
    snprintf(r->sandbox, sizeof r->sandbox, "%s", b->sandbox);
    snprintf(r->owner, sizeof r->owner, "%s", b->owner);
    snprintf(r->user, sizeof r->user, "%s", b->user ? b->user : "");
    r->who = b->who ? *b->who : ACTOR_DAEMON;
    r->command.client = b->client ? b->client : "daemon";
    r->command.background = b->background;
    r->command.started_ms = clock_wall() / NS_PER_MS;
    r->started_ns = clock_mono();
    add_open_command(c->commands, r);
    take_token(r);
    take_arguments(r, b);
    take_requested(r, b);
    return r;
}

const char *command_id(const struct command_run *r)
{
    return r ? r->id : "";
}

/* --- after it --- */

void command_started(struct command_run *r, uint32_t process)
{
    if (!r || r->ended)
        return;
    r->command.process = process;
    command_enqueue(r);
}

static void end_command(struct command_run *r, enum command_end outcome)
{
    int64_t now = clock_wall() / NS_PER_MS;

    r->ended = true;
    r->found = false;
    r->command.outcome = outcome;
    r->command.reason = r->reason[0] ? r->reason : NULL;
    if (r->started_ns)
        r->command.duration_ms = (clock_mono() - r->started_ns) / NS_PER_MS;
    else
        r->command.duration_ms = now > r->command.started_ms ? now - r->command.started_ms : 0;
    command_enqueue(r);
}

/* Texts of errors may hold bytes of programs. */
static void take_reason(struct command_run *r, const char *reason)
{
    struct str text = str_from(reason);

    if (text.n >= sizeof r->reason)
        text.n = sizeof r->reason - 1;
    text.n = str_utf8_prefix(text);
    (void)str_copy(text, r->reason, sizeof r->reason);
}

void command_not_started(struct command_run *r, const struct err *e)
{
    if (!r || r->ended)
        return;
    take_reason(r, e->msg);
    end_command(r, COMMAND_NOT_STARTED);
}

void command_gave_up(struct command_run *r, enum command_end outcome, const char *reason)
{
    if (!r || r->ended)
        return;
    take_reason(r, reason);
    end_command(r, outcome);
}

static const enum command_end outcomes[] = {
    [BACKEND_EXITED] = COMMAND_EXITED,
    [BACKEND_SIGNALLED] = COMMAND_SIGNALLED,
    [BACKEND_TIMED_OUT] = COMMAND_TIMED_OUT,
    [BACKEND_LOST] = COMMAND_LOST,
};

void command_ended(struct command_run *r, const struct backend_end *end)
{
    enum command_end outcome = COMMAND_LOST;

    if (!r || r->ended)
        return;
    if ((size_t)end->how < COUNT_OF(outcomes))
        outcome = outcomes[end->how];
    if (backend_end_is_oom(end))
        outcome = COMMAND_OUT_OF_MEMORY;
    if (end->how == BACKEND_EXITED)
        r->command.exit_code = end->status;
    if (end->how == BACKEND_SIGNALLED)
        r->command.signal = signal_name(end->status);
    if (outcome == COMMAND_LOST)
        take_reason(r, "its sandbox ended before it");
    end_command(r, outcome);
}

/* --- running ones --- */

struct command_run *command_claim(struct control *c, const char *id)
{
    struct map_entry *v = map_find(&c->commands->by_id, str_from(id));
    struct command_run *r = v ? container_of(v, struct command_run, entry) : NULL;

    if (r)
        r->found = false;
    return r && !r->ended ? r : NULL;
}

void commands_each_running(struct control *c, command_each_fn *each, void *user)
{
    struct list *all = &c->commands->open;

    for (struct link *m = list_last(all); m; m = list_before(all, m)) {
        struct command_run *r = container_of(m, struct command_run, open);
        struct event_record event;
        const struct command_row row = { 0, &event, &r->command };

        if (r->ended)
            continue;
        event_fill(&event, &r->who, r->owner, COMMAND_STARTED, "");
        snprintf(event.sandbox, sizeof event.sandbox, "%s", r->sandbox);
        if (!each(user, &row))
            return;
    }
}

/* --- earlier daemon runs --- */

/* Of the setting: the detail, and what else an event has. */
static int read_open_command(struct command_run *r, const struct store_setting *s, struct err *e)
{
    struct str text = str_from(s->value), part[4];
    uint64_t kind = 0;
    int err;

    for (size_t i = 0; i < COUNT_OF(part); i++)
        text = str_cut(text, ' ', &part[i]);
    if (!text.p || !str_to_u64(part[2], &kind) || kind >= ACTOR_KIND_COUNT_ ||
        !str_copy(part[0], r->sandbox, sizeof r->sandbox) ||
        !str_copy(part[1], r->owner, sizeof r->owner) ||
        !str_copy(part[3], r->who.id, sizeof r->who.id))
        return err_set(e, ERR_INVALID, "setting %s is malformed", s->key);
    r->who.kind = (enum actor_kind)kind;
    err = command_read(text, &r->command, &r->arena, e);
    if (err >= 0 && (!r->command.id || strlen(r->command.id) >= sizeof r->id))
        err = err_set(e, ERR_INVALID, "setting %s has no valid id", s->key);
    return err;
}

static void add_found_command(struct commands *x, const struct store_setting *s)
{
    struct command_run *r = new0(sizeof *r);
    struct err e;

    arena_init(&r->arena, 8 * COMMAND_JSON_MAX);
    if (read_open_command(r, s, &e) < 0) {
        LOG(ERROR, "commands.unreadable", LOG_S("error", e.msg));
        arena_done(&r->arena);
        free(r);
        return;
    }
    snprintf(r->id, sizeof r->id, "%s", r->command.id);
    snprintf(r->user, sizeof r->user, "%s", r->command.user ? r->command.user : "");
    r->stored = r->found = true;
    add_open_command(x, r);
}

int commands_open(struct control *c, struct err *e)
{
    struct commands *x = c->commands;
    struct store_query q = { .kind = STORE_SETTINGS, .text = STR(COMMAND_KEY) };
    uint64_t most = config_share(c->config->limits.events_per_owner, c->config->limits.events_keep);
    int r;

    rate_init(&x->exempt, most, DAY_NS);
    arena_init(&q.arena, (size_t)1 << 30);
    r = store_ask_now(c->store, &q, e);
    for (size_t i = 0; r >= 0 && i < q.n; i++)
        add_found_command(x, &q.settings[i]);
    arena_done(&q.arena);
    return r;
}

void commands_settle(struct control *c)
{
    LIST_EACH_SAFE (struct command_run, r, &c->commands->open, open)
        if (r->found)
            command_gave_up(r, COMMAND_LOST, "the daemon ended before it");
}

bool commands_are_idle(const struct control *c)
{
    return !c->commands->n_waiting && !c->commands->batch;
}
