/* E2B's clients list sandboxes. */
#include <stdio.h>
#include <stdlib.h>

#include "api/e2b/inside.h"
#include "api/e2b/metadata.h"
#include "api/e2b/shown.h"
#include "api/e2b/template.h"
#include "model/time.h"

enum { LIST_DEFAULT = 100, LIST_MAX = 100 };

struct listing {
    struct call *call;
    struct store_query query;
    int64_t started_after_ns;
    size_t limit;
};

static void listing_end(struct call *c)
{
    struct listing *l = c->state;

    arena_done(&l->query.arena);
    free(l);
}

/* The rows that the client gets. */
static size_t select_rows(const struct listing *l, const struct sandbox_record **ret)
{
    const struct store_query *q = &l->query;
    size_t n = 0;

    for (size_t i = 0; i < q->n; i++)
        if (q->sandboxes[i].created_ns > l->started_after_ns)
            ret[n++] = &q->sandboxes[i];
    return n;
}

static void answer_list(struct listing *l, const struct sandbox_record **rows, size_t n)
{
    struct buf text AUTO(buf_done) = BUF_INIT(CALL_ANSWER_MAX);
    bool more = n > l->limit;
    char next[64 + ID_MAX] = "";
    struct json_writer w;
    struct err e;

    n -= more;
    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_array(&w);
    for (size_t i = 0; i < n; i++)
        e2b_write_listed(&w, &(struct e2b_shown){ .call = l->call,
                                                  .record = rows[i],
                                                  .expires_ns = control_expires_ns(
                                                      l->call->api->control, rows[i]) });
    json_end_array(&w);
    if (json_writer_finish(&w, &e) < 0) {
        call_fail(l->call, &e);
        return;
    }
    if (!more) {
        call_answer_bytes(l->call, 200, "application/json", buf_str(&text));
        return;
    }
    snprintf(next, sizeof next, "%lld.%s", (long long)rows[n - 1]->created_ns, rows[n - 1]->id);
    call_answer_with(l->call, 200, "X-Next-Token", next, buf_str(&text));
}

static void listed(struct store_query *q, int r, const struct err *e)
{
    struct listing *l = container_of(q, struct listing, query);
    const struct sandbox_record **rows;

    if (r < 0) {
        call_fail(l->call, e);
    } else {
        rows = arena_array(&q->arena, l->limit + 2, sizeof *rows);
        if (!rows)
            abort();
        answer_list(l, rows, select_rows(l, rows));
    }
    call_unref(l->call);
}

static int read_states(struct call *c, uint32_t *ret)
{
    struct str text, word;
    int r = call_query(c, "state", &text);

    *ret = 0;
    while (r > 0 && text.p) {
        text = str_cut(text, ',', &word);
        if (str_eq(word, STR("running"))) {
            *ret |= 1u << SANDBOX_READY | 1u << SANDBOX_ACTIVE;
        } else if (str_eq(word, STR("paused"))) {
            *ret |= 1u << SANDBOX_PAUSED;
        } else {
            call_fail_with(c, 400, "invalid", "state: must be running, paused, or both");
            return -1;
        }
    }
    if (!*ret)
        *ret = 1u << SANDBOX_READY | 1u << SANDBOX_ACTIVE | 1u << SANDBOX_PAUSED;
    return r;
}

static int read_token(struct call *c, struct store_query *q)
{
    struct str text, time, id;
    int r = call_query(c, "nextToken", &text);

    if (r <= 0 || !text.n)
        return r;
    id = str_cut(text, '.', &time);
    if (str_to_i64(time, &q->after.created_ns) && id_valid("sbx_", id) &&
        str_copy(id, q->after.id, sizeof q->after.id))
        return 0;
    call_fail_with(c, 400, "invalid", "nextToken: is not one that we gave");
    return -1;
}

static int read_metadata(struct call *c, struct store_query *q)
{
    struct json_map asked = { 0 };
    struct json_pair *all;
    struct str text;
    struct err e;
    int r = call_query(c, "metadata", &text);
    size_t n = 0;

    if (r > 0 && metadata_filter(text, &c->arena, &asked, &e) < 0) {
        call_fail(c, &e);
        return -1;
    }
    all = arena_array(&c->arena, asked.n + c->caller.labels.n + 1, sizeof *all);
    if (!all)
        abort();
    for (size_t i = 0; i < c->caller.labels.n; i++)
        all[n++] = c->caller.labels.p[i];
    for (size_t i = 0; i < asked.n; i++)
        all[n++] = asked.p[i];
    q->labels = (struct json_map){ all, n };
    return r;
}

static int read_since(struct call *c, int64_t *ret)
{
    struct str text;
    int r = call_query(c, "startedAfter", &text);

    if (r <= 0 || time_read(text, ret))
        return r;
    call_fail_with(c, 400, "invalid", "startedAfter: must be a time like 2026-01-02T03:04:05Z");
    return -1;
}

static int read_order(struct call *c, bool *ret)
{
    struct str text;
    int r = call_query(c, "order", &text);

    *ret = r > 0 && str_eq(text, STR("asc"));
    if (r <= 0 || *ret || str_eq(text, STR("desc")))
        return r;
    call_fail_with(c, 400, "invalid", "order: must be asc or desc");
    return -1;
}

/* A snapshot that is gone has left sandboxes that were made from it. */
static const char *made_from(struct call *c, const char *name)
{
    struct create_request q = { 0 };

    if (e2b_template_fill(c, name, &q, NULL) >= 0)
        return q.snapshot ? q.snapshot : q.profile;
    return id_valid("snap_", str_from(name)) ? name : e2b_profile_id(c, name);
}

static int read_template(struct call *c, struct store_query *q)
{
    struct str text;
    int r = call_query(c, "template", &text);

    if (r > 0 && text.n <= E2B_TEMPLATE_MAX)
        q->profile = str_from(made_from(c, arena_dup(&c->arena, text)));
    else if (r > 0)
        q->profile = STR("-"); /* nobody's name */
    return r;
}

static void list(struct call *c)
{
    struct listing *l = calloc(1, sizeof *l);
    uint64_t limit = LIST_DEFAULT;
    struct err e;

    if (!l)
        abort();
    l->call = c;
    l->started_after_ns = INT64_MIN;
    c->state = l;
    c->on_end = listing_end;
    if (read_states(c, &l->query.states) < 0 || read_token(c, &l->query) < 0 ||
        read_metadata(c, &l->query) < 0 || read_since(c, &l->started_after_ns) < 0 ||
        read_order(c, &l->query.ascending) < 0 || read_template(c, &l->query) < 0 ||
        call_query_number(c, "limit", LIST_MAX, &limit) < 0)
        return;
    l->limit = limit ? (size_t)limit : LIST_DEFAULT;
    l->query.limit = (int)l->limit + 1;
    if (l->query.ascending && !l->query.after.id[0] && l->started_after_ns > 0)
        l->query.after.created_ns = l->started_after_ns;
    if (control_list(c->api->control, &c->caller, &l->query, listed, &e) < 0)
        call_fail(c, &e);
    else
        call_ref(c);
}

const struct route routes_e2b_list[] = {
    { H1_GET, VERB_READ, "/sandboxes", 0, list, .face = &e2b_face },
    { H1_GET, VERB_READ, "/v2/sandboxes", 0, list, .face = &e2b_face },
    { .path = NULL },
};
