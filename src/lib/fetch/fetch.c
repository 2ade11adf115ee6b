/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/fetch/fetch.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/fetch/exchange.h"
#include "lib/loop/fd.h"

/* A socket that libcurl wants watched. */
struct watched {
    struct fetch *fetch;
    struct loop_fd source;
    struct link link;
};

static void leave_fetch(struct fetch_exchange_ *x)
{
    curl_multi_remove_handle(x->fetch->multi_, x->easy);
    link_leave(&x->link);
    x->fetch->running--;
    x->request->exchange_ = NULL;
}

/* The callback may start and cancel requests, this one too, so nothing of it is used afterwards. */
static void finish_fetch_exchange(struct fetch_exchange_ *x, CURLcode code)
{
    struct fetch_request *r = x->request;
    struct fetch_answer answer;

    leave_fetch(x);
    answer = fetch_exchange_answer(x, code);
    r->done(r, &answer);
    fetch_exchange_free(x);
}

static void run_curl(struct fetch *f, curl_socket_t fd, int events)
{
    CURLMsg *m;
    int ignored;

    curl_multi_socket_action(f->multi_, fd, events, &ignored);
    while ((m = curl_multi_info_read(f->multi_, &ignored))) {
        struct fetch_exchange_ *x = NULL;

        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x);
        finish_fetch_exchange(x, m->data.result);
    }
}

/* libcurl may stop watching the socket, and free this source, before it returns. */
static void on_curl_socket(struct loop_fd *s, unsigned events)
{
    struct watched *w = container_of(s, struct watched, source);
    int told = 0;

    if (events & (LOOP_READ | LOOP_HUP))
        told |= CURL_CSELECT_IN;
    if (events & LOOP_WRITE)
        told |= CURL_CSELECT_OUT;
    if (events & LOOP_ERROR)
        told |= CURL_CSELECT_ERR;
    run_curl(w->fetch, s->fd, told);
}

static void on_curl_timer(struct loop_timer *t)
{
    run_curl(container_of(t, struct fetch, timer_), CURL_SOCKET_TIMEOUT, 0);
}

static int on_curl_set_timer(CURLM *multi, long ms, void *fetch)
{
    struct fetch *f = fetch;

    loop_timer_stop(&f->timer_);
    if (ms >= 0)
        loop_timer_start(f->loop, &f->timer_, clock_mono() + ms * NS_PER_MS, on_curl_timer, NULL);
    return 0;
}

static void unwatch_socket(struct watched *w)
{
    loop_fd_stop(&w->source);
    link_leave(&w->link);
    free(w);
}

static int watch_curl_socket(struct fetch *f, curl_socket_t fd, unsigned want, struct err *e)
{
    struct watched *w = new0(sizeof *w);
    int r;

    w->fetch = f;
    r = loop_fd_start(f->loop, &w->source, fd, want, on_curl_socket, e);
    if (r < 0) {
        free(w);
        return r;
    }
    list_append(&f->sockets_, &w->link);
    curl_multi_assign(f->multi_, fd, w);
    return 0;
}

/* Where watching fails, the request ends with its timeout, and with this error. */
static int set_socket(CURL *easy, curl_socket_t fd, int what, void *fetch, void *watched)
{
    struct watched *w = watched;
    struct fetch_exchange_ *x = NULL;
    unsigned want =
        (what & CURL_POLL_IN ? LOOP_READ : 0u) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0u);
    struct err e;
    int r;

    if (what == CURL_POLL_REMOVE) {
        if (w)
            unwatch_socket(w);
        return 0;
    }
    r = w ? loop_fd_want(&w->source, want, &e) : watch_curl_socket(fetch, fd, want, &e);
    if (r < 0 && !curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&x) && x)
        x->own = e;
    return 0;
}

/* libcurl has copies of what it sends, passwords among them. */
static void wipe_free(void *p)
{
    if (p)
        explicit_bzero(p, malloc_usable_size(p));
    free(p);
}

static void *wipe_realloc(void *p, size_t n)
{
    size_t old = p ? malloc_usable_size(p) : 0;
    void *new = malloc(n);

    if (!new)
        return NULL;
    if (p)
        memcpy(new, p, old < n ? old : n);
    wipe_free(p);
    return new;
}

int fetch_init(struct fetch *f, struct loop *l, struct fetch_limits limits, struct err *e)
{
    *f = (struct fetch){ .loop = l, .limits = limits };
    if (curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, wipe_free, wipe_realloc, strdup, calloc))
        return err_set(e, ERR_UNSUPPORTED, "libcurl cannot be initialised");
    f->multi_ = curl_multi_init();
    if (!f->multi_)
        abort();
    curl_multi_setopt(f->multi_, CURLMOPT_SOCKETFUNCTION, set_socket);
    curl_multi_setopt(f->multi_, CURLMOPT_SOCKETDATA, f);
    curl_multi_setopt(f->multi_, CURLMOPT_TIMERFUNCTION, on_curl_set_timer);
    curl_multi_setopt(f->multi_, CURLMOPT_TIMERDATA, f);
    curl_multi_setopt(f->multi_, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)limits.connections);
    curl_multi_setopt(f->multi_, CURLMOPT_MAX_HOST_CONNECTIONS, (long)limits.per_host);
    return 0;
}

void fetch_done(struct fetch *f)
{
    struct link *m;

    if (!f->multi_)
        return;
    while ((m = list_first(&f->exchanges_)))
        fetch_cancel(container_of(m, struct fetch_exchange_, link)->request);
    curl_multi_cleanup(f->multi_);
    f->multi_ = NULL;
    while ((m = list_first(&f->sockets_)))
        unwatch_socket(container_of(m, struct watched, link));
    loop_timer_stop(&f->timer_);
    curl_global_cleanup();
}

int fetch_start(struct fetch *f, struct fetch_request *r, struct err *e)
{
    struct fetch_exchange_ *x;
    int bad;

    if (r->exchange_)
        return err_set(e, ERR_CONFLICT, "the request is running");
    if (f->running >= f->limits.requests)
        return err_set(e, ERR_BUSY, "%u requests are running already", f->running);
    bad = fetch_exchange_new(r, &x, e);
    if (bad < 0)
        return bad;
    x->fetch = f;
    r->exchange_ = x;
    list_append(&f->exchanges_, &x->link);
    f->running++;
    if (curl_multi_add_handle(f->multi_, x->easy)) {
        fetch_cancel(r);
        return err_set(e, ERR_BUG, "libcurl does not take the request");
    }
    return 0;
}

void fetch_cancel(struct fetch_request *r)
{
    struct fetch_exchange_ *x = r->exchange_;

    if (!x)
        return;
    leave_fetch(x);
    fetch_exchange_free(x);
}

void fetch_resume(struct fetch_request *r)
{
    struct fetch_exchange_ *x = r->exchange_;
    CURLcode code;

    if (!x)
        return;
    code = curl_easy_pause(x->easy, CURLPAUSE_CONT);
    if (code != CURLE_OK)
        finish_fetch_exchange(x, code);
}
