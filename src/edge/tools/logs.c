/* SPDX-License-Identifier: Apache-2.0 */
/* The resource sandbox://ID/logs: the output of a sandbox's background processes so far, each under
 * a line with its number. */
#include <stdlib.h>

#include "edge/tools/tools.h"
#include "base/own.h"
#include "control/process/processes.h"

enum { LOGS_MAX = 8 << 20, ONE_MAX = 1 << 20 };

struct logs_reading {
    struct mcp_request *request; /* referenced until it is answered */
    struct list watches;         /* struct log_part, ordered by number */
    size_t open;                 /* parts that are not read completely */
    struct str uri;
};

struct log_part {
    struct logs_reading *reading;
    struct watcher watcher;
    struct link link;
    struct buf text;
    uint32_t proc;
    bool over;
};

static void release_logs_reading(void *state)
{
    struct logs_reading *x = state;

    for (struct link *m; (m = list_take(&x->watches));) {
        struct log_part *p = container_of(m, struct log_part, link);

        watcher_stop(&p->watcher);
        buf_done(&p->text);
        free(p);
    }
}

static void answer_logs_resource(struct logs_reading *x)
{
    AUTO(buf_done) struct buf all = BUF_INIT(LOGS_MAX);

    LIST_EACH (const struct log_part, p, &x->watches, link) {
        if (buf_addf(&all, "==> process %u <==\n", p->proc) < 0 ||
            buf_add(&all, buf_str(&p->text)) < 0)
            break;
        if (p->text.n && p->text.p[p->text.n - 1] != '\n')
            buf_add(&all, STR("\n"));
    }
    mcp_read_text(x->request, x->uri, "text/plain", buf_str(&all));
    mcp_request_unref(x->request);
}

static void on_log_part_read(struct watcher *w)
{
    struct log_part *p = container_of(w, struct log_part, watcher);

    if (p->over)
        return;
    p->over = true;
    watcher_stop(w);
    if (--p->reading->open == 0)
        answer_logs_resource(p->reading);
}

/* Keeps the newest bytes. */
static bool on_log_part_output(struct watcher *w, int channel, struct str data)
{
    struct log_part *p = container_of(w, struct log_part, watcher);

    if (data.n > p->text.max)
        data = (struct str){ data.p + data.n - p->text.max, p->text.max };
    if (data.n > p->text.max - p->text.n)
        buf_drop(&p->text, data.n - (p->text.max - p->text.n));
    buf_add(&p->text, data);
    return true;
}

static void on_log_part_ended(struct watcher *w, const struct backend_end *end)
{
    on_log_part_read(w);
}

static const struct watcher_events events = { .output = on_log_part_output,
                                              .ended = on_log_part_ended,
                                              .fell_behind = on_log_part_read,
                                              .caught_up = on_log_part_read };

static void watch_log_part(void *user, struct process *process)
{
    struct log_part *p = new0(sizeof *p);
    struct logs_reading *x = user;
    struct process_view view;

    process_view(process, &view);
    p->reading = x;
    p->proc = view.proc;
    p->watcher.events = &events;
    buf_init(&p->text, ONE_MAX);
    list_append(&x->watches, &p->link);
    x->open++;
    process_watch(process, &p->watcher, false);
}

void mcp_read_logs(struct mcp_request *r, struct sandbox *s, struct str uri)
{
    struct logs_reading *x = mcp_state(r, sizeof *x, release_logs_reading);

    x->request = mcp_request_ref(r);
    x->uri = uri;
    x->open = 1; /* held by this function until all are watched */
    process_each(s, watch_log_part, x);
    if (--x->open == 0)
        answer_logs_resource(x);
}
