/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/pagination.h"

#include <stdio.h>

#include "edge/core/internal.h"

void *sandbox_page_new(struct call *c, size_t size, void (*answer)(struct sandbox_page *p))
{
    struct sandbox_page *p = call_state(c, size, NULL);

    p->call = c;
    p->answer = answer;
    call_own_arena(c, &p->query.arena, 0); /* control sets its limit */
    return p;
}

bool sandbox_page_after(struct sandbox_page *p, const char *parameter)
{
    struct str text = { NULL, 0 }, time, id;

    if (call_query(p->call, parameter, &text) < 0)
        return false;
    if (!text.n)
        return true;
    id = str_cut(text, '.', &time);
    if (str_to_i64(time, &p->query.after.created_ns) && id_valid("sbx_", id) &&
        str_copy(id, p->query.after.id, sizeof p->query.after.id))
        return true;
    return call_fail_with(p->call, 400, "invalid", "%s: not a cursor of this daemon", parameter);
}

void sandbox_page_cursor(const struct sandbox_record *last, char ret[SANDBOX_PAGE_CURSOR])
{
    snprintf(ret, SANDBOX_PAGE_CURSOR, "%lld.%s", (long long)last->created_ns, last->id);
}

/* The requested labels come first: the store walks the index of the first label, and labels that
 * all of the caller's sandboxes have are the least selective. */
bool sandbox_page_labels(struct sandbox_page *p, const struct json_map *asked)
{
    const struct json_map *own = &p->call->caller.labels;
    struct json_pair *all = arena_array(&p->call->arena, asked->n + own->n + 1, sizeof *all);
    size_t n = 0;

    if (!all)
        return call_fail_with(p->call, 413, "too_big",
                              "labels: the %zu labels of request and token need more memory than "
                              "the allowed %zu bytes; filter by fewer labels",
                              asked->n + own->n, p->call->arena.max);
    for (size_t i = 0; i < asked->n; i++)
        all[n++] = asked->p[i];
    for (size_t i = 0; i < own->n; i++)
        all[n++] = own->p[i];
    p->query.labels = (struct json_map){ all, n };
    return true;
}

static void on_page_rows(struct store_query *q, int r, const struct err *e)
{
    struct sandbox_page *p = container_of(q, struct sandbox_page, query);
    struct call *c = p->call;

    if (!c->x)
        ; /* the client disconnected */
    else if (r < 0)
        call_fail(c, e);
    else
        p->answer(p);
    call_unref(c);
}

void sandbox_page_query(struct sandbox_page *p, uint64_t usual, uint64_t most)
{
    struct call *c = p->call;
    uint64_t limit = usual;
    struct err e;

    if (call_query_number(c, "limit", most, &limit) < 0)
        return;
    p->limit = (size_t)(limit ? limit : usual);
    p->query.limit = (int)p->limit + 1;
    if (control_list(c->api->control, &c->caller, &p->query, on_page_rows, &e) < 0)
        call_fail(c, &e);
    else
        call_ref(c);
}
