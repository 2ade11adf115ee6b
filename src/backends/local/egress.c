/* SPDX-License-Identifier: Apache-2.0 */
/* The network boundary of a box: its sockets, which PID 1 keeps, and queries for the holders of a
 * connection. */
#include <stdlib.h>

#include "base/own.h"
#include "backends/local/local.h"
#include "lib/ipc/listeners.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not follow ownership by lists */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

/* A pending query for the holders of a socket. */
struct owner_query {
    struct link link;
    uint32_t tag;   /* for PID 1 */
    uint64_t owner; /* of the owner */
    enum err_code why;
};

static int lost_query_error(enum err_code code, struct err *e)
{
    return code == ERR_BUSY
               ? err_set(e, ERR_BUSY, "%d queries for socket owners are already pending; try again",
                         LOCAL_WHO_MAX)
               : err_set(e, ERR_CONFLICT, "the sandbox is not running");
}

/* listeners */

void local_egress_listeners(struct backend_box *backend)
{
    struct local_box *b = local_box_of(backend);

    local_answers_ask(b, &b->egress.listeners, CONTROL_LISTENERS, TAG_LISTENERS);
}

void local_egress_on_listening(struct local_box *b, const union supervisor_message *m,
                               struct ipc_fds *fds)
{
    struct listeners l;
    struct err e = { 0 };
    int r;

    if (m->head.tag != TAG_LISTENERS || !local_answers_take(&b->egress.listeners))
        return;
    r = listeners_take(fds, m->listening.slots, &l, &e);
    b->backend.events->listeners(&b->backend, r, r < 0 ? &e : NULL, r < 0 ? NULL : &l);
    if (r >= 0)
        listeners_done(&l);
}

/* questions */

static struct owner_query *find_owner_query(struct local_box *b, uint32_t tag)
{
    LIST_EACH (struct owner_query, q, &b->egress.pending, link) {
        if (q->tag == tag)
            return q;
    }
    return NULL;
}

void local_egress_who(struct backend_box *backend, uint64_t tag, uint64_t inode)
{
    struct local_box *b = local_box_of(backend);
    struct control_who m = { .inode = inode };
    struct owner_query *q = new0(sizeof *q);

    q->owner = tag;
    if (!local_is_reachable(b) || b->egress.n_pending >= LOCAL_WHO_MAX) {
        q->why = local_is_reachable(b) ? ERR_BUSY : ERR_CONFLICT;
        list_append(&b->egress.lost, &q->link);
        local_report_later(b);
        return;
    }
    /* Tags are reused long after their answers arrived: few are pending at the same time. */
    b->egress.last = (b->egress.last + 1) % TAG_WHO_COUNT;
    q->tag = (TAG_WHO_FIRST + b->egress.last) << TAG_SLOT_BITS;
    list_append(&b->egress.pending, &q->link);
    b->egress.n_pending++;
    control_fill(&m.head, CONTROL_WHO, q->tag, sizeof m);
    local_channel_post(b, &m, sizeof m);
}

/* Removes an answered query; returns the owner's tag. */
static uint64_t finish_owner_query(struct local_box *b, struct owner_query *q)
{
    uint64_t owner = q->owner;

    link_leave(&q->link);
    b->egress.n_pending--;
    free(q);
    return owner;
}

struct owner_answer {
    struct backend_exe exes[CONTROL_EXES_MAX];
    struct backend_holder holders[CONTROL_HOLDERS_MAX];
};

static void read_exes(const struct control_who_is *m, const struct ipc_fds *fds,
                      struct owner_answer *ret)
{
    size_t at = 0;

    for (uint32_t i = 0; i < m->n_exes; i++) {
        struct control_exe x;
        const char *path = control_exe_at(m, i, &x);

        ret->exes[i] = (struct backend_exe){ .path = path[0] ? path : NULL,
                                             .dev = x.dev,
                                             .ino = x.ino,
                                             .fd = x.flags & CONTROL_EXE_FD ? fds->fd[at++] : -1 };
    }
}

static void read_holders(const struct control_who_is *m, struct owner_answer *ret)
{
    _Static_assert((int)BACKEND_ANCESTORS_MAX == (int)CONTROL_ANCESTORS_MAX,
                   "PID 1's are all told");
    for (uint32_t i = 0; i < m->n_holders; i++) {
        struct control_holder h;

        control_holder_at(m, i, &h);
        ret->holders[i] = (struct backend_holder){ .pid = h.pid,
                                                   .uid = h.uid,
                                                   .exe = &ret->exes[h.exe],
                                                   .n_ancestors = h.n_ancestors,
                                                   .cut = h.flags & CONTROL_HOLDER_CUT };
        for (uint32_t k = 0; k < h.n_ancestors; k++)
            ret->holders[i].ancestors[k] = &ret->exes[h.ancestors[k]];
    }
}

void local_egress_on_who_is(struct local_box *b, const union supervisor_message *m,
                            struct ipc_fds *fds)
{
    struct owner_query *q = find_owner_query(b, m->head.tag);
    struct owner_answer a;
    struct backend_who w = {
        .holders = a.holders, .n = m->who_is.n_holders, .exes = a.exes, .n_exes = m->who_is.n_exes
    };

    if (!q)
        return;
    read_exes(&m->who_is, fds, &a);
    read_holders(&m->who_is, &a);
    b->backend.events->who(&b->backend, finish_owner_query(b, q), 0, NULL, &w);
}

/* failures */

bool local_egress_on_failed(struct local_box *b, const struct control_failed *m)
{
    struct owner_query *q = find_owner_query(b, m->head.tag);
    bool known = m->code > ERR_OK && m->code <= ERR_BUG;
    struct err e;
    int r = err_set(&e, known ? (enum err_code)m->code : ERR_UPSTREAM, "%.199s", m->msg);

    if (q) {
        b->backend.events->who(&b->backend, finish_owner_query(b, q), r, &e, NULL);
        return true;
    }
    if (m->head.tag == TAG_LISTENERS && local_answers_take(&b->egress.listeners))
        b->backend.events->listeners(&b->backend, r, &e, NULL);
    return m->head.tag == TAG_LISTENERS;
}

void local_egress_lose_all(struct local_box *b)
{
    struct local_egress *g = &b->egress;

    local_answers_lose(&g->listeners);
    LIST_EACH (struct owner_query, q, &g->pending, link)
        q->why = ERR_CONFLICT;
    list_move(&g->pending, &g->lost);
    g->n_pending = 0;
}

void local_egress_report_lost(struct local_box *b)
{
    struct link *m;
    struct err e;
    int r;

    while (local_answers_take_lost(b, &b->egress.listeners)) {
        r = lost_query_error(ERR_CONFLICT, &e);
        b->backend.events->listeners(&b->backend, r, &e, NULL);
    }
    while (!b->freed && (m = list_take(&b->egress.lost))) {
        struct owner_query *q = container_of(m, struct owner_query, link);
        uint64_t owner = q->owner;

        r = lost_query_error(q->why, &e);
        free(q);
        b->backend.events->who(&b->backend, owner, r, &e, NULL);
    }
}

void local_egress_done(struct local_box *b)
{
    struct list *const lists[] = { &b->egress.pending, &b->egress.lost };

    for (size_t i = 0; i < COUNT_OF(lists); i++)
        for (struct link *m; (m = list_take(lists[i]));)
            free(container_of(m, struct owner_query, link));
    b->egress = (struct local_egress){ 0 };
}
