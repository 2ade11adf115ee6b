/* Daytona's clients list sandboxes. */
#include <stdio.h>
#include <stdlib.h>

#include "api/daytona/inside.h"

enum { LIST_DEFAULT = 100, LIST_MAX = 200 };

struct listing {
    struct call *call;
    struct store_query query;
    size_t limit;
};

static void listing_end(struct call *c)
{
    struct listing *l = c->state;

    arena_done(&l->query.arena);
    free(l);
}

static void write_row(struct json_writer *w, const struct call *c, const struct sandbox_record *r)
{
    struct daytona_shown s = { .call = c,
                               .record = r,
                               .expires_ns = control_expires_ns(c->api->control, r) };

    (void)control_find_now(c->api->control, &c->caller, str_from(r->id), &s.sandbox);
    daytona_write_sandbox(w, &s);
    if (s.sandbox)
        sandbox_unref(s.sandbox);
}

static void write_list(struct json_writer *w, const void *what)
{
    const struct listing *l = what;
    const struct sandbox_record *rows = l->query.sandboxes;
    bool more = l->query.n > l->limit;
    size_t n = l->query.n - more;
    char next[64 + ID_MAX];

    json_begin_object(w);
    json_key(w, STR("items"));
    json_begin_array(w);
    for (size_t i = 0; i < n; i++)
        write_row(w, l->call, &rows[i]);
    json_end_array(w);
    json_key(w, STR("nextCursor"));
    if (more && n) {
        snprintf(next, sizeof next, "%lld.%s", (long long)rows[n - 1].created_ns, rows[n - 1].id);
        json_put_str(w, str_from(next));
    } else {
        json_put_null(w);
    }
    json_end_object(w);
}

static void listed(struct store_query *q, int r, const struct err *e)
{
    struct listing *l = container_of(q, struct listing, query);

    if (!l->call->x)
        ; /* nobody waits for it */
    else if (r < 0)
        call_fail(l->call, e);
    else
        call_answer(l->call, 200, write_list, l);
    call_unref(l->call);
}

/* --- what to list --- */

#define S(state) (1u << SANDBOX_##state)

static const struct {
    const char *name;
    uint32_t states;
} words[] = {
    { "creating", S(REQUESTED) | S(PROVISIONING) },
    { "starting", S(REQUESTED) | S(PROVISIONING) },
    { "started", S(READY) | S(ACTIVE) },
    { "stopped", S(PAUSED) },
    { "paused", S(PAUSED) },
    { "error", S(FAILED) },
    { "destroying", S(EXPIRED) | S(DESTROYING) },
    { "destroyed", S(DESTROYED) },
};

enum { SHOWN = S(REQUESTED) | S(PROVISIONING) | S(READY) | S(ACTIVE) | S(PAUSED) | S(FAILED) };

static bool add_state(struct call *c, struct str word, uint32_t *ret)
{
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_eq(word, str_from(words[i].name))) {
            *ret |= words[i].states;
            return true;
        }
    call_fail_with(c, 400, "invalid", "states: there is no such state here");
    return false;
}

/* states=started&states=stopped, or with commas. False: it is answered. */
static bool read_states(struct call *c, uint32_t *ret)
{
    struct str rest = c->query, list, word;
    struct url_pair p;
    struct err e;

    *ret = 0;
    while (url_next(&rest, &p)) {
        if (!str_eq(p.name, STR("states")) && !str_eq(p.name, STR("state")))
            continue;
        if (url_decode(p.value.p ? p.value : STR(""), true, &c->arena, &list, &e) < 0) {
            call_fail(c, &e);
            return false;
        }
        while (list.n) {
            list = str_cut(list, ',', &word);
            if (!add_state(c, word, ret))
                return false;
        }
    }
    if (!*ret)
        *ret = SHOWN;
    return true;
}

static bool read_cursor(struct call *c, struct store_query *q)
{
    struct str text = { NULL, 0 }, time, id;

    if (call_query(c, "cursor", &text) < 0)
        return false;
    if (!text.n)
        return true;
    id = str_cut(text, '.', &time);
    if (str_to_i64(time, &q->after.created_ns) && id_valid("sbx_", id) &&
        str_copy(id, q->after.id, sizeof q->after.id))
        return true;
    call_fail_with(c, 400, "invalid", "cursor: is not one that we gave");
    return false;
}

/* Those of the query beside those that the caller's must have. False: it is answered. */
static bool read_filter(struct call *c, struct store_query *q)
{
    struct str text = { NULL, 0 }, name = { NULL, 0 };
    struct json_map asked = { 0 }, written;
    struct json_pair *all;
    size_t n = 0;
    struct err e;

    if (call_query(c, "labels", &text) < 0 || call_query(c, "name", &name) < 0)
        return false;
    if ((text.n && daytona_map(c, text, REQUEST_LABELS_MAX, &asked, &e) < 0) ||
        daytona_labels(c, &asked, name.n ? arena_dup(&c->arena, name) : NULL, &written, &e) < 0) {
        call_fail(c, &e);
        return false;
    }
    all = arena_array(&c->arena, written.n + c->caller.labels.n + 1, sizeof *all);
    if (!all)
        abort();
    for (size_t i = 0; i < c->caller.labels.n; i++)
        all[n++] = c->caller.labels.p[i];
    for (size_t i = 0; i < written.n; i++)
        all[n++] = written.p[i];
    q->labels = (struct json_map){ all, n };
    return true;
}

/* Filters that would silently do nothing are refused. */
static bool only_known(struct call *c)
{
    static const char *const known[] = { "cursor", "limit",   "labels", "name", "states",
                                         "state",  "verbose", "page",   "sort", "order" };
    struct str rest = c->query;
    struct url_pair p;
    char text[96];

    while (url_next(&rest, &p)) {
        bool found = !p.value.n;

        for (size_t i = 0; i < COUNT_OF(known); i++)
            found |= str_eq(p.name, str_from(known[i]));
        if (found)
            continue;
        snprintf(text, sizeof text, "there is no filter '" STR_FMT "' here",
                 (int)(p.name.n < 40 ? p.name.n : 40), p.name.p);
        call_fail_with(c, 501, "unsupported", text);
        return false;
    }
    return true;
}

static void list(struct call *c)
{
    struct listing *l = calloc(1, sizeof *l);
    uint64_t limit = LIST_DEFAULT;
    struct err e;

    if (!l)
        abort();
    l->call = c;
    c->state = l;
    c->on_end = listing_end;
    if (!only_known(c) || !read_states(c, &l->query.states) || !read_cursor(c, &l->query) ||
        !read_filter(c, &l->query) || call_query_number(c, "limit", LIST_MAX, &limit) < 0)
        return;
    l->limit = limit ? (size_t)limit : LIST_DEFAULT;
    l->query.limit = (int)l->limit + 1;
    if (control_list(c->api->control, &c->caller, &l->query, listed, &e) < 0)
        call_fail(c, &e);
    else
        call_ref(c);
}

const struct route routes_daytona_list[] = {
    { H1_GET, VERB_READ, DAYTONA "/sandbox", 0, list, .face = &daytona_face },
    { .path = NULL },
};
