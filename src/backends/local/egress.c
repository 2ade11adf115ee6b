/* The network boundary of a box: its sockets, which PID 1 keeps, and who holds a connection. */
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "extensions/local.h"
#include "ipc/listeners.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not follow what lists own */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

/* Who holds a socket: asked, and not answered. */
struct question {
    struct link link;
    uint32_t tag;   /* PID 1's */
    uint64_t owner; /* the owner's */
    enum err_code why;
};

static bool is_up(const struct local_box *b)
{
    return b->state == BOX_UP && local_channel_is_open(b);
}

static int lost(enum err_code code, struct err *e)
{
    return code == ERR_BUSY ? err_set(e, ERR_BUSY, "%d questions wait already", LOCAL_WHO_MAX)
                            : err_set(e, ERR_CONFLICT, "the sandbox is not running");
}

static int failure(const struct control_failed *m, struct err *ret)
{
    enum err_code code =
        m->code > ERR_OK && m->code <= ERR_BUG ? (enum err_code)m->code : ERR_UPSTREAM;

    return err_set(ret, code, "%.199s", m->msg);
}

/* listeners */

void local_egress_listeners(struct ext_box *ext)
{
    struct local_box *b = local_box_of(ext);

    if (is_up(b)) {
        b->egress.listeners++;
        local_channel_post_ask(b, CONTROL_LISTENERS, TAG_LISTENERS);
    } else {
        b->egress.lost_listeners++;
        local_soon(b);
    }
}

void local_egress_on_listening(struct local_box *b, const struct control_listening *m,
                               struct ipc_fds *fds)
{
    struct listeners l;
    struct err e = { 0 };
    int r;

    if (m->head.tag != TAG_LISTENERS || !b->egress.listeners)
        return;
    b->egress.listeners--;
    r = listeners_take(fds, m->slots, &l, &e);
    b->ext.events->listeners(&b->ext, r, r < 0 ? &e : NULL, r < 0 ? NULL : &l);
    if (r >= 0)
        listeners_done(&l);
}

/* questions */

static struct question *find(struct local_box *b, uint32_t tag)
{
    struct list *asked = &b->egress.asked;

    for (struct link *m = list_first(asked); m; m = list_after(asked, m))
        if (container_of(m, struct question, link)->tag == tag)
            return container_of(m, struct question, link);
    return NULL;
}

/* Tags come round again, long after what had them was answered: few wait at the same time. */
static uint32_t next_tag(struct egress *g)
{
    g->last = (g->last + 1) % TAG_WHO_COUNT;
    return (TAG_WHO_FIRST + g->last) << TAG_SLOT_BITS;
}

static void ask(struct local_box *b, struct question *q, uint64_t inode)
{
    struct control_who m = { .inode = inode };

    q->tag = next_tag(&b->egress);
    list_append(&b->egress.asked, &q->link);
    b->egress.n_asked++;
    control_fill(&m.head, CONTROL_WHO, q->tag, sizeof m);
    local_channel_post(b, &m, sizeof m);
}

void local_egress_who(struct ext_box *ext, uint64_t tag, uint64_t inode)
{
    struct local_box *b = local_box_of(ext);
    struct question *q = malloc(sizeof *q);

    if (!q)
        abort();
    *q = (struct question){ .owner = tag };
    if (is_up(b) && b->egress.n_asked < LOCAL_WHO_MAX) {
        ask(b, q, inode);
        return;
    }
    q->why = is_up(b) ? ERR_BUSY : ERR_CONFLICT;
    list_append(&b->egress.lost, &q->link);
    local_soon(b);
}

/* The owner's tag of a question that is answered now. */
static uint64_t finish(struct local_box *b, struct question *q)
{
    uint64_t owner = q->owner;

    link_leave(&q->link);
    b->egress.n_asked--;
    free(q);
    return owner;
}

struct answer {
    struct ext_exe exes[CONTROL_EXES_MAX];
    struct ext_holder holders[CONTROL_HOLDERS_MAX];
};

static void read_exes(const struct control_who_is *m, const struct ipc_fds *fds, struct answer *ret)
{
    size_t at = 0;

    for (uint32_t i = 0; i < m->n_exes; i++) {
        struct control_exe x;
        const char *path = control_exe_at(m, i, &x);

        ret->exes[i] = (struct ext_exe){ .path = path[0] ? path : NULL,
                                         .dev = x.dev,
                                         .ino = x.ino,
                                         .fd = x.flags & CONTROL_EXE_FD ? fds->fd[at++] : -1 };
    }
}

static void read_holders(const struct control_who_is *m, struct answer *ret)
{
    _Static_assert((int)EXT_ANCESTORS_MAX == (int)CONTROL_ANCESTORS_MAX, "PID 1's are all told");
    for (uint32_t i = 0; i < m->n_holders; i++) {
        struct control_holder h;

        control_holder_at(m, i, &h);
        ret->holders[i] = (struct ext_holder){ .pid = h.pid,
                                               .uid = h.uid,
                                               .exe = &ret->exes[h.exe],
                                               .n_ancestors = h.n_ancestors,
                                               .cut = h.flags & CONTROL_HOLDER_CUT };
        for (uint32_t k = 0; k < h.n_ancestors; k++)
            ret->holders[i].ancestors[k] = &ret->exes[h.ancestors[k]];
    }
}

void local_egress_on_who_is(struct local_box *b, const struct control_who_is *m,
                            const struct ipc_fds *fds)
{
    struct question *q = find(b, m->head.tag);
    struct answer a;
    struct ext_who w = {
        .holders = a.holders, .n = m->n_holders, .exes = a.exes, .n_exes = m->n_exes
    };

    if (!q)
        return;
    read_exes(m, fds, &a);
    read_holders(m, &a);
    b->ext.events->who(&b->ext, finish(b, q), 0, NULL, &w);
}

/* what does not come */

bool local_egress_on_failed(struct local_box *b, const struct control_failed *m)
{
    struct question *q = find(b, m->head.tag);
    struct err e;
    int r = failure(m, &e);

    if (q) {
        b->ext.events->who(&b->ext, finish(b, q), r, &e, NULL);
        return true;
    }
    if (m->head.tag == TAG_LISTENERS && b->egress.listeners) {
        b->egress.listeners--;
        b->ext.events->listeners(&b->ext, r, &e, NULL);
    }
    return m->head.tag == TAG_LISTENERS;
}

void local_egress_lose_all(struct local_box *b)
{
    struct egress *g = &b->egress;

    g->lost_listeners += g->listeners;
    g->listeners = 0;
    for (struct link *m; (m = list_take(&g->asked));) {
        container_of(m, struct question, link)->why = ERR_CONFLICT;
        list_append(&g->lost, m);
    }
    g->n_asked = 0;
}

void local_egress_tell_lost(struct local_box *b)
{
    struct link *m;
    struct err e;
    int r;

    while (!b->freed && b->egress.lost_listeners) {
        b->egress.lost_listeners--;
        r = lost(ERR_CONFLICT, &e);
        b->ext.events->listeners(&b->ext, r, &e, NULL);
    }
    while (!b->freed && (m = list_take(&b->egress.lost))) {
        struct question *q = container_of(m, struct question, link);
        uint64_t owner = q->owner;

        r = lost(q->why, &e);
        free(q);
        b->ext.events->who(&b->ext, owner, r, &e, NULL);
    }
}

void local_egress_done(struct local_box *b)
{
    struct list *const lists[] = { &b->egress.asked, &b->egress.lost };

    for (size_t i = 0; i < COUNT_OF(lists); i++)
        for (struct link *m; (m = list_take(lists[i]));)
            free(container_of(m, struct question, link));
    b->egress = (struct egress){ 0 };
}
