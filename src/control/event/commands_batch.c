/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the records of programs, many in one transaction. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/event/commands_internal.h"
#include "domain/model/event.h"

enum { RETRY_MS = 2000, COMPLAIN_S = 60, SETTING_EXTRA = 256, SKIPPED_TEXT = 64, SKIPPED_S = 60 };

struct command_batch {
    struct commands *commands;
    struct store_txn txn;
    struct list runs;
    struct event_record skipped; /* type "": none */
    char skipped_text[SKIPPED_TEXT];
    uint64_t n_skipped;
};

static void on_batch_due(struct loop_timer *t);
static void on_skipped_due(struct loop_timer *t);

static void schedule_batch(struct commands *x, int64_t ms)
{
    if (!x->batch && !x->closing && !loop_timer_started(&x->timer))
        loop_timer_start(x->control->loop, &x->timer, clock_mono() + ms * NS_PER_MS, on_batch_due,
                         NULL);
}

static void await_skipped_event(struct commands *x)
{
    if (!x->closing && !loop_timer_started(&x->skipped_timer))
        loop_timer_start(x->control->loop, &x->skipped_timer, clock_mono() + SKIPPED_S * NS_PER_S,
                         on_skipped_due, NULL);
}

void command_enqueue(struct command_run *r)
{
    struct commands *x = r->commands;

    if (!link_joined(&r->waiting)) { /* or it waits already, or is being written */
        list_append(&x->waiting, &r->waiting);
        x->n_waiting++;
    }
    schedule_batch(x, COMMANDS_BATCH_MS);
}

void command_free(struct command_run *r)
{
    link_leave(&r->waiting);
    link_leave(&r->open);
    map_remove(&r->commands->by_id, &r->entry);
    arena_done(&r->arena);
    free(r->argv);
    free(r->text);
    free(r->claim);
    free(r->detail);
    free(r);
}

static char *command_key(const struct command_run *r, char ret[static ID_MAX + sizeof COMMAND_KEY])
{
    snprintf(ret, ID_MAX + sizeof COMMAND_KEY, "%s%s", COMMAND_KEY, r->id);
    return ret;
}

/* So that a later daemon run finds it. */
static void note_open_command(struct command_batch *b, const struct command_run *r)
{
    AUTO(buf_done) struct buf text = BUF_INIT(COMMAND_JSON_MAX + SETTING_EXTRA);
    char key[ID_MAX + sizeof COMMAND_KEY];

    if (buf_addf(&text, "%s %s %d %s %s", r->sandbox, r->owner, (int)r->who.kind, r->who.id,
                 r->detail) >= 0)
        store_set(&b->txn, command_key(r, key), text.p);
}

static void write_command_reason(const struct command_run *r, char *ret, size_t size)
{
    const char *program = r->command.argv.n ? r->command.argv.p[0] : "";
    struct str text = str_from(program);

    if (text.n >= size)
        text = (struct str){ program, size - 1 };
    (void)str_copy((struct str){ text.p, str_utf8_prefix(text) }, ret, size);
}

/* False: it cannot be written at all. */
static bool add_command_to_batch(struct command_batch *b, struct command_run *r)
{
    AUTO(buf_done) struct buf detail = BUF_INIT(COMMAND_JSON_MAX);
    char key[ID_MAX + sizeof COMMAND_KEY];
    struct err e;

    r->writes_end = r->ended;
    if (command_write(&r->command, &detail, &e) < 0) {
        LOG(ERROR, "commands.not_recorded", LOG_S("sandbox", r->sandbox), LOG_S("error", e.msg));
        return false;
    }
    free(r->detail);
    r->detail = take_ptr(detail.p);
    event_fill(&r->event, &r->who, r->owner, r->ended ? COMMAND_ENDED : COMMAND_STARTED, "");
    snprintf(r->event.sandbox, sizeof r->event.sandbox, "%s", r->sandbox);
    write_command_reason(r, r->event.reason, sizeof r->event.reason);
    r->event.detail = str_from(r->detail);
    store_add_event(&b->txn, &r->event);
    if (!r->ended)
        note_open_command(b, r);
    else if (r->stored)
        store_unset(&b->txn, command_key(r, key));
    return true;
}

static void add_skipped(struct command_batch *b)
{
    struct commands *x = b->commands;

    if (!x->skipped || (!x->closing && loop_timer_started(&x->skipped_timer)))
        return;
    b->n_skipped = x->skipped;
    event_fill(&b->skipped, &ACTOR_DAEMON, x->skipped_owner, COMMAND_SKIPPED,
               "programs beyond the share of events of one owner");
    snprintf(b->skipped_text, sizeof b->skipped_text, "{\"count\":%llu}",
             (unsigned long long)b->n_skipped);
    b->skipped.detail = str_from(b->skipped_text);
    store_add_event(&b->txn, &b->skipped);
}

static void publish_command(struct command_batch *b, struct event_record *v)
{
    v->seq = b->txn.first_seq++;
    if (!b->commands->closing)
        control_publish(b->commands->control, v);
}

static void finish_command(struct command_batch *b, struct command_run *r)
{
    publish_command(b, &r->event);
    r->stored = true;
    if (r->writes_end)
        command_free(r);
    else if (r->ended) /* meanwhile */
        command_enqueue(r);
}

static void complain_of_batch(struct commands *x, const struct err *e)
{
    if (x->complained_ns && clock_mono() - x->complained_ns < COMPLAIN_S * NS_PER_S)
        return;
    x->complained_ns = clock_mono();
    LOG(ERROR, "commands.waiting", LOG_I("records", (int64_t)x->n_waiting), LOG_S("error", e->msg));
}

/* In the order of their starts, in front of the others. */
static void return_commands(struct command_batch *b)
{
    struct commands *x = b->commands;

    LIST_EACH (struct command_run, run, &b->runs, waiting)
        x->n_waiting++;
    for (struct link *m; (m = list_take(&x->waiting));)
        list_append(&b->runs, m);
    for (struct link *m; (m = list_take(&b->runs));)
        list_append(&x->waiting, m);
}

static void on_batch_written(struct store_txn *t, int r, const struct err *e)
{
    struct command_batch *b = container_of(t, struct command_batch, txn);
    struct commands *x = b->commands;

    x->batch = NULL;
    if (r < 0) {
        return_commands(b);
        complain_of_batch(x, e);
        schedule_batch(x, RETRY_MS);
        free(b);
        return;
    }
    for (struct link *m; (m = list_take(&b->runs));)
        finish_command(b, container_of(m, struct command_run, waiting));
    x->skipped -= b->n_skipped;
    if (b->n_skipped)
        publish_command(b, &b->skipped);
    if (x->skipped) /* meanwhile */
        await_skipped_event(x);
    if (list_first(&x->waiting))
        schedule_batch(x, COMMANDS_BATCH_MS);
    free(b);
}

static void write_command_batch(struct commands *x)
{
    struct command_batch *b = x->batch = new0(sizeof *b);
    struct link *m;

    b->commands = x;
    store_txn_begin(&b->txn, x->control->store);
    for (size_t n = 0; n < COMMANDS_BATCH && (m = list_take(&x->waiting)); n++) {
        struct command_run *r = container_of(m, struct command_run, waiting);

        x->n_waiting--;
        if (add_command_to_batch(b, r))
            list_append(&b->runs, &r->waiting);
        else if (r->ended)
            command_free(r);
    }
    add_skipped(b);
    store_commit(&b->txn, on_batch_written);
}

static void on_skipped_due(struct loop_timer *t)
{
    struct commands *x = container_of(t, struct commands, skipped_timer);

    if (!x->batch)
        write_command_batch(x);
    else /* the next batch has it */
        schedule_batch(x, COMMANDS_BATCH_MS);
}

void commands_skip(struct commands *x, const char *owner)
{
    snprintf(x->skipped_owner, sizeof x->skipped_owner, "%s", owner);
    x->skipped++;
    await_skipped_event(x);
}

static void on_batch_due(struct loop_timer *t)
{
    struct commands *x = container_of(t, struct commands, timer);

    if (!x->batch)
        write_command_batch(x);
}

void commands_flush(struct control *c)
{
    struct commands *x = c->commands;

    loop_timer_stop(&x->timer);
    loop_timer_stop(&x->skipped_timer);
    x->closing = true;
    if (!c->store)
        return;
    if (x->skipped && !x->batch)
        write_command_batch(x);
    while (list_first(&x->waiting))
        write_command_batch(x);
}

static void free_open_command(struct map_entry *v, void *user)
{
    command_free(container_of(v, struct command_run, entry));
}

void commands_close(struct control *c)
{
    struct commands *x = c->commands;

    map_each(&x->by_id, free_open_command, NULL);
    map_done(&x->by_id);
    rate_done(&x->exempt);
}
