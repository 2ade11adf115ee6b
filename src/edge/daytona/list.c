/* SPDX-License-Identifier: Apache-2.0 */
/* GET /sandbox of Daytona's control plane: lists sandboxes. */
#include <stdio.h>

#include "edge/core/pagination.h"
#include "base/own.h"
#include "edge/daytona/internal.h"

enum { LIST_DEFAULT = 100, LIST_MAX = 200 };

static void write_daytona_sandboxes(struct json_writer *w, const void *what)
{
    const struct sandbox_page *p = what;
    const struct sandbox_record *rows = p->query.sandboxes;
    struct control *control = p->call->api->control;
    bool more = p->query.n > p->limit;
    size_t n = p->query.n - more;
    char next[SANDBOX_PAGE_CURSOR];

    json_begin_object(w);
    json_field_begin_array(w, "items");
    for (size_t i = 0; i < n; i++) {
        struct daytona_shown s = { .call = p->call,
                                   .record = &rows[i],
                                   .expires_ns = control_deadline_ns(control, &rows[i]) };

        (void)control_find_now(control, &p->call->caller, str_from(rows[i].id), &s.sandbox);
        daytona_write_sandbox(w, &s);
        if (s.sandbox)
            sandbox_unref(s.sandbox);
    }
    json_end_array(w);
    json_key(w, STR("nextCursor"));
    if (more && n) {
        sandbox_page_cursor(&rows[n - 1], next);
        json_put_str(w, str_from(next));
    } else {
        json_put_null(w);
    }
    json_end_object(w);
}

static void answer_daytona_list(struct sandbox_page *p)
{
    call_answer(p->call, 200, write_daytona_sandboxes, p);
}

/* --- filters --- */

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

static bool add_daytona_state(struct call *c, struct str word, uint32_t *ret)
{
    size_t i = 0;

    while (i < COUNT_OF(words) && !str_eq(word, str_from(words[i].name)))
        i++;
    if (i < COUNT_OF(words))
        *ret |= words[i].states;
    else
        call_fail_with(c, 400, "invalid", "states: there is no state '%.*s'",
                       (int)(word.n < 40 ? word.n : 40), word.n ? word.p : "");
    return i < COUNT_OF(words);
}

/* Reads states=started&states=stopped, or states separated by commas. Returns false after it has
 * answered the call. */
static bool read_daytona_states(struct call *c, uint32_t *ret)
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
            if (!add_daytona_state(c, word, ret))
                return false;
        }
    }
    if (!*ret)
        *ret = SHOWN;
    return true;
}

/* Returns false after it has answered the call. */
static bool read_filter(struct call *c, struct sandbox_page *p)
{
    struct str text = { NULL, 0 }, name = { NULL, 0 };
    struct json_map asked = { 0 }, written;
    struct err e;

    if (call_query(c, "labels", &text) < 0 || call_query(c, "name", &name) < 0)
        return false;
    if ((text.n && daytona_read_map(c, text, REQUEST_LABELS_MAX, &asked, &e) < 0) ||
        daytona_make_labels(c, &asked, name.n ? arena_dup(&c->own, name) : NULL, &written, &e) <
            0) {
        call_fail(c, &e);
        return false;
    }
    return sandbox_page_labels(p, &written);
}

/* Rejects unknown filters instead of ignoring them. */
static bool check_known_filters(struct call *c)
{
    static const char *const known[] = { "cursor", "limit",   "labels", "name", "states",
                                         "state",  "verbose", "page",   "sort", "order" };
    struct str rest = c->query;
    struct url_pair p;

    while (url_next(&rest, &p)) {
        bool found = !p.value.n;

        for (size_t i = 0; i < COUNT_OF(known); i++)
            found |= str_eq(p.name, str_from(known[i]));
        if (!found)
            return call_fail_with(c, 501, "unsupported", "unknown filter '%.*s'",
                                  (int)(p.name.n < 40 ? p.name.n : 40), p.name.p);
    }
    return true;
}

static void list_daytona_sandboxes(struct call *c)
{
    struct sandbox_page *p = sandbox_page_new(c, sizeof *p, answer_daytona_list);

    if (check_known_filters(c) && read_daytona_states(c, &p->query.states) &&
        sandbox_page_after(p, "cursor") && read_filter(c, p))
        sandbox_page_query(p, LIST_DEFAULT, LIST_MAX);
}

const struct route routes_daytona_list[] = {
    { H1_GET, VERB_READ, DAYTONA "/sandbox", 0, .handle = list_daytona_sandboxes },
    { .path = NULL },
};
