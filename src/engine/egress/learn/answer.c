/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/learn/answer.h"

static void write_destination(struct json_writer *w, const struct learn_destination *d)
{
    json_field_str(w, "host", str_from(d->host.name));
    if (d->port)
        json_field_uint(w, "port", d->port);
    json_field_uint(w, "count", d->count);
}

static void write_program_list(struct json_writer *w, const struct learn_destination *d)
{
    if (!d->n_programs)
        return;
    json_field_begin_array(w, "programs");
    for (size_t i = 0; i < d->n_programs; i++)
        json_put_lossy(w, str_from(d->programs[i]));
    json_end_array(w);
}

static void write_item_list(struct json_writer *w, const struct learn_proposal *p)
{
    json_field_begin_array(w, "added");
    for (size_t i = 0; i < p->n_items; i++) {
        json_begin_object(w);
        write_destination(w, p->items[i].of);
        json_field_str(w, "endpoint", str_from(p->items[i].host));
        write_program_list(w, p->items[i].of);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_covered_list(struct json_writer *w, const struct learn_table *t)
{
    json_field_begin_array(w, "kept");
    for (size_t i = 0; i < t->n; i++) {
        if (!t->list[i]->covered)
            continue;
        json_begin_object(w);
        write_destination(w, t->list[i]);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_left_out_list(struct json_writer *w, const struct learn_proposal *p)
{
    const struct learn_table *tables[] = { &p->log->opened, &p->log->refused };

    json_field_begin_array(w, "left_out");
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < tables[k]->n; i++) {
            const struct learn_destination *d = tables[k]->list[i];

            if (!d->left_out)
                continue;
            json_begin_object(w);
            write_destination(w, d);
            json_field_text(w, "reason", d->left_out);
            json_field_bool(w, "suspicious", d->suspicious);
            json_end_object(w);
        }
    json_end_array(w);
}

static bool is_proposed(const struct learn_proposal *p, const struct learn_destination *d)
{
    for (size_t i = 0; i < p->n_items; i++)
        if (p->items[i].of == d)
            return true;
    return false;
}

static void write_refused_list(struct json_writer *w, const struct learn_proposal *p, bool denied)
{
    const struct learn_table *t = &p->log->refused;

    json_field_begin_array(w, "refused");
    for (size_t i = 0; i < t->n; i++) {
        if (denied && (t->list[i]->left_out || is_proposed(p, t->list[i])))
            continue;
        json_begin_object(w);
        write_destination(w, t->list[i]);
        json_field_text(w, "code", t->list[i]->code);
        json_field_optional(w, "protocol", t->list[i]->protocol);
        json_end_object(w);
    }
    json_end_array(w);
}

/* Names that were looked up and never connected to. */
static void write_asked_list(struct json_writer *w, const struct learn_log *l)
{
    json_field_begin_array(w, "only_looked_up");
    for (size_t i = 0; i < l->asked.n; i++) {
        struct str host = str_from(l->asked.list[i]->host.name);

        if (learn_table_has_host(&l->opened, host))
            continue;
        json_begin_object(w);
        write_destination(w, l->asked.list[i]);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_learn_counts(struct json_writer *w, const struct learn_proposal *p)
{
    const struct learn_log *l = p->log;
    const struct {
        const char *key;
        uint64_t value;
    } counts[] = { { "connections", l->connections },
                   { "missed", l->opened.missed },
                   { "missed_refusals", l->refused.missed },
                   { "missed_lookups", l->asked.missed },
                   { "only_recorded_requests", l->only_recorded },
                   { "refusals_without_destination", l->unknown },
                   { "unreadable_lines", l->unreadable },
                   { "dropped_endpoints", p->base.n - p->base.kept } };

    json_field_bool(w, "complete", l->opened.missed == 0 && l->unreadable == 0);
    json_field_bool(w, "dropped_unlisted", p->base.unlisted);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_field_uint(w, counts[i].key, counts[i].value);
}

int learn_answer_write(const struct learn_proposal *p, const struct learn_choices *c,
                       struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_str(&w, "policy", buf_str(&p->text));
    if (p->base.document)
        json_field_str(&w, "base", buf_str(&p->base_text));
    json_field_bool(&w, "changed",
                    !p->base.document || !str_eq(buf_str(&p->text), buf_str(&p->base_text)));
    write_learn_counts(&w, p);
    write_item_list(&w, p);
    write_covered_list(&w, &p->log->opened);
    write_left_out_list(&w, p);
    write_refused_list(&w, p, c->denied);
    write_asked_list(&w, p->log);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}
