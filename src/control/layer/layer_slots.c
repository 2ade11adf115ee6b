/* SPDX-License-Identifier: Apache-2.0 */
#include "control/layer/layer_slots.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/own.h"
#include "control/owner/caller.h"
#include "control/plane/plane.h"
#include "lib/ipc/channel.h"

enum { SHARE_PART = 4 }; /* of all slots, for one owner */

static const struct {
    uint64_t total;
    const char *what, *waiting;
} pools[LAYER_POOL_COUNT_] = {
    [LAYER_POOL_JOBS] = { LAYER_JOBS_MAX, "jobs on layers", "jobs on layers that wait" },
    [LAYER_POOL_DIGESTS] = { LAYER_DIGESTS_MAX, "digests of layers",
                             "digests of layers that wait" },
};

void layer_slots_open(struct control *c)
{
    for (size_t i = 0; i < LAYER_POOL_COUNT_; i++) {
        struct turns *t = &c->layer_slots->pools[i];
        uint64_t total = pools[i].total, share = total / SHARE_PART;
        struct quota_limits running = quota_token_limits(share),
                            waiting = quota_token_limits(share * LAYER_WAITS_FACTOR);

        running.total = total;
        running.reserve = total / QUOTA_RESERVE_PART;
        if (!running.reserve)
            running.reserve = 1;
        turns_init(t, c->loop);
        quota_init(&t->running, &running, pools[i].what, "", "a fixed limit");
        quota_init(&t->waiting, &waiting, pools[i].waiting, "", "a fixed limit");
    }
}

struct layer_charge layer_charge_caller(const struct control *c, const struct caller *who)
{
    return (struct layer_charge){ .account = account_of(c, who->owner, who->family) };
}

static int keep_message(struct layer_slot *s, const struct layers_job *message, const int *fds,
                        size_t n, struct err *e)
{
    s->message = new0(sizeof *s->message);
    *s->message = *message;
    for (; s->n_fds < n; s->n_fds++) {
        s->fds[s->n_fds] = fcntl(fds[s->n_fds], F_DUPFD_CLOEXEC, 3);
        if (s->fds[s->n_fds] < 0)
            return err_sys(e, "keeping the files of a job on layers");
    }
    return 0;
}

int layer_slot_new(struct control *c, const struct layer_charge *charge, turn_fn *start,
                   const struct layers_job *message, const int *fds, size_t n,
                   struct layer_slot **ret, struct err *e)
{
    const struct quota_who who = account_holder(&charge->account);
    struct layer_slot *s = new0(sizeof *s);
    int r;

    *s = (struct layer_slot){ .control = c,
                              .pool = &c->layer_slots->pools[charge->pool],
                              .sock = -1 };
    list_append(&c->layer_slots->all, &s->link);
    r = turns_join(s->pool, &s->turn, &who, charge->must, start, e);
    if (r >= 0)
        r = keep_message(s, message, fds, n, e);
    if (r < 0)
        layer_slot_free(s);
    else
        *ret = s;
    return r;
}

void layer_slot_drop_message(struct layer_slot *s)
{
    while (s->n_fds)
        drop_fd(&s->fds[--s->n_fds]);
    free(take_ptr(s->message));
}

void layer_slot_free(struct layer_slot *s)
{
    if (!s)
        return;
    loop_fd_stop(&s->source);
    drop_fd(&s->sock);
    link_leave(&s->link);
    layer_slot_drop_message(s);
    turns_leave(s->pool, &s->turn);
    free(s);
}

/* Discards the messages of a worker whose job was cancelled. */
static void on_lingering_message(struct loop_fd *f, unsigned events)
{
    struct layer_slot *s = container_of(f, struct layer_slot, source);
    struct layers_said said;
    ssize_t n;

    do
        n = ipc_recv(s->sock, &said, sizeof said, NULL, NULL);
    while (n > 0);
    if (n != -(ssize_t)ERR_BUSY)
        layer_slot_free(s);
}

void layer_slot_linger(struct layer_slot *s, int sock)
{
    struct err e;

    s->sock = sock;
    if (shutdown(sock, SHUT_WR) < 0 ||
        loop_fd_start(s->control->loop, &s->source, sock, LOOP_READ, on_lingering_message, &e) < 0)
        layer_slot_free(s);
}

void layer_slots_close(struct control *c)
{
    for (struct link *m; (m = list_first(&c->layer_slots->all));)
        layer_slot_free(container_of(m, struct layer_slot, link));
    for (size_t i = 0; i < LAYER_POOL_COUNT_; i++)
        turns_done(&c->layer_slots->pools[i]);
}
