/* SPDX-License-Identifier: Apache-2.0 */
/* GET /sandboxes of E2B's control plane: lists sandboxes. */
#include "edge/core/pagination.h"
#include "base/own.h"
#include "base/rfc3339.h"
#include "edge/e2b/internal.h"
#include "edge/core/metadata.h"
#include "edge/core/template.h"

enum { LIST_DEFAULT = 100, LIST_MAX = 100 };

struct e2b_listing {
    struct sandbox_page page;
    int64_t started_after_ns;
};

void e2b_answer_page(struct call *c, call_write_fn *write, const void *what, const char *next)
{
    struct buf text AUTO(buf_done) = BUF_INIT(CALL_ANSWER_MAX);
    struct json_writer w;
    struct err e;

    json_writer_init(&w, &text, JSON_COMPACT);
    write(&w, what);
    if (json_writer_finish(&w, &e) < 0)
        call_fail(c, &e);
    else if (next)
        call_answer_with(c, 200, "X-Next-Token", next, buf_str(&text));
    else
        call_answer_bytes(c, 200, "application/json", buf_str(&text));
}

struct e2b_rows {
    const struct call *call;
    const struct sandbox_record **rows;
    size_t n;
};

static void write_e2b_rows(struct json_writer *w, const void *what)
{
    const struct e2b_rows *l = what;

    json_begin_array(w);
    for (size_t i = 0; i < l->n; i++)
        e2b_write_listed(w, &(struct e2b_shown){ .call = l->call,
                                                 .record = l->rows[i],
                                                 .expires_ns = control_deadline_ns(
                                                     l->call->api->control, l->rows[i]) });
    json_end_array(w);
}

static void answer_e2b_listing(struct sandbox_page *p)
{
    const struct e2b_listing *asked = container_of(p, struct e2b_listing, page);
    const struct store_query *q = &p->query;
    struct e2b_rows l = { .call = p->call };
    char next[SANDBOX_PAGE_CURSOR];
    struct err e;
    bool more;

    l.rows = arena_array(&p->query.arena, p->query.n + 1, sizeof(struct sandbox_record *));
    if (!l.rows) {
        (void)err_set(&e, ERR_TOO_BIG,
                      "limit: %zu sandboxes need more memory than the allowed %zu bytes; use a "
                      "smaller limit",
                      p->query.n, p->query.arena.max);
        call_fail(p->call, &e);
        return;
    }
    for (size_t i = 0; i < q->n; i++)
        if (q->sandboxes[i].created_ns > asked->started_after_ns)
            l.rows[l.n++] = &q->sandboxes[i];
    more = l.n > p->limit;
    l.n -= more;
    if (more)
        sandbox_page_cursor(l.rows[l.n - 1], next);
    e2b_answer_page(p->call, write_e2b_rows, &l, more ? next : NULL);
}

static int read_state_filter(struct call *c, uint32_t *ret)
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

static int read_metadata_filter(struct call *c, struct sandbox_page *p)
{
    struct json_map asked = { 0 };
    struct str text;
    struct err e;
    int r = call_query(c, "metadata", &text);

    if (r > 0 && metadata_filter(text, &c->arena, &asked, &e) < 0) {
        call_fail(c, &e);
        return -1;
    }
    return sandbox_page_labels(p, &asked) ? r : -1;
}

static int read_started_after(struct call *c, int64_t *ret)
{
    struct str text;
    int r = call_query(c, "startedAfter", &text);

    if (r <= 0 || rfc3339_parse(text, ret))
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

/* The source that a template name denotes. An id of a deleted snapshot is valid too: sandboxes made
 * from it may exist. */
static const char *template_source(struct call *c, const char *name)
{
    struct create_request q = { 0 };

    if (template_fill_request(c, name, &q, NULL) >= 0)
        return q.image ? q.image : q.snapshot ? q.snapshot : q.profile;
    return id_valid("snap_", str_from(name)) ? name : template_profile_id(c, name);
}

static int read_template(struct call *c, struct store_query *q)
{
    struct str text;
    int r = call_query(c, "template", &text);

    if (r > 0 && text.n <= TEMPLATE_NAME_MAX)
        q->profile = str_from(template_source(c, arena_dup(&c->own, text)));
    else if (r > 0)
        q->profile = STR("-"); /* matches nothing */
    return r;
}

static void list_e2b_sandboxes(struct call *c)
{
    struct e2b_listing *l = sandbox_page_new(c, sizeof *l, answer_e2b_listing);
    struct store_query *q = &l->page.query;

    l->started_after_ns = INT64_MIN;
    if (read_state_filter(c, &q->states) < 0 || !sandbox_page_after(&l->page, "nextToken") ||
        read_metadata_filter(c, &l->page) < 0 || read_started_after(c, &l->started_after_ns) < 0 ||
        read_order(c, &q->ascending) < 0 || read_template(c, q) < 0)
        return;
    if (q->ascending && !q->after.id[0] && l->started_after_ns > 0)
        q->after.created_ns = l->started_after_ns;
    sandbox_page_query(&l->page, LIST_DEFAULT, LIST_MAX);
}

const struct route routes_e2b_list[] = {
    { H1_GET, VERB_READ, "/sandboxes", 0, .handle = list_e2b_sandboxes },
    { H1_GET, VERB_READ, "/v2/sandboxes", 0, .handle = list_e2b_sandboxes },
    { .path = NULL },
};
