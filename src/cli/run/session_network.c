/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a session: passes messages between PID 1 and the egress worker. */
#include "cli/run/session_internal.h"

#include "base/own.h"

#include "cli/verb.h"

void session_serve_network(struct session_run *r, const struct control_listening *m,
                           struct ipc_fds *fds)
{
    struct err e;

    if (network_serve(r->s->network, r->s->plan.id, fds, m->slots, &e) < 0)
        session_fail(r, EXIT_TOOL_FAILED, e.msg);
}

void session_receive_who_is(struct session_run *r, uint32_t tag, const struct control_who_is *m)
{
    if (r->s->network)
        network_answer(r->s->network, tag & ~WHO_TAG, m);
}

static void request_socket_owner(struct session_run *r, struct network *n,
                                 const struct wire_who *who)
{
    int question = network_add_question(n, who->head.tag);

    if (question < 0)
        return;
    if (r->s->control < 0 || supervisor_query_socket_owner(
                                 r->s->control, (uint32_t)question | WHO_TAG, who->inode, NULL) < 0)
        network_answer(n, (uint32_t)question, NULL);
}

static void network_died(struct session_run *r, const char *how)
{
    struct network *n = r->s->network;
    bool was_down = n->down_ns;

    if (r->ended) {
        drop_fd(&n->sock);
        return;
    }
    if (!n->served) {
        r->said |= network_worker_failed(n);
        session_fail(r, EXIT_TOOL_FAILED, how);
        return;
    }
    network_lost(n);
    if (n->over)
        cli_report("note: %s, like the workers before it; the network stays down", how);
    else if (!was_down)
        cli_report("note: %s; its connections end, and another one is started", how);
}

void session_tick_network(struct session_run *r)
{
    struct network *n = r->s->network;
    unsigned before = n->deaths;

    if (network_tick(n))
        network_died(r, "the egress worker hangs");
    else if (n->over && n->deaths > before)
        cli_report("note: no egress worker can be started; the network stays down");
}

void session_receive_network(struct session_run *r, struct network *n)
{
    enum network_news news;
    struct wire_who who;
    struct err e;

    if (network_receive(n, &news, &who, &e) < 0 ||
        (news == NETWORK_READY && r->s->control >= 0 &&
         supervisor_start(r->s->control, TAG, r->start, &e) < 0))
        session_fail(r, EXIT_TOOL_FAILED, e.msg);
    else if (news == NETWORK_WHO)
        request_socket_owner(r, n, &who);
    else if (news == NETWORK_GONE)
        network_died(r, "the egress worker died");
}
