/* SPDX-License-Identifier: Apache-2.0 */
/* Watches a directory itself, and a file through its parent directory, so that the watch continues
 * when the file is replaced. */
#include <errno.h>
#include <stdlib.h>
#include <sys/inotify.h>

#include "edge/core/dir_watch.h"
#include "edge/core/file_take.h"
#include "edge/tools/watch.h"
#include "base/clock.h"
#include "base/own.h"

#define PAUSE NS_PER_S /* after a change; further changes wait in the sandbox */

struct file_source {
    struct mcp_source source;
    struct dir_watch watch;
    struct mcp_client *client;   /* charged for the watch; NULL after the end */
    struct mcp_request *request; /* referenced until it is answered or cancelled */
    struct sandbox *sandbox;     /* referenced as long */
    struct loop *loop;
    struct loop_timer pause;
    bool in_parent; /* watches a file: ignores other names */
    bool over;      /* the watch has ended */
    bool unwanted;  /* the source was ended */
    struct loop_later later;
    char path[];
};

static void on_file_source_free(struct loop_later *l)
{
    free(container_of(l, struct file_source, later));
}

/* Detaches the request and drops the reference to the sandbox. */
static struct mcp_request *take_watch_request(struct file_source *x)
{
    struct mcp_request *r = take_ptr(x->request);

    if (r)
        r->state = NULL;
    if (x->sandbox)
        sandbox_unref(take_ptr(x->sandbox));
    return r;
}

/* Stops the watch, and frees the source when no callback can follow. A watch that is still starting
 * is stopped when it has started. */
static void release_file_source(struct file_source *x)
{
    x->unwanted = true;
    if (x->client)
        x->client->files_watched--;
    x->client = NULL;
    loop_timer_stop(&x->pause);
    if (x->watch.running) {
        dir_watch_stop(&x->watch);
        x->over = true;
    }
    if (x->over)
        (void)loop_later(x->loop, &x->later, on_file_source_free, NULL);
}

static void on_file_source_end(struct mcp_source *s)
{
    release_file_source(container_of(s, struct file_source, source));
}

static void cancel_file_watch(struct mcp_request *r)
{
    struct file_source *x = r->state;

    mcp_request_unref(take_watch_request(x));
    release_file_source(x);
}

static void on_file_watch_ready(struct dir_watch *d)
{
    struct file_source *x = container_of(d, struct file_source, watch);
    struct mcp_request *r = take_watch_request(x);

    if (!r) {
        release_file_source(x);
        return;
    }
    r->on_cancel = NULL;
    mcp_watched_by(r, &x->source);
    mcp_request_unref(r);
}

static void on_change_pause_over(struct loop_timer *t)
{
    dir_watch_resume(&container_of(t, struct file_source, pause)->watch);
}

static const char *watched_name(const struct file_source *x)
{
    return strrchr(x->path, '/') + 1;
}

static bool on_watched_change(struct dir_watch *d, const struct backend_change *v)
{
    struct file_source *x = container_of(d, struct file_source, watch);

    if (x->in_parent && !(v->mask & IN_Q_OVERFLOW) && !str_eq(v->name, str_from(watched_name(x))))
        return true;
    mcp_source_changed(&x->source);
    if (!x->unwanted)
        loop_timer_start(x->loop, &x->pause, clock_mono() + PAUSE, on_change_pause_over, NULL);
    return false;
}

static void on_file_watch_ended(struct dir_watch *d, const struct err *e);
static const struct dir_watch_events events = { .stands = on_file_watch_ready,
                                                .changed = on_watched_change,
                                                .over = on_file_watch_ended };

static void on_file_watch_ended(struct dir_watch *d, const struct err *e)
{
    struct file_source *x = container_of(d, struct file_source, watch);
    struct mcp_request *r;

    if (x->request && !x->in_parent && e && e->sys == ENOTDIR && watched_name(x)[0]) {
        x->in_parent = true;
        dir_watch_start(d, x->loop, x->sandbox, NULL, file_parent(&x->request->arena, x->path), 0,
                        &events);
        return;
    }
    x->over = true;
    r = take_watch_request(x);
    if (r) {
        r->on_cancel = NULL;
        mcp_not_watched(r, "%s: %s", x->path, e ? e->msg : "the watch ended; subscribe again");
        mcp_request_unref(r);
    }
    if (r || x->unwanted)
        release_file_source(x);
    else
        mcp_source_changed(&x->source); /* the file or its sandbox is gone */
}

void mcp_watch_file(struct mcp_request *r, struct sandbox *s, const char *path)
{
    struct mcp_client *m = mcp_client_of(r);
    size_t n = strlen(path) + 1;
    struct file_source *x;

    if (m->files_watched >= MCP_FILES_WATCHED_MAX) {
        mcp_not_watched(r, "this session watches %d files, the maximum; unsubscribe from some",
                        MCP_FILES_WATCHED_MAX);
        return;
    }
    x = new0(sizeof *x + n);
    memcpy(x->path, path, n);
    x->source.end = on_file_source_end;
    x->loop = r->session->loop;
    x->client = m;
    m->files_watched++;
    x->request = mcp_request_ref(r);
    x->sandbox = sandbox_ref(s);
    r->state = x;
    r->on_cancel = cancel_file_watch;
    dir_watch_start(&x->watch, x->loop, s, NULL, path, 0, &events);
}
