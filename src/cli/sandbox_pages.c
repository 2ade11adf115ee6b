/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sandbox_pages.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "cli/answer.h"

enum { ROWS_MEMORY = 256 << 20, PAGE_ROWS = 1000, MEASURED_ROWS = 100 };

struct fetched_page {
    struct api_call call;
    struct fetched_page *before;
};

static int fetch_sandbox_page(struct api_call *c, const struct verb *v, const struct common *common,
                              const struct sandbox_filter *f, uint64_t rows, const char *cursor)
{
    char limit[24];

    snprintf(limit, sizeof limit, "%llu", (unsigned long long)rows);
    api_call_init(c, v, common, "GET");
    api_call_path(c, "/v1/sandboxes");
    for (size_t i = 0; f->states && i < f->states->n; i++)
        api_call_query(c, "state", f->states->p[i]);
    for (size_t i = 0; f->labels && i < f->labels->n; i++)
        api_call_query(c, "label", f->labels->p[i]);
    api_call_query(c, "profile", f->profile);
    api_call_query(c, "limit", limit);
    api_call_query(c, "cursor", cursor);
    api_call_query(c, "usage", f->usage ? "true" : NULL);
    return api_call_run(c);
}

static uint64_t rows_left(const struct sandbox_pages *p, const struct sandbox_filter *f)
{
    uint64_t left = f->limit - p->n, most = f->usage ? MEASURED_ROWS : PAGE_ROWS;

    return f->limit && left < most ? left : most;
}

static struct api_call *add_page_call(struct sandbox_pages *p)
{
    struct fetched_page *page = new0(sizeof *page);

    page->before = p->last;
    p->last = page;
    return &page->call;
}

static int add_page_row(struct sandbox_pages *p, const struct verb *v, const struct json *row)
{
    if (json_build_push(&p->rows, row) < 0)
        return verb_failed(
            v, "the list needs more memory than is allowed; filter with --state or --label");
    p->n++;
    return 0;
}

/* *cursor becomes that of the next page, or NULL. */
static int add_sandbox_page(struct sandbox_pages *p, const struct verb *v,
                            const struct common *common, const struct sandbox_filter *f,
                            const char **cursor)
{
    struct api_call *c = add_page_call(p);
    const struct json *rows;
    int status = fetch_sandbox_page(c, v, common, f, rows_left(p, f), *cursor);

    if (status)
        return status;
    rows = answer_rows(c->answer, &kind_sandbox);
    for (const struct json *row = json_first(rows); status == 0 && row != json_end(rows); row++)
        status = add_page_row(p, v, row);
    *cursor = json_first(rows) == json_end(rows) || (f->limit && p->n >= f->limit)
                  ? NULL
                  : show_string(c->answer, "next").p;
    return status;
}

static int add_named_sandbox(struct sandbox_pages *p, const struct verb *v,
                             const struct common *common, const struct sandbox_filter *f,
                             const char *name)
{
    struct api_call *c = add_page_call(p);
    int status;

    api_call_init(c, v, common, "GET");
    api_call_path(c, "/v1/sandboxes/%s", name);
    api_call_query(c, "usage", f->usage ? "true" : NULL);
    status = api_call_run(c);
    return status || !c->answer ? status : add_page_row(p, v, c->answer);
}

static void open_pages(struct sandbox_pages *p)
{
    *p = (struct sandbox_pages){ .arena = ARENA_INIT(ROWS_MEMORY) };
    json_build_init(&p->rows, &p->arena);
}

static int close_pages(struct sandbox_pages *p, const struct verb *v)
{
    if (json_build_close(&p->rows, 0, &p->list) < 0)
        return verb_failed(
            v, "the list needs more memory than is allowed; filter with --state or --label");
    p->list.type = JSON_ARRAY;
    p->list.key = str_from(kind_sandbox.rows);
    p->answer = (struct json){ .type = JSON_OBJECT, .list = { &p->list, 1 } };
    return 0;
}

int sandbox_pages_fetch(struct sandbox_pages *p, const struct verb *v, const struct common *common,
                        const struct sandbox_filter *filter)
{
    const char *cursor = NULL;
    int status;

    open_pages(p);
    do
        status = add_sandbox_page(p, v, common, filter, &cursor);
    while (status == 0 && cursor);
    return status ? status : close_pages(p, v);
}

int sandbox_pages_fetch_named(struct sandbox_pages *p, const struct verb *v,
                              const struct common *common, const struct sandbox_filter *filter,
                              char *const *names, int n)
{
    int status = 0;

    open_pages(p);
    for (int i = 0; i < n && status == 0; i++)
        status = add_named_sandbox(p, v, common, filter, names[i]);
    return status ? status : close_pages(p, v);
}

void sandbox_pages_done(struct sandbox_pages *p)
{
    while (p->last) {
        struct fetched_page *page = p->last;

        p->last = page->before;
        api_call_done(&page->call);
        free(page);
    }
    json_build_done(&p->rows);
    arena_done(&p->arena);
}

const struct api_call *sandbox_pages_call(const struct sandbox_pages *p)
{
    return &p->last->call;
}
