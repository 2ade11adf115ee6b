/* A directory is watched itself, a file in the directory that it is in: so it is still watched when
 * another is put in its place. */
#include <errno.h>
#include <stdlib.h>
#include <sys/inotify.h>

#include "api/dir_watch.h"
#include "api/file_take.h"
#include "api/mcp_watch.h"
#include "base/clock.h"

#define PAUSE NS_PER_S /* after a change: what comes meanwhile waits inside */

struct file_source {
    struct mcp_source source;
    struct dir_watch watch;
    struct mcp_client *client;   /* whose it is counted for; NULL: not any more */
    struct mcp_request *request; /* referenced, until it is answered or cancelled */
    struct sandbox *sandbox;     /* referenced for as long */
    struct loop *loop;
    struct loop_timer pause;
    bool in_parent; /* it is a file: only what has its name counts */
    bool over;      /* the watch is */
    bool unwanted;  /* nobody watches any more */
    struct loop_later later;
    char path[];
};

static void free_later(struct loop_later *l)
{
    free(container_of(l, struct file_source, later));
}

/* Nobody waits for it to stand any more. */
static struct mcp_request *take_request(struct file_source *x)
{
    struct mcp_request *r = take_ptr(x->request);

    if (r)
        r->state = NULL;
    if (x->sandbox)
        sandbox_unref(take_ptr(x->sandbox));
    return r;
}

/* It is freed once the watch cannot tell any more; one that is only starting is stopped then. */
static void give_up(struct file_source *x)
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
        (void)loop_later(x->loop, &x->later, free_later, NULL);
}

static void source_ended(struct mcp_source *s)
{
    give_up(container_of(s, struct file_source, source));
}

static void cancel(struct mcp_request *r)
{
    struct file_source *x = r->state;

    mcp_request_unref(take_request(x));
    give_up(x);
}

static void stands(struct dir_watch *d)
{
    struct file_source *x = container_of(d, struct file_source, watch);
    struct mcp_request *r = take_request(x);

    if (!r) {
        give_up(x);
        return;
    }
    r->on_cancel = NULL;
    mcp_watched_by(r, &x->source);
    mcp_request_unref(r);
}

static void on_pause(struct loop_timer *t)
{
    dir_watch_resume(&container_of(t, struct file_source, pause)->watch);
}

static const char *name_of(const struct file_source *x)
{
    return strrchr(x->path, '/') + 1;
}

static bool changed(struct dir_watch *d, const struct ext_change *v)
{
    struct file_source *x = container_of(d, struct file_source, watch);

    if (x->in_parent && !(v->mask & IN_Q_OVERFLOW) && !str_eq(v->name, str_from(name_of(x))))
        return true;
    mcp_source_changed(&x->source);
    if (!x->unwanted)
        loop_timer_start(x->loop, &x->pause, clock_mono() + PAUSE, on_pause, NULL);
    return false;
}

static void over(struct dir_watch *d, const struct err *e);
static const struct dir_watch_events events = { .stands = stands,
                                                .changed = changed,
                                                .over = over };

static void watch_parent(struct file_source *x)
{
    x->in_parent = true;
    dir_watch_start(&x->watch, x->loop, x->sandbox, NULL, file_parent(&x->request->arena, x->path),
                    0, &events);
}

static void over(struct dir_watch *d, const struct err *e)
{
    struct file_source *x = container_of(d, struct file_source, watch);
    struct mcp_request *r;

    if (x->request && !x->in_parent && e && e->sys == ENOTDIR && name_of(x)[0]) {
        watch_parent(x);
        return;
    }
    x->over = true;
    r = take_request(x);
    if (r) {
        r->on_cancel = NULL;
        mcp_not_watched(r, e ? e->msg : "it cannot be watched");
        mcp_request_unref(r);
    }
    if (r || x->unwanted)
        give_up(x);
    else
        mcp_source_changed(&x->source); /* it is gone, or its sandbox */
}

void mcp_watch_file(struct mcp_request *r, struct sandbox *s, const char *path)
{
    struct mcp_client *m = mcp_client_of(r);
    size_t n = strlen(path) + 1;
    struct file_source *x;

    if (m->files_watched >= MCP_FILES_WATCHED_MAX) {
        mcp_not_watched(r, "this session watches as many files as it may: unsubscribe from some");
        return;
    }
    x = calloc(1, sizeof *x + n);
    if (!x)
        abort();
    memcpy(x->path, path, n);
    x->source.end = source_ended;
    x->loop = r->session->loop;
    x->client = m;
    m->files_watched++;
    x->request = mcp_request_ref(r);
    x->sandbox = sandbox_ref(s);
    r->state = x;
    r->on_cancel = cancel;
    dir_watch_start(&x->watch, x->loop, s, NULL, path, 0, &events);
}
