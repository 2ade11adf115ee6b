/* The network of a session: what PID 1 and the egress worker have to tell each other. */
#include "cli/session_inside.h"

#include "base/own.h"

#include "cli/verb.h"

void session_serve_network(struct run *r, const struct control_listening *m, struct ipc_fds *fds)
{
    struct err e;

    if (network_serve(r->s->network, r->s->plan.id, fds, m->slots, &e) < 0)
        session_fail(r, EXIT_OURS, e.msg);
}

void session_hear_who_is(struct run *r, uint32_t tag, const struct control_who_is *m)
{
    if (r->s->network)
        network_answer(r->s->network, tag & ~WHO_TAG, m);
}

static void ask_who(struct run *r, struct network *n, const struct wire_who *who)
{
    int question = network_ask(n, who->head.tag);

    if (question < 0)
        return;
    if (r->s->control < 0 ||
        r->s->boundary->ask_who(r->s->control, (uint32_t)question | WHO_TAG, who->inode, NULL) < 0)
        network_answer(n, (uint32_t)question, NULL);
}

static void start_program(struct run *r)
{
    struct err e;

    if (r->s->control >= 0 && r->s->boundary->start(r->s->control, TAG, r->start, &e) < 0)
        session_fail(r, EXIT_OURS, e.msg);
}

static void network_died(struct run *r, const char *how)
{
    struct network *n = r->s->network;
    bool was_down = n->down_ns;

    if (r->ended) {
        drop_fd(&n->sock);
        return;
    }
    if (!n->served) {
        r->said |= network_said_why(n);
        session_fail(r, EXIT_OURS, how);
        return;
    }
    network_lost(n);
    if (n->over)
        say("note: %s, and so did those before it; there is no network any more", how);
    else if (!was_down)
        say("note: %s; its connections end, and another one is started", how);
}

void session_tick_network(struct run *r)
{
    struct network *n = r->s->network;
    unsigned before = n->deaths;

    if (network_tick(n))
        network_died(r, "the egress worker hangs");
    else if (n->over && n->deaths > before)
        say("note: no egress worker can be started; there is no network any more");
}

void session_hear_network(struct run *r, struct network *n)
{
    enum network_news news;
    struct wire_who who;
    struct err e;

    if (network_hear(n, &news, &who, &e) < 0)
        session_fail(r, EXIT_OURS, e.msg);
    else if (news == NETWORK_READY)
        start_program(r);
    else if (news == NETWORK_WHO)
        ask_who(r, n, &who);
    else if (news == NETWORK_GONE)
        network_died(r, "the egress worker died");
}
