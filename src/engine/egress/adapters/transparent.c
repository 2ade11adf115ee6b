/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter of connections that the boundary captured. The program dialled a synthetic address of
 * policy DNS, which is mapped to a name, or a real address. */
#include "base/own.h"
#include "engine/egress/adapters/adapters.h"
#include "engine/egress/audit.h"
#include "engine/egress/fake_addresses.h"
#include "engine/egress/refuse.h"
#include "engine/egress/relays/relays.h"

struct captured_connection {
    struct egress_client client;
    struct authorization authorization;
};

static void captured_connection_end(struct captured_connection *c)
{
    authorize_cancel(&c->authorization);
    if (c->client.fd >= 0)
        refuse_reset(take_fd(&c->client.fd));
    egress_client_end(&c->client);
}

static void on_captured_close(struct egress_open *o, const char *how)
{
    captured_connection_end(container_of(o, struct captured_connection, client.open));
}

static void on_captured_decided(struct authorization *z)
{
    struct captured_connection *c = container_of(z, struct captured_connection, authorization);

    if (z->lease->decision.verdict != EGRESS_DENIED)
        relay_begin(&(struct relay_start){
            .box = c->client.box, .client = take_fd(&c->client.fd), .lease = take_ptr(z->lease) });
    captured_connection_end(c);
}

/* Whether the mapping's addresses and ports were checked by the current policy and have not
 * expired. The name belongs to the address for ever, because programs cache answers beyond their
 * TTL. */
static bool is_mapping_current(const struct egress_box *b, const struct fake_mapping *m)
{
    return m->generation == b->generation && m->expires > clock_mono();
}

/* Returns NULL if the mapping allows this connection, or the reason for the denial. A stale mapping
 * only provides the name, which is then resolved and decided anew. */
static const char *find_mapping_flaw(const struct egress_box *b, const struct fake_mapping *m,
                                     uint16_t port)
{
    if (!m)
        return "The sandbox's resolver did not assign this address.";
    if (!is_mapping_current(b, m) || m->ports.any)
        return NULL;
    for (size_t i = 0; i < m->ports.n; i++)
        if (m->ports.p[i] == port)
            return NULL;
    return "The policy does not allow this port for the name.";
}

static void deny_captured(struct egress_box *b, int fd, const struct egress_intent *i,
                          const char *text)
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

static void authorize_captured(struct egress_box *b, int fd, const struct egress_intent *i)
{
    struct captured_connection *c = new0(sizeof *c);

    egress_client_join(&c->client, b, fd, on_captured_close);
    authorize_start(&c->authorization, b, i, on_captured_decided);
}

void transparent_accept(struct egress_box *b, int fd, const struct address *client,
                        uint16_t client_port, const struct address *to, uint16_t port)
{
    struct egress_intent i = { .adapter = EGRESS_BY_TRANSPARENT,
                               .port = port,
                               .client = *client,
                               .client_port = client_port,
                               .dialled = *to,
                               .host = { .is_address = true, .address = *to } };
    const struct fake_mapping *m;
    const char *why;

    address_text(to, i.host.name);
    if (port == LISTENERS_CAPTURE_PORT && address_classify(to) == ADDRESS_LOOPBACK) {
        deny_captured(b, fd, &i, "The program connected to the capture port itself.");
        return;
    }
    if (!fake_addresses_is_synthetic(to)) {
        authorize_captured(b, fd, &i);
        return;
    }
    m = fake_addresses_find(b->mapping, to);
    why = find_mapping_flaw(b, m, port);
    if (m) {
        i.host = (struct host){ 0 };
        memcpy(i.host.name, m->name, sizeof i.host.name);
    }
    if (m && is_mapping_current(b, m)) {
        memcpy(i.pinned, m->pinned, sizeof i.pinned);
        i.n_pinned = m->n_pinned;
    }
    if (why)
        deny_captured(b, fd, &i, why);
    else
        authorize_captured(b, fd, &i);
}
