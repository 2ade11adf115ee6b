/* The network of a session: what PID 1 and the egress worker have to tell each other. */
#include "cli/session_inside.h"

#include "cli/verb.h"

void session_serve_network(struct run *r, const struct control_listening *m, struct ipc_fds *fds)
{
    struct err e;

    if (network_serve(r->s->network, r->s->plan.id, fds, m->slots, &e) < 0)
        session_fail(r, EXIT_OURS, e.msg);
}

void session_hear_who_is(struct run *r, uint32_t tag, const struct control_who_is *m)
{
    struct network *n = r->s->network;

    if (!n || !n->asked)
        return;
    n->asked--;
    network_answer(n, tag & ~WHO_TAG, m);
}

static void ask_who(struct run *r, struct network *n, const struct wire_who *who)
{
    if (r->s->control < 0 || !network_may_ask(n) ||
        r->s->boundary->ask_who(r->s->control, who->head.tag | WHO_TAG, who->inode, NULL) < 0) {
        network_answer(n, who->head.tag, NULL);
        return;
    }
    n->asked++;
}

static void start_program(struct run *r)
{
    struct err e;

    if (r->s->control >= 0 && r->s->boundary->start(r->s->control, TAG, r->start, &e) < 0)
        session_fail(r, EXIT_OURS, e.msg);
}

static void network_died(struct run *r)
{
    if (!r->proc && network_said_why(r->s->network))
        r->said = true;
    if (!r->proc)
        session_fail(r, EXIT_OURS, "the egress worker died");
    else if (!r->ended)
        say("note: the egress worker died; there is no network any more");
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
        network_died(r);
}
