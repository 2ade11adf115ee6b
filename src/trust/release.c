/* Letting a peer go: all its sandboxes are destroyed, then its record is removed. What the daemon
 * does not finish, its next start begins again: the record says that the peer has ended. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "trust/inside.h"

enum { LOOK_AGAIN_MS = 500 };

struct peer_release {
    struct peer *peer; /* referenced; a question that is under way borrows from it */
    struct store_query query;
    struct loop_timer again;
    size_t left; /* sandboxes under way */
    bool asking, failed;
    bool cancelled; /* it is freed when nothing is under way */
};

struct ending {
    struct sandbox_op op;
    struct peer_release *release;
};

static void look(struct peer_release *x);

static void release_free(struct peer_release *x)
{
    loop_timer_stop(&x->again);
    peer_unref(x->peer);
    free(x);
}

static void removed(void *user, int r, const struct err *e)
{
    struct peer *p = user;

    (void)e; /* logged; the next start tries again */
    (void)r;
    peer_unref(p);
}

static void finish(struct peer_release *x)
{
    struct peer *p = peer_ref(x->peer);
    const struct actor daemon = ACTOR_DAEMON;
    struct trust_write *w =
        write_new(p->trust, "peer.released", p->record.owner, &daemon, "its sandboxes are gone");

    p->release_ = NULL;
    release_free(x);
    write_detail(w, "peer", p->record.id);
    uses_release(p, w);
    peer_ref(p);
    write_commit(w, removed, p);
    peer_drop(p);
    peer_unref(p);
}

static void on_again(struct loop_timer *t)
{
    look(container_of(t, struct peer_release, again));
}

static void look_later(struct peer_release *x)
{
    (void)loop_timer_start(x->peer->trust->loop, &x->again,
                           clock_mono() + LOOK_AGAIN_MS * NS_PER_MS, on_again, NULL);
}

static void ended(struct sandbox_op *op, int r, const struct err *e)
{
    struct ending *d = container_of(op, struct ending, op);
    struct peer_release *x = d->release;

    if (r < 0)
        LOG(WARN, "peer.release_failed", LOG_S("error", e ? e->msg : ""));
    free(d);
    x->failed |= r < 0;
    if (--x->left)
        return;
    if (x->cancelled)
        release_free(x);
    else if (x->failed)
        look_later(x);
    else
        look(x);
}

static void destroy(struct peer_release *x, struct sandbox *s)
{
    const struct actor daemon = ACTOR_DAEMON;
    struct ending *d = calloc(1, sizeof *d);

    if (!d)
        abort();
    d->op.done = ended;
    d->release = x;
    x->left++;
    sandbox_destroy(s, &daemon, "its peer is gone", DESTROY_SYNC, &d->op);
}

static void answered(struct store_query *q, int r, const struct err *e)
{
    struct peer_release *x = container_of(q, struct peer_release, query);
    const struct caller all = { .admin = true };
    bool wait = r < 0;

    x->asking = false;
    if (x->cancelled) {
        arena_done(&q->arena);
        release_free(x);
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
        if (!sandbox_is_held(s)) { /* else it stays for its owner, whoever made it */
            wait = true;
            destroy(x, s);
        }
        sandbox_unref(s);
    }
    arena_done(&q->arena);
    if (x->left)
        return;
    if (wait || peer_alive(x->peer))
        look_later(x); /* also for what was allowed and is not on disk yet */
    else
        finish(x);
}

static void look(struct peer_release *x)
{
    struct err e;

    x->failed = false;
    x->query = (struct store_query){ .kind = STORE_SANDBOXES,
                                     .states = ~(1u << SANDBOX_DESTROYED) &
                                               ((1u << SANDBOX_STATE_COUNT_) - 1),
                                     .labels = { x->peer->labels_, 1 },
                                     .owner = str_from(x->peer->record.owner) };
    if (store_ask(x->peer->trust->store, &x->query, answered, &e) < 0)
        look_later(x);
    else
        x->asking = true;
}

void release_start(struct peer *p)
{
    struct peer_release *x = calloc(1, sizeof *x);

    if (!x)
        abort();
    x->peer = peer_ref(p);
    p->release_ = x;
    look(x);
}

void release_cancel(struct peer *p)
{
    struct peer_release *x = take_ptr(p->release_);

    if (!x)
        return;
    x->cancelled = true;
    loop_timer_stop(&x->again);
    if (!x->asking && !x->left)
        release_free(x);
}
