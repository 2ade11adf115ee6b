/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/learn/proposal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "domain/policy/egress_explain.h"
#include "domain/policy/egress_file.h"
#include "engine/egress/learn/names.h"
#include "lib/json/reader.h"
#include "lib/json/yaml_text.h"

void learn_proposal_init(struct learn_proposal *p, struct learn_log *l)
{
    *p = (struct learn_proposal){ .log = l,
                                  .text = BUF_INIT(EGRESS_FILE_BYTES_MAX),
                                  .base_text = BUF_INIT(EGRESS_JSON_BYTES_MAX) };
}

void learn_proposal_done(struct learn_proposal *p)
{
    free(take_ptr(p->items));
    buf_done(&p->text);
    buf_done(&p->base_text);
}

/* ---- what is left out ---- */

static bool is_public_only(const struct learn_destination *d)
{
    for (size_t i = 0; i < d->n_at; i++)
        if (address_classify(&d->at[i]) != ADDRESS_PUBLIC)
            return false;
    return !d->host.is_address || address_classify(&d->host.address) == ADDRESS_PUBLIC;
}

static bool is_loopback_name(const struct learn_destination *d)
{
    return !d->host.is_address && host_names_loopback(str_from(d->host.name));
}

static const char *find_program_problem(const struct learn_destination *d)
{
    if (d->odd_program)
        return "a program that connected has a path that no policy can name";
    if (d->no_program || !d->n_programs)
        return "the program that connected is not known";
    return d->more_programs ? "too many programs connected" : NULL;
}

/* Metadata services and cluster control planes. */
static bool is_never_allowed(const struct learn_destination *d)
{
    for (size_t i = 0; i < d->n_at; i++)
        if (!address_grantable(&d->at[i]))
            return true;
    return port_control_plane(d->port) || host_is_metadata(&d->host) ||
           (d->host.is_address && !address_grantable(&d->host.address));
}

static void leave_out(struct learn_destination *d, const char *why, bool suspicious)
{
    d->left_out = why;
    d->suspicious = why && suspicious;
}

static void choose_destination(struct learn_destination *d, const struct learn_choices *c)
{
    const char *suspicion =
        d->host.is_address || c->suspicious ? NULL : learn_name_suspicion(str_from(d->host.name));

    if (is_never_allowed(d))
        leave_out(d, "no policy can allow it", false);
    else if (suspicion)
        leave_out(d, suspicion, true);
    else if (d->more_at && !is_public_only(d))
        leave_out(d, "the name has too many addresses that are not public", false);
    else
        leave_out(d, c->programs ? find_program_problem(d) : NULL, false);
}

static int compare_parents(const void *a, const void *b)
{
    const struct learn_destination *const *x = a, *const *y = b;
    struct str p = learn_name_parent(str_from((*x)->host.name)),
               q = learn_name_parent(str_from((*y)->host.name));
    int r = memcmp(p.p ? p.p : "", q.p ? q.p : "", p.n < q.n ? p.n : q.n);

    return r ? r : (p.n > q.n) - (p.n < q.n);
}

/* Names in the order of their domains; addresses are not in the list. */
static size_t sort_by_parent(const struct learn_table *t, struct learn_destination **list)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++)
        if (!t->list[i]->host.is_address && learn_name_parent(str_from(t->list[i]->host.name)).n)
            list[n++] = t->list[i];
    qsort(list, n, sizeof *list, compare_parents);
    return n;
}

/* A flood of names below one domain. */
static void leave_out_siblings(const struct learn_table *t)
{
    AUTO_FREE struct learn_destination **list = new0_array(t->n + 1, sizeof *list);
    size_t n = sort_by_parent(t, list);

    for (size_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && compare_parents(&list[from], &list[to]) == 0; to++)
            ;
        for (size_t i = from; to - from > LEARN_SIBLINGS_MAX && i < to; i++)
            if (!list[i]->covered && !list[i]->left_out)
                leave_out(list[i], "so many names below one domain may carry data", true);
    }
}

static void choose_destinations(const struct learn_table *t, const struct learn_choices *c)
{
    for (size_t i = 0; i < t->n; i++)
        if (!t->list[i]->covered)
            choose_destination(t->list[i], c);
    if (!c->suspicious)
        leave_out_siblings(t);
}

/* A denial that an endpoint of the policy would have prevented. */
static bool is_wanted(const struct learn_log *l, const struct learn_destination *d)
{
    bool by_policy = str_eq(str_from(d->code), STR("policy_denied")) ||
                     str_eq(str_from(d->code), STR("port_not_allowed"));

    return by_policy && d->port && is_public_only(d) && !is_loopback_name(d) &&
           !learn_table_find(&l->opened, str_from(d->host.name), d->port);
}

static void choose_refused(const struct learn_log *l, const struct learn_choices *c)
{
    for (size_t i = 0; i < l->refused.n; i++)
        if (is_wanted(l, l->refused.list[i]))
            choose_destination(l->refused.list[i], c);
}

/* ---- the items ---- */

static void add_learn_item(struct learn_proposal *p, struct learn_destination *d)
{
    struct learn_item *item = &p->items[p->n_items++];
    char text[ADDRESS_TEXT_MAX];

    *item = (struct learn_item){ .port = d->port, .of = d };
    /* Names of loopback are written as the address that they mean. */
    if (is_loopback_name(d) && d->n_at)
        snprintf(item->host, sizeof item->host, "%s", address_text(&d->at[0], text).p);
    else
        snprintf(item->host, sizeof item->host, "%s", d->host.name);
}

static bool has_same_programs(const struct learn_destination *a, const struct learn_destination *b)
{
    if (a->n_programs != b->n_programs)
        return false;
    for (size_t i = 0; i < a->n_programs; i++)
        if (strcmp(a->programs[i], b->programs[i]) != 0)
            return false;
    return true;
}

/* Whether no name that is left out would be under the wildcard. */
static bool is_wildcard_safe(const struct learn_table *t, struct str parent)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->list[i]->left_out &&
            str_eq(learn_name_parent(str_from(t->list[i]->host.name)), parent))
            return false;
    return true;
}

static bool can_merge(const struct learn_item *a, const struct learn_item *b, bool programs)
{
    return !a->of->host.is_address && !b->of->host.is_address && is_public_only(a->of) &&
           is_public_only(b->of) && a->port == b->port && learn_name_parent(str_from(a->host)).n &&
           str_eq(learn_name_parent(str_from(a->host)), learn_name_parent(str_from(b->host))) &&
           (!programs || has_same_programs(a->of, b->of));
}

static int compare_for_merge(const void *a, const void *b)
{
    const struct learn_item *x = a, *y = b;
    int r = compare_parents(&x->of, &y->of);

    return r ? r : (x->port > y->port) - (x->port < y->port);
}

static void merge_items(struct learn_proposal *p, const struct learn_choices *c)
{
    qsort(p->items, p->n_items, sizeof *p->items, compare_for_merge);
    for (size_t from = 0, to; from < p->n_items; from = to) {
        struct str parent = learn_name_parent(str_from(p->items[from].of->host.name));

        to = from + 1;
        while (to < p->n_items && can_merge(&p->items[from], &p->items[to], c->programs))
            to++;
        if (to - from < c->merge || to - from < 2 || !is_wildcard_safe(&p->log->opened, parent) ||
            !is_wildcard_safe(&p->log->refused, parent))
            continue;
        for (size_t i = from; i < to; i++)
            snprintf(p->items[i].host, sizeof p->items[i].host, "*." STR_FMT, STR_ARG(parent));
    }
}

static int compare_learn_items(const void *a, const void *b)
{
    const struct learn_item *x = a, *y = b;
    int r = strcmp(x->host, y->host);

    return r ? r : (x->port > y->port) - (x->port < y->port);
}

/* ---- the policy ---- */

/* Addresses that are not public are declared, exactly. */
static void write_learned_addresses(struct json_writer *w, const struct learn_destination *d)
{
    const struct address *list = d->host.is_address ? &d->host.address : d->at;
    size_t n = d->host.is_address ? 1 : d->n_at;
    char text[ADDRESS_TEXT_MAX];

    if (is_public_only(d))
        return;
    json_field_begin_array(w, "allowed_ips");
    for (size_t i = 0; i < n; i++)
        json_put_str(w, address_text(&list[i], text));
    json_end_array(w);
}

static void write_learned_programs(struct json_writer *w, const struct learn_destination *d)
{
    json_field_begin_array(w, "binaries");
    for (size_t i = 0; i < d->n_programs; i++)
        json_put_lossy(w, str_from(d->programs[i]));
    json_end_array(w);
}

/* Whether both can share an endpoint with a list of ports. */
static bool can_share(const struct learn_item *a, const struct learn_item *b, bool programs)
{
    return strcmp(a->host, b->host) == 0 && is_public_only(a->of) && is_public_only(b->of) &&
           (!programs || has_same_programs(a->of, b->of));
}

static void write_learned_endpoint(struct json_writer *w, const struct learn_item *items, size_t n,
                                   bool programs)
{
    uint16_t last = 0;

    json_begin_object(w);
    json_field_str(w, "host", str_from(items[0].host));
    if (items[0].port == items[n - 1].port) {
        json_field_uint(w, "port", items[0].port);
    } else {
        json_field_begin_array(w, "ports");
        for (size_t i = 0; i < n; last = items[i++].port)
            if (items[i].port != last)
                json_put_uint(w, items[i].port);
        json_end_array(w);
    }
    write_learned_addresses(w, items[0].of);
    if (programs)
        write_learned_programs(w, items[0].of);
    json_end_object(w);
}

/* Items of one host, up to the number of ports that an endpoint takes. */
static size_t count_shared(const struct learn_item *items, size_t n, bool programs)
{
    size_t i = 1, ports = 1;

    for (; i < n && can_share(&items[0], &items[i], programs); i++) {
        ports += items[i].port != items[i - 1].port;
        if (ports > EGRESS_PORTS_MAX)
            break;
    }
    return i;
}

static void write_learn_items(struct json_writer *w, const struct learn_proposal *p, bool programs)
{
    for (size_t i = 0, n; i < p->n_items; i += n) {
        n = count_shared(p->items + i, p->n_items - i, programs);
        write_learned_endpoint(w, p->items + i, n, programs);
    }
}

static void write_learned_entry(struct json_writer *w, const struct learn_proposal *p,
                                const char *key, bool programs)
{
    json_field_begin_object(w, key);
    json_field_begin_array(w, "endpoints");
    learn_base_write_endpoints(&p->base, str_from(key), w);
    write_learn_items(w, p, programs);
    json_end_array(w);
    json_end_object(w);
}

static int write_proposal_json(const struct learn_proposal *p, bool programs, struct buf *out,
                               struct err *e)
{
    struct json_writer w;
    char key[32];

    learn_base_key(&p->base, key);
    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_uint(&w, "version", 1);
    learn_base_write_others(&p->base, &w);
    json_field_begin_object(&w, "network_policies");
    learn_base_write_entries(&p->base, str_from(p->n_items ? key : ""), &w);
    if (p->n_items)
        write_learned_entry(&w, p, key, programs);
    json_end_object(&w);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

static int write_proposal_yaml(struct str json, struct arena *a, struct buf *out, struct err *e)
{
    static const struct json_limits limits = { .bytes = EGRESS_JSON_BYTES_MAX,
                                               .depth = EGRESS_FILE_DEPTH_MAX };
    const struct json *tree;
    int r = json_read(json, limits, a, &tree, e);

    if (r >= 0 && yaml_text(out, tree) < 0)
        r = err_set(e, ERR_TOO_BIG, "the policy would have more than %d bytes",
                    EGRESS_FILE_BYTES_MAX);
    return r;
}

static int write_proposal_texts(struct learn_proposal *p, bool programs, struct arena *a,
                                struct err *e)
{
    AUTO(buf_done) struct buf json = BUF_INIT(EGRESS_JSON_BYTES_MAX);
    int r = write_proposal_json(p, programs, &json, e);

    if (r >= 0)
        r = write_proposal_yaml(buf_str(&json), a, &p->text, e);
    if (r >= 0 && p->base.document && yaml_text(&p->base_text, p->base.document) < 0)
        r = err_set(
            e, ERR_TOO_BIG,
            "the policy to compare with is larger than %d MiB when its defaults are written out",
            EGRESS_JSON_BYTES_MAX >> 20);
    return r;
}

/* ---- what no policy can say ---- */

/* The item alone, as a policy. */
static int write_item_alone(const struct learn_item *item, bool programs, struct buf *out,
                            struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_uint(&w, "version", 1);
    json_field_begin_object(&w, "network_policies");
    json_field_begin_object(&w, "alone");
    json_field_begin_array(&w, "endpoints");
    write_learned_endpoint(&w, item, 1, programs);
    json_end_array(&w);
    json_end_object(&w);
    json_end_object(&w);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

/* Whether a policy can declare the addresses and programs of the item, and then allows it. */
static bool can_be_declared(const struct learn_item *item, bool programs)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    AUTO(buf_done) struct buf text = BUF_INIT(EGRESS_JSON_BYTES_MAX);
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = NULL;
    struct egress_explanation x;
    struct egress_policy policy;
    struct err e;

    if (write_item_alone(item, programs, &text, &e) >= 0 &&
        egress_policy_from_json(buf_str(&text), &a, &policy, &e) >= 0)
        s = egress_compile(&policy, 1, &e);
    return s && learn_is_allowed(s, item->of, programs ? item->of->programs[0] : NULL, &x);
}

/* Public names and addresses are always right. */
static void add_possible_item(struct learn_proposal *p, struct learn_destination *d, bool programs)
{
    add_learn_item(p, d);
    if ((is_public_only(d) && !is_loopback_name(d) && !programs) ||
        can_be_declared(&p->items[p->n_items - 1], programs))
        return;
    p->n_items--;
    leave_out(d, "no policy can allow it", false);
}

static void add_learn_items(struct learn_proposal *p, const struct learn_choices *c)
{
    const struct learn_table *opened = &p->log->opened, *refused = &p->log->refused;

    p->items = new0_array(opened->n + refused->n + 1, sizeof *p->items);
    for (size_t i = 0; i < opened->n; i++)
        if (!opened->list[i]->covered && !opened->list[i]->left_out)
            add_possible_item(p, opened->list[i], c->programs);
    for (size_t i = 0; c->denied && i < refused->n; i++)
        if (is_wanted(p->log, refused->list[i]) && !refused->list[i]->left_out)
            add_possible_item(p, refused->list[i], c->programs);
}

int learn_propose(struct learn_proposal *p, const struct learn_choices *c, struct arena *a,
                  struct err *e)
{
    int r = learn_base_read(str_from(c->base), c->keep, p->log, a, &p->base, e);

    if (r < 0)
        return err_wrap(e, r, "the policy to begin with");
    choose_destinations(&p->log->opened, c);
    if (c->denied)
        choose_refused(p->log, c);
    add_learn_items(p, c);
    if (c->merge)
        merge_items(p, c);
    if (p->n_items)
        qsort(p->items, p->n_items, sizeof *p->items, compare_learn_items);
    return write_proposal_texts(p, c->programs, a, e);
}
