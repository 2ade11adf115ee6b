/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/learn/destinations.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"

enum { SLOTS = 4 * LEARN_DESTINATIONS_MAX };

/* FNV-1a. A table has few entries, so that names which collide cost little. */
static uint32_t hash_destination(struct str host, uint16_t port)
{
    uint32_t h = 2166136261u ^ port;

    for (size_t i = 0; i < host.n; i++)
        h = (h ^ (unsigned char)host.p[i]) * 16777619u;
    return h % SLOTS;
}

/* The slot that has it, or the free one where it belongs. */
static uint32_t *find_slot(const struct learn_table *t, struct str host, uint16_t port)
{
    uint32_t at = hash_destination(host, port);

    for (;; at = (at + 1) % SLOTS) {
        const struct learn_destination *d = t->index_[at] ? t->list[t->index_[at] - 1] : NULL;

        if (!d || (d->port == port && str_eq(str_from(d->host.name), host)))
            return &t->index_[at];
    }
}

struct learn_destination *learn_table_find(const struct learn_table *t, struct str host,
                                           uint16_t port)
{
    uint32_t at = *find_slot(t, host, port);

    return at ? t->list[at - 1] : NULL;
}

bool learn_table_has_host(const struct learn_table *t, struct str host)
{
    for (size_t i = 0; i < t->n; i++)
        if (str_eq(str_from(t->list[i]->host.name), host))
            return true;
    return false;
}

/* NULL if the table is full; the event is counted. */
static struct learn_destination *file_destination(struct learn_table *t,
                                                  const struct learn_record *r)
{
    uint32_t *slot = find_slot(t, str_from(r->host.name), r->port);
    struct learn_destination *d;

    if (*slot)
        return t->list[*slot - 1];
    if (t->n == LEARN_DESTINATIONS_MAX) {
        t->missed += r->count;
        return NULL;
    }
    d = new0(sizeof *d);
    d->host = r->host;
    d->port = r->port;
    t->list[t->n++] = d;
    *slot = (uint32_t)t->n;
    return d;
}

static void note_address(struct learn_destination *d, const struct address *a)
{
    for (size_t i = 0; i < d->n_at; i++)
        if (address_equal(&d->at[i], a))
            return;
    if (d->n_at == LEARN_ADDRESSES_MAX)
        d->more_at = true;
    else
        d->at[d->n_at++] = *a;
}

static void note_program(struct learn_destination *d, const struct learn_record *r)
{
    d->odd_program |= r->odd_program;
    d->no_program |= !r->program[0] && !r->odd_program;
    if (!r->program[0])
        return;
    for (size_t i = 0; i < d->n_programs; i++)
        if (strcmp(d->programs[i], r->program) == 0)
            return;
    if (d->n_programs == LEARN_PROGRAMS_MAX) {
        d->more_programs = true;
        return;
    }
    d->programs[d->n_programs] = new0(LEARN_PROGRAM_MAX);
    memcpy(d->programs[d->n_programs++], r->program, LEARN_PROGRAM_MAX);
}

static void file_decision(struct learn_table *t, const struct learn_record *r)
{
    struct learn_destination *d = file_destination(t, r);

    if (!d)
        return;
    d->count += r->count;
    memcpy(d->code, r->code, sizeof d->code);
    memcpy(d->protocol, r->protocol, sizeof d->protocol);
    if (r->has_at)
        note_address(d, &r->at);
    note_program(d, r);
}

void learn_log_add(struct learn_log *l, struct str line)
{
    struct learn_record r = { 0 };

    if (!learn_record_read(line, &r)) {
        l->unreadable++;
        return;
    }
    if (r.kind == LEARN_OPENED) {
        l->connections++;
        file_decision(&l->opened, &r);
    } else if (r.kind == LEARN_ASKED) {
        file_decision(&l->asked, &r);
    } else if (r.kind == LEARN_REFUSED) {
        file_decision(&l->refused, &r);
    } else if (r.kind == LEARN_UNKNOWN) {
        l->unknown += r.count;
    } else if (r.kind == LEARN_ONLY_RECORDED) {
        l->only_recorded += r.count;
    }
}

static void init_table(struct learn_table *t)
{
    *t = (struct learn_table){ .list = new0_array(LEARN_DESTINATIONS_MAX, sizeof(void *)),
                               .index_ = new0_array(SLOTS, sizeof *t->index_) };
}

static void free_table(struct learn_table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        for (size_t k = 0; k < t->list[i]->n_programs; k++)
            free(t->list[i]->programs[k]);
        free(t->list[i]);
    }
    free(t->list);
    free(t->index_);
    *t = (struct learn_table){ 0 };
}

void learn_log_init(struct learn_log *l)
{
    *l = (struct learn_log){ 0 };
    init_table(&l->opened);
    init_table(&l->refused);
    init_table(&l->asked);
}

void learn_log_done(struct learn_log *l)
{
    free_table(&l->opened);
    free_table(&l->refused);
    free_table(&l->asked);
}
