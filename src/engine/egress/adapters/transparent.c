/* A connection that the boundary captured: to a synthetic address of policy DNS, which stands for a
 * name, or to a real one. */
#include <stdlib.h>

#include "base/own.h"
#include "egress/adapters/adapters.h"
#include "egress/audit.h"
#include "egress/mapping.h"
#include "egress/refuse.h"
#include "egress/relays/relays.h"

struct captive {
    struct egress_open open;
    struct egress_box *box;
    int fd;
    struct authorization authorization;
    struct loop_later later;
};

static void captive_free(struct loop_later *l)
{
    free(container_of(l, struct captive, later));
}

static void captive_end(struct captive *c)
{
    int fd = take_fd(&c->fd);

    egress_open_leave(c->box, &c->open);
    authorize_cancel(&c->authorization);
    if (fd >= 0)
        refuse_reset(fd);
    loop_later(c->box->egress->loop, &c->later, captive_free, NULL);
}

static void on_close(struct egress_open *o, const char *how)
{
    (void)how;
    captive_end(container_of(o, struct captive, open));
}

/* The decision itself notices. */
static void on_reconsider(struct egress_open *o)
{
    (void)o;
}

static void on_decided(struct authorization *z)
{
    struct captive *c = container_of(z, struct captive, authorization);

    if (z->lease->decision.verdict != EGRESS_DENIED)
        relay_begin(&(struct relay_start){
            .box = c->box, .client = take_fd(&c->fd), .lease = take_ptr(z->lease) });
    captive_end(c);
}

static bool has_port(const struct egress_ports *p, uint16_t port)
{
    for (size_t i = 0; !p->any && i < p->n; i++)
        if (p->p[i] == port)
            return true;
    return p->any;
}

/* Whether the name's addresses and ports are still those that were checked. The name itself is the
 * address's for ever: programs keep answers for longer than they are good. */
static bool is_fresh(const struct egress_box *b, const struct mapped *m)
{
    return m->generation == b->generation && m->expires > clock_mono();
}

/* NULL if the mapping holds for this connection, or why not. A stale one says the name alone, which
 * is resolved and decided as if it had been asked for. */
static const char *find_flaw(const struct egress_box *b, const struct mapped *m, uint16_t port)
{
    if (!m)
        return "The address was never handed out.";
    if (!is_fresh(b, m))
        return NULL;
    if (!has_port(&m->ports, port))
        return "The name may not be reached on this port.";
    return NULL;
}

static bool same_port_door(const struct address *to, uint16_t port)
{
    return port == LISTENERS_CAPTURE_PORT && address_classify(to) == ADDRESS_LOOPBACK;
}

static void deny(struct egress_box *b, int fd, const struct egress_intent *i, const char *text)
{
    struct egress_decision d = { .id = ++b->egress->decisions,
                                 .generation = b->generation,
                                 .status = 403 };

    refuse_reason(&d.why, "mapping_denied", "Resolve the name with the sandbox's resolver.", "%s",
                  text);
    b->counters.denied++;
    audit_deny(b->audit, i, &d);
    refuse_reset(fd);
}

static void aim_at_address(struct egress_intent *i, const struct address *to)
{
    i->host.is_address = true;
    i->host.address = *to;
    address_text(to, i->host.name);
}

static void aim_at_name(struct egress_intent *i, const struct mapped *m, bool fresh)
{
    i->host = (struct host){ 0 };
    memcpy(i->host.name, m->name, sizeof i->host.name);
    if (!fresh)
        return;
    memcpy(i->pinned, m->pinned, sizeof i->pinned);
    i->n_pinned = m->n_pinned;
}

static void start(struct egress_box *b, int fd, const struct egress_intent *i)
{
    struct captive *c = calloc(1, sizeof *c);

    if (!c)
        abort();
    c->open = (struct egress_open){ .reconsider = on_reconsider, .close = on_close };
    c->box = b;
    c->fd = fd;
    egress_open_join(b, &c->open);
    authorize_start(&c->authorization, b, i, on_decided);
}

void transparent_accept(struct egress_box *b, int fd, const struct address *client,
                        uint16_t client_port, const struct address *to, uint16_t port)
{
    struct egress_intent i = { .adapter = EGRESS_BY_TRANSPARENT,
                               .port = port,
                               .client = *client,
                               .client_port = client_port,
                               .dialled = *to };
    const struct mapped *m;
    const char *why;

    aim_at_address(&i, to);
    if (same_port_door(to, port)) {
        deny(b, fd, &i, "The connection came straight to the capturing port.");
        return;
    }
    if (!mapping_is_synthetic(to)) {
        start(b, fd, &i);
        return;
    }
    m = mapping_find(b->mapping, to);
    why = find_flaw(b, m, port);
    if (m)
        aim_at_name(&i, m, is_fresh(b, m));
    if (why)
        deny(b, fd, &i, why);
    else
        start(b, fd, &i);
}
