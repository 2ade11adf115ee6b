/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/learn/base.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/own.h"
#include "domain/policy/egress_explain.h"
#include "domain/policy/egress_file.h"
#include "engine/egress/learn/plain.h"

static const struct json *entries_of(const struct learn_base *b)
{
    return b->document ? json_get(b->document, STR("network_policies")) : NULL;
}

static const struct json *endpoints_of(const struct json *entry)
{
    static const struct json none = { .type = JSON_ARRAY };
    const struct json *list = json_get(entry, STR("endpoints"));

    return list ? list : &none;
}

#define EACH_ENTRY(entry, entries)                                                                 \
    const struct json *entry = (entries) ? json_first(entries) : NULL;                             \
    entry &&entry != json_end(entries);                                                            \
    entry++

static size_t count_endpoints(const struct learn_base *b)
{
    const struct json *entries = entries_of(b);
    size_t n = 0;

    for (EACH_ENTRY(entry, entries))
        n += endpoints_of(entry)->list.n;
    return n;
}

bool learn_is_allowed(const struct egress_snapshot *s, const struct learn_destination *d,
                      const char *program, struct egress_explanation *ret)
{
    const struct egress_explain_input trial = {
        .query = { .host = str_from(d->host.name),
                   .host_is_address = d->host.is_address,
                   .address = d->host.address,
                   .port = d->port,
                   .identity_known = program,
                   .binary = str_from(program) },
        .addresses = d->host.is_address ? &d->host.address : d->at,
        .n_addresses = d->host.is_address ? 1 : d->n_at,
    };

    egress_explain(s, &trial, ret);
    return ret->verdict != EGRESS_DENIED;
}

/* The endpoint alone, for every program, as a policy. */
static int write_alone(const struct json *ep, struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_uint(&w, "version", 1);
    json_field_begin_object(&w, "network_policies");
    json_field_begin_object(&w, "alone");
    json_field_begin_array(&w, "endpoints");
    json_begin_object(&w);
    for (const struct json *m = json_first(ep); m != json_end(ep); m++)
        if (!str_eq(m->key, STR("binaries"))) {
            json_key(&w, m->key);
            json_put_tree(&w, m);
        }
    json_end_object(&w);
    json_end_array(&w);
    json_end_object(&w);
    json_end_object(&w);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

/* Marks the destinations that the endpoint covers; 1 if there are any. Programs do not count: where
 * an endpoint names a destination, nothing else of the policy lets it pass. */
static int mark_covered(const struct json *ep, const struct learn_table *t, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    AUTO(buf_done) struct buf text = BUF_INIT(EGRESS_JSON_BYTES_MAX);
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = NULL;
    struct egress_explanation x;
    struct egress_policy policy;
    int r = write_alone(ep, &text, e), found = 0;

    if (r >= 0)
        r = egress_policy_from_json(buf_str(&text), &a, &policy, e);
    if (r < 0)
        return r;
    s = egress_compile(&policy, 1, e);
    if (!s)
        return -(int)ERR_INVALID;
    for (size_t i = 0; i < t->n; i++)
        if (learn_is_allowed(s, t->list[i], NULL, &x)) {
            t->list[i]->covered = true;
            found = 1;
        }
    return found;
}

/* Whether the entry can still allow something. */
static bool is_entry_alive(const struct egress_policy *p, struct str key)
{
    const struct egress_entry *list = p->network_policies.p;

    for (size_t i = 0; i < p->network_policies.n; i++)
        if (str_eq(str_from(list[i].key), key))
            return !list[i].spent && (!list[i].until || list[i].until > clock_wall());
    return false;
}

static int mark_used(struct learn_base *b, const struct egress_policy *p, bool keep,
                     const struct learn_table *t, struct err *e)
{
    const struct json *entries = entries_of(b);
    size_t at = 0;

    for (EACH_ENTRY(entry, entries)) {
        const struct json *list = endpoints_of(entry);
        bool alive = is_entry_alive(p, entry->key);

        for (const struct json *ep = json_first(list); ep != json_end(list); ep++, at++) {
            int r = alive ? mark_covered(ep, t, e) : 0;

            if (r < 0)
                return r;
            b->used[at] = r || (alive && keep);
            b->kept += b->used[at];
        }
    }
    return 0;
}

int learn_base_read(struct str yaml, bool keep, struct learn_log *l, struct arena *a,
                    struct learn_base *ret, struct err *e)
{
    const struct json *document;
    struct egress_policy policy;
    int r;

    *ret = (struct learn_base){ 0 };
    if (!yaml.n)
        return 0;
    r = egress_policy_read_document(yaml, a, &policy, &document, e);
    if (r >= 0)
        r = learn_plain_policy(document, a, &ret->document, e);
    if (r < 0)
        return r;
    ret->n = count_endpoints(ret);
    ret->used = arena_array(a, ret->n + 1, sizeof *ret->used);
    if (!ret->used)
        return err_set(e, ERR_TOO_BIG, "the policy has too many endpoints to be compared");
    ret->unlisted =
        policy.unlisted.access != EGRESS_UNLISTED_DENY || policy.unlisted.allowed_ips.n > 0;
    return mark_used(ret, &policy, keep, &l->opened, e);
}

/* ---- writing ---- */

static void write_used_endpoints(const struct learn_base *b, const struct json *entry, size_t at,
                                 struct json_writer *w)
{
    const struct json *list = endpoints_of(entry);

    for (const struct json *ep = json_first(list); ep != json_end(list); ep++, at++)
        if (b->used[at])
            json_put_tree(w, ep);
}

static bool has_used(const struct learn_base *b, const struct json *entry, size_t at)
{
    size_t n = endpoints_of(entry)->list.n;

    for (size_t i = 0; i < n; i++)
        if (b->used[at + i])
            return true;
    return false;
}

static void write_entry(const struct learn_base *b, const struct json *entry, size_t at,
                        struct json_writer *w)
{
    json_key(w, entry->key);
    json_begin_object(w);
    for (const struct json *m = json_first(entry); m != json_end(entry); m++) {
        json_key(w, m->key);
        if (!str_eq(m->key, STR("endpoints"))) {
            json_put_tree(w, m);
            continue;
        }
        json_begin_array(w);
        write_used_endpoints(b, entry, at, w);
        json_end_array(w);
    }
    json_end_object(w);
}

void learn_base_write_entries(const struct learn_base *b, struct str except, struct json_writer *w)
{
    const struct json *entries = entries_of(b);
    size_t at = 0;

    for (EACH_ENTRY(entry, entries)) {
        if (!str_eq(entry->key, except) && has_used(b, entry, at))
            write_entry(b, entry, at, w);
        at += endpoints_of(entry)->list.n;
    }
}

void learn_base_write_endpoints(const struct learn_base *b, struct str key, struct json_writer *w)
{
    const struct json *entries = entries_of(b);
    size_t at = 0;

    for (EACH_ENTRY(entry, entries)) {
        if (str_eq(entry->key, key))
            write_used_endpoints(b, entry, at, w);
        at += endpoints_of(entry)->list.n;
    }
}

void learn_base_write_others(const struct learn_base *b, struct json_writer *w)
{
    static const struct str ours[] = { STR("version"), STR("network_policies"), STR("unlisted") };

    if (!b->document)
        return;
    for (const struct json *m = json_first(b->document); m != json_end(b->document); m++) {
        bool skip = false;

        for (size_t i = 0; i < COUNT_OF(ours); i++)
            skip |= str_eq(m->key, ours[i]);
        if (skip)
            continue;
        json_key(w, m->key);
        json_put_tree(w, m);
    }
}

/* An entry of the base is the learned one if it has endpoints and nothing else. */
static bool can_have_key(const struct json *entries, struct str key)
{
    const struct json *entry = entries ? json_get(entries, key) : NULL;

    return !entry || (entry->list.n == 1 && json_get(entry, STR("endpoints")));
}

void learn_base_key(const struct learn_base *b, char out[static 32])
{
    snprintf(out, 32, "learned");
    for (unsigned i = 2; !can_have_key(entries_of(b), str_from(out)); i++)
        snprintf(out, 32, "learned-%u", i);
}
