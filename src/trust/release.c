/* SPDX-License-Identifier: Apache-2.0 */
/* Releases an ended peer: destroys its sandboxes, then removes its record. An unfinished release is
 * repeated by the next start: the record says that the peer has ended. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "trust/internal.h"

enum { LOOK_AGAIN_MS = 500 };

struct peer_release {
    struct peer *peer; /* referenced; a pending query borrows from it */
    struct store_query query;
    struct loop_timer again;
    size_t left; /* sandboxes being destroyed */
    bool asking, failed;
    bool cancelled; /* freed when nothing is pending */
};

struct sandbox_ending {
    struct sandbox_op op;
    struct peer_release *release;
};

static void query_peer_sandboxes(struct peer_release *x);

static void free_release(struct peer_release *x)
{
    loop_timer_stop(&x->again);
    peer_unref(x->peer);
    free(x);
}

static void on_peer_removed(void *user, int r, const struct err *e)
{
    struct peer *p = user;

    /* logged; the next start retries */
    peer_unref(p);
}

static void finish_release(struct peer_release *x)
{
    struct peer *p = peer_ref(x->peer);
    const struct actor daemon = ACTOR_DAEMON;
    struct trust_write *w = trust_write_new(p->trust, "peer.released", p->record.owner, &daemon,
                                            "its sandboxes are gone");

    p->release_ = NULL;
    free_release(x);
    trust_write_detail(w, "peer", p->record.id);
    uses_release(p, w);
    peer_ref(p);
    trust_write_commit(w, on_peer_removed, p);
    peer_drop(p);
    peer_unref(p);
}

static void on_release_retry(struct loop_timer *t)
{
    query_peer_sandboxes(container_of(t, struct peer_release, again));
}

static void retry_release_later(struct peer_release *x)
{
    (void)loop_timer_start(x->peer->trust->loop, &x->again,
                           clock_mono() + LOOK_AGAIN_MS * NS_PER_MS, on_release_retry, NULL);
}

static void on_sandbox_ended(struct sandbox_op *op, int r, const struct err *e)
{
    struct sandbox_ending *d = container_of(op, struct sandbox_ending, op);
    struct peer_release *x = d->release;

    if (r < 0)
        LOG(WARN, "peer.release_failed", LOG_S("error", e ? e->msg : ""));
    free(d);
    x->failed |= r < 0;
    if (--x->left)
        return;
    if (x->cancelled)
        free_release(x);
    else if (x->failed)
        retry_release_later(x);
    else
        query_peer_sandboxes(x);
}

static void destroy_peer_sandbox(struct peer_release *x, struct sandbox *s)
{
    const struct actor daemon = ACTOR_DAEMON;
    struct sandbox_ending *d = new0(sizeof *d);

    d->op.done = on_sandbox_ended;
    d->release = x;
    x->left++;
    sandbox_destroy(s, &daemon, "its peer has ended", DESTROY_USUAL, &d->op);
}

static void on_peer_sandboxes(struct store_query *q, int r, const struct err *e)
{
    struct peer_release *x = container_of(q, struct peer_release, query);
    const struct caller all = { .admin = true };
    bool wait = r < 0;

    x->asking = false;
    if (x->cancelled) {
        arena_done(&q->arena);
        free_release(x);
        return;
    }
    if (r < 0)
        LOG(WARN, "peer.release_failed", LOG_S("error", e->msg));
    for (size_t i = 0; r >= 0 && i < q->n; i++) {
        struct sandbox *s;

        if (q->sandboxes[i].state == SANDBOX_DESTROYED)
            continue;
        if (!control_find_now(x->peer->trust->control, &all, str_from(q->sandboxes[i].id), &s)) {
            wait = true;
            continue;
        }
        if (!sandbox_is_held(s)) { /* held sandboxes stay for their owner */
            wait = true;
            destroy_peer_sandbox(x, s);
        }
        sandbox_unref(s);
    }
    arena_done(&q->arena);
    if (x->left)
        return;
    if (wait || peer_alive(x->peer))
        retry_release_later(x); /* also waits for allowed creates that are not stored yet */
    else
        finish_release(x);
}

static void query_peer_sandboxes(struct peer_release *x)
{
    struct err e;

    x->failed = false;
    x->query = (struct store_query){ .kind = STORE_SANDBOXES,
                                     .states = ~(1u << SANDBOX_DESTROYED) &
                                               ((1u << SANDBOX_STATE_COUNT_) - 1),
                                     .labels = { x->peer->labels_, 1 },
                                     .owner = str_from(x->peer->record.owner) };
    if (store_ask(x->peer->trust->store, &x->query, on_peer_sandboxes, &e) < 0)
        retry_release_later(x);
    else
        x->asking = true;
}

void release_start(struct peer *p)
{
    struct peer_release *x = new0(sizeof *x);

    x->peer = peer_ref(p);
    p->release_ = x;
    query_peer_sandboxes(x);
}

void release_cancel(struct peer *p)
{
    struct peer_release *x = take_ptr(p->release_);

    if (!x)
        return;
    x->cancelled = true;
    loop_timer_stop(&x->again);
    if (!x->asking && !x->left)
        free_release(x);
}
