/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/tools/look.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "control/sandbox/workspace.h"
#include "edge/tools/workspace.h"
#include "lib/json/reader.h"

/* A file system that hangs delays a command for so long. */
enum { LOOK_MS = 3000, SHOWN_MAX = 10, DEPTH = 4, HINT_MAX = 8 << 10 };

struct directory_look {
    struct mcp_request *request; /* referenced */
    struct sandbox *sandbox;     /* referenced */
    const struct json *arguments;
    mcp_looked_fn *go; /* NULL: it was called */
    struct workspace_op op;
    struct loop_timer patience;
};

static const char *keep_hint(struct directory_look *x, const struct buf *text)
{
    return text->n ? arena_dup(&x->request->arena, buf_str(text)) : NULL;
}

static void continue_call(struct directory_look *x, const char *hint)
{
    mcp_looked_fn *go = take_ptr(x->go);

    loop_timer_stop(&x->patience);
    if (go && !mcp_is_finished(x->request))
        go(x->request, x->arguments, hint);
}

static void list_differences(const struct json *lines, struct buf *text)
{
    size_t n = 0;

    for (const struct json *v = json_first(lines); v != json_end(lines) && n < SHOWN_MAX; v++, n++)
        buf_addf(text, "%s%.*s (%.*s)", n ? ", " : "", STR_ARG(mcp_text(v, "path")),
                 STR_ARG(mcp_text(v, "action")));
}

static void write_hint(struct directory_look *x, struct buf *text)
{
    const struct sync_report *rep = &x->op.report;
    const struct json_limits limits = { .bytes = x->op.lines.n, .depth = DEPTH };
    uint64_t n = rep->count[SYNC_CREATED] + rep->count[SYNC_REPLACED] + rep->count[SYNC_DELETED];
    const struct json *lines;

    if (!n || json_read(buf_str(&x->op.lines), limits, &x->request->arena, &lines, NULL) < 0)
        return;
    buf_addf(text,
             "The user's directory %s has changed since it was copied, and the command saw the "
             "older files: ",
             workspace_directory(x->sandbox));
    list_differences(lines, text);
    if (n > SHOWN_MAX)
        buf_addf(text, " and %llu more", (unsigned long long)n - SHOWN_MAX);
    buf_addf(text,
             ". If the result depends on them, make the same changes in the sandbox and run the "
             "command again.");
}

static void on_directory_looked(struct workspace_op *op, int r, const struct err *e)
{
    struct directory_look *x = container_of(op, struct directory_look, op);
    struct buf text AUTO(buf_done) = BUF_INIT(HINT_MAX);

    if (x->go && !mcp_is_finished(x->request)) {
        if (r >= 0)
            write_hint(x, &text);
        else
            buf_addf(&text,
                     "Whether the user's directory has changed since it was copied is not "
                     "known: %s",
                     e->msg);
    }
    continue_call(x, keep_hint(x, &text));
    workspace_op_done(op);
    sandbox_unref(x->sandbox);
    mcp_request_unref(x->request);
    free(x);
}

static void on_look_late(struct loop_timer *t)
{
    struct directory_look *x = container_of(t, struct directory_look, patience);

    continue_call(x, "Whether the user's directory has changed since it was copied is not known: "
                     "comparing them takes too long.");
}

void mcp_look_at_directory(struct mcp_request *r, const struct json *v, mcp_looked_fn *go)
{
    const struct mcp_client *m = mcp_client_of(r);
    const struct json *id = json_get(v, STR("sandbox_id"));
    struct sandbox *s = NULL;
    struct directory_look *x;

    if (id && id->type == JSON_STR && mcp_workspace_is(m, id->s.p))
        s = mcp_workspace_sandbox(m);
    if (!s || !workspace_mirrored(s)) {
        sandbox_unref(s);
        go(r, v, NULL);
        return;
    }
    x = new0(sizeof *x);
    *x = (struct directory_look){ .request = mcp_request_ref(r),
                                  .sandbox = s,
                                  .arguments = v,
                                  .go = go,
                                  .op = { .done = on_directory_looked } };
    loop_timer_start(r->session->loop, &x->patience, clock_mono() + LOOK_MS * NS_PER_MS,
                     on_look_late, NULL);
    workspace_look(s, &x->op);
}
