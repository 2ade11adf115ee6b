/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/loop/timer.h"

#include "base/own.h"

/* The timers form a pairing heap: every timer is due no earlier than its parent, l->timers_ is the
 * root. Its members are its storage, so it cannot run out of memory. */

/* One heap out of two; each is a root without siblings, or NULL. */
static struct loop_timer *meld_heaps(struct loop_timer *a, struct loop_timer *b)
{
    if (!a || !b)
        return a ? a : b;
    if (b->deadline != a->deadline ? b->deadline < a->deadline : b->number_ < a->number_) {
        struct loop_timer *swap = a;

        a = b;
        b = swap;
    }
    b->prev_ = a;
    b->next_ = a->child_;
    if (b->next_)
        b->next_->prev_ = b;
    a->child_ = b;
    return a;
}

/* Takes the first off a chain of siblings and makes it a root; NULL if the chain is empty. */
static struct loop_timer *take_sibling(struct loop_timer **chain)
{
    struct loop_timer *t = *chain;

    if (!t)
        return NULL;
    *chain = t->next_;
    t->next_ = t->prev_ = NULL;
    return t;
}

/* One heap out of a chain of siblings. Melding neighbours first, then the pairs from the last to
 * the first, is what makes the heap logarithmic. */
static struct loop_timer *meld_chain(struct loop_timer *chain)
{
    struct loop_timer *pairs = NULL, *root = NULL;

    while (chain) {
        struct loop_timer *a = take_sibling(&chain);
        struct loop_timer *pair = meld_heaps(a, take_sibling(&chain));

        pair->next_ = pairs;
        pairs = pair;
    }
    while (pairs)
        root = meld_heaps(root, take_sibling(&pairs));
    return root;
}

static void heap_remove(struct loop *l, struct loop_timer *t)
{
    struct loop_timer *below = meld_chain(t->child_);

    if (t == l->timers_) {
        l->timers_ = below;
    } else {
        if (t->prev_->child_ == t) /* the parent */
            t->prev_->child_ = t->next_;
        else
            t->prev_->next_ = t->next_;
        if (t->next_)
            t->next_->prev_ = t->prev_;
        l->timers_ = meld_heaps(l->timers_, below);
    }
    t->child_ = t->next_ = t->prev_ = NULL;
    t->waiting_ = false;
}

bool loop_timer_started(const struct loop_timer *t)
{
    return t->waiting_ || link_joined(&t->due_link_);
}

int loop_timer_start(struct loop *l, struct loop_timer *t, int64_t deadline, loop_timer_fn *call,
                     struct err *e)
{
    if (loop_timer_started(t))
        return err_set(e, ERR_CONFLICT, "the timer is already started");
    *t = (struct loop_timer){ .loop = l,
                              .deadline = deadline,
                              .waiting_ = true,
                              .number_ = l->timers_started_++,
                              .call_ = call };
    l->timers_ = meld_heaps(l->timers_, t);
    return 0;
}

void loop_timer_stop(struct loop_timer *t)
{
    link_leave(&t->due_link_);
    if (t->waiting_)
        heap_remove(t->loop, t);
}

/* All that is due leaves the heap before the first callback: one that starts itself again with a
 * deadline in the past would otherwise keep the others from their turn. */
void loop_timer_collect_(struct loop *l, int64_t now)
{
    for (struct loop_timer *t; (t = l->timers_) && t->deadline <= now;) {
        heap_remove(l, t);
        list_append(&l->due_, &t->due_link_);
    }
}

int loop_timer_run_(struct loop *l)
{
    int called = 0;

    for (struct link *m; (m = list_take(&l->due_)); called++) {
        struct loop_timer *t = container_of(m, struct loop_timer, due_link_);

        t->call_(t);
    }
    return called;
}
