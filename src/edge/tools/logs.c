/* sandbox://ID/logs: what background processes of a sandbox have written so far, one after the
 * other, each under a line with its number. */
#include <stdlib.h>

#include "api/mcp.h"
#include "control/processes.h"

enum { LOGS_MAX = 8 << 20, ONE_MAX = 1 << 20 };

struct reading {
    struct mcp_request *request; /* referenced until all is told */
    struct list watches;         /* struct log_part, in the order of their numbers */
    size_t open;                 /* that have not told everything */
    struct str uri;
};

struct log_part {
    struct reading *reading;
    struct watcher watcher;
    struct link link;
    struct buf text;
    uint32_t proc;
    bool over;
};

static void reading_end(struct mcp_request *r)
{
    struct reading *x = r->state;

    for (struct link *m; (m = list_take(&x->watches));) {
        struct log_part *p = container_of(m, struct log_part, link);

        watcher_stop(&p->watcher);
        buf_done(&p->text);
        free(p);
    }
    free(x);
}

static void tell(struct reading *x)
{
    AUTO(buf_done) struct buf all = BUF_INIT(LOGS_MAX);

    for (struct link *m = list_first(&x->watches); m; m = list_after(&x->watches, m)) {
        const struct log_part *p = container_of(m, struct log_part, link);

        if (buf_addf(&all, "==> process %u <==\n", p->proc) < 0 ||
            buf_add(&all, buf_str(&p->text)) < 0)
            break;
        if (p->text.n && p->text.p[p->text.n - 1] != '\n')
            buf_add(&all, STR("\n"));
    }
    mcp_read_text(x->request, x->uri, "text/plain", buf_str(&all));
    mcp_request_unref(x->request);
}

static void over(struct log_part *p)
{
    struct reading *x = p->reading;

    if (p->over)
        return;
    p->over = true;
    watcher_stop(&p->watcher);
    if (--x->open == 0)
        tell(x);
}

/* The newest bytes are kept. */
static bool output(struct watcher *w, int channel, struct str data)
{
    struct log_part *p = container_of(w, struct log_part, watcher);

    (void)channel;
    if (data.n > p->text.max)
        data = (struct str){ data.p + data.n - p->text.max, p->text.max };
    if (data.n > p->text.max - p->text.n)
        buf_drop(&p->text, data.n - (p->text.max - p->text.n));
    buf_add(&p->text, data);
    return true;
}

static void ended(struct watcher *w, const struct ext_end *end)
{
    (void)end;
    over(container_of(w, struct log_part, watcher));
}

static void stop(struct watcher *w)
{
    over(container_of(w, struct log_part, watcher));
}

static const struct watcher_events events = {
    .output = output, .ended = ended, .fell_behind = stop, .caught_up = stop
};

static void watch(void *user, struct process *process)
{
    struct log_part *p = calloc(1, sizeof *p);
    struct reading *x = user;
    struct process_view view;

    if (!p)
        abort();
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
    struct reading *x = calloc(1, sizeof *x);

    if (!x)
        abort();
    x->request = mcp_request_ref(r);
    x->uri = uri;
    x->open = 1; /* ours, until all are watched */
    r->state = x;
    r->on_end = reading_end;
    process_each(s, watch, x);
    if (--x->open == 0)
        tell(x);
}
