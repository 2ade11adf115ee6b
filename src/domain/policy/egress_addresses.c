/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/compiled.h"

/* Why an address may not be dialled. Functions return NULL if it may. */
struct flaw {
    const char *code, *text, *next;
};

static const struct flaw metadata = {
    "metadata_denied", "is a metadata service",
    "No policy can allow it; ask the owner of the sandbox for credentials."
};
static const struct flaw not_public = { "ssrf_denied", "is not a public address",
                                        "To allow it, add this address to the allowed_ips of the "
                                        "endpoint, or use --allow HOST:PORT=ADDRESS." };
static const struct flaw outside = {
    "address_not_allowed", "is not one of the endpoint's allowed_ips",
    "Add the address to allowed_ips, or find out why the name has another address."
};
static const struct flaw another = { "address_not_allowed", "is not the requested address",
                                     "Connect to the address in the policy." };
static const struct flaw denied = { "address_not_allowed", "is in denied_ips",
                                    "Remove it from denied_ips, or add it to allowed_ips." };
static const struct flaw unlisted = { "policy_denied",
                                      "is not in allowed_ips, and no endpoint names "
                                      "the host",
                                      "Add an endpoint with this host to the policy." };

static bool is_in(const struct prefixes *list, const struct address *a)
{
    for (size_t i = 0; i < list->n; i++)
        if (prefix_has(&list->p[i], a))
            return true;
    return false;
}

static bool is_declared(const struct prefixes *list, const struct address *a)
{
    for (size_t i = 0; i < list->n; i++)
        if (prefix_is_single(&list->p[i]) && prefix_has(&list->p[i], a))
            return true;
    return false;
}

static bool is_public(const struct address *a)
{
    return address_classify(a) == ADDRESS_PUBLIC;
}

/* A range that includes public addresses restricts a name, but does not grant its other
 * addresses. */
static bool is_granted(const struct egress_endpoint_c *ep, const struct address *a)
{
    if (ep->is_address || !ep->host.n)
        return ep->is_address && is_declared(&ep->allowed, a);
    for (size_t i = 0; i < ep->allowed.n; i++)
        if (prefix_has(&ep->allowed.p[i], a) && prefix_lacks_public(&ep->allowed.p[i]))
            return true;
    return false;
}

bool egress_endpoint_at_known_(const struct egress_endpoint_c *ep)
{
    for (size_t i = 0; i < ep->allowed.n; i++)
        if (!prefix_is_single(&ep->allowed.p[i]) || is_public(&ep->allowed.p[i].base))
            return false;
    return ep->allowed.n > 0 && ep->host.n > 0;
}

size_t egress_match_addresses(const struct egress_match *m, struct address *ret, size_t max)
{
    const struct egress_endpoint_c *ep = m->endpoint;
    size_t n = 0;

    if (!ep || m->host_is_address_ || !egress_endpoint_at_known_(ep))
        return 0;
    for (; n < ep->allowed.n && n < max; n++)
        ret[n] = ep->allowed.p[n].base;
    return n;
}

bool egress_match_declares(const struct egress_match *m, const struct address *a)
{
    const struct egress_endpoint_c *ep = m->endpoint;

    if (!ep || ep->wild)
        return false;
    return (ep->is_address && address_equal(&ep->address, a)) || is_declared(&ep->allowed, a);
}

static const struct flaw *endpoint_flaw(const struct egress_match *m, const struct address *a)
{
    const struct egress_endpoint_c *ep = m->endpoint;

    if (ep->is_address && !address_equal(&ep->address, a))
        return &another;
    if (ep->allowed.n && !is_in(&ep->allowed, a))
        return &outside;
    if (is_public(a) || is_granted(ep, a))
        return NULL;
    return &not_public;
}

static const struct flaw *unlisted_flaw(const struct egress_match *m, const struct address *a)
{
    const struct egress_snapshot *s = m->snapshot_;
    bool in = is_in(&s->allowed, a);

    if ((m->host_is_address_ && is_declared(&s->allowed, a)) || (in && is_public(a)))
        return NULL;
    if (!is_public(a))
        return &not_public;
    if (s->unlisted != EGRESS_UNLISTED_PUBLIC)
        return &unlisted;
    return is_in(&s->denied, a) ? &denied : NULL;
}

static const struct flaw *address_flaw(const struct egress_match *m, const struct address *a)
{
    if (!address_grantable(a))
        return &metadata;
    if (m->host_is_address_ && !address_equal(&m->address_, a))
        return &another;
    return m->endpoint ? endpoint_flaw(m, a) : unlisted_flaw(m, a);
}

/* The ceiling of a name was already checked by egress_connect(). */
static bool is_within(const struct egress_match *m, const struct address *a)
{
    bool by_name = !m->host_is_address_ && m->endpoint && m->endpoint->host.n;

    return (by_name && is_public(a)) ||
           egress_ceiling_has_address(m->snapshot_->ceiling, a, m->port, false);
}

enum egress_verdict egress_addresses(const struct egress_match *m, const struct address *list,
                                     size_t n, struct egress_reason *why)
{
    struct str rule = m->endpoint ? m->endpoint->place : STR("unlisted");
    char text[ADDRESS_TEXT_MAX];

    if (n == 0 || !m->snapshot_ || port_control_plane(m->port)) {
        egress_reason_set_(why, n ? "control_plane_port" : "no_address", rule, "Check the name.",
                           n ? "Port %u is never allowed." : "The name has no address for port %u.",
                           (unsigned)m->port);
        return EGRESS_DENIED;
    }
    for (size_t i = 0; i < n; i++) {
        const struct flaw *flaw = address_flaw(m, &list[i]);
        char beyond[EGRESS_CEILING_TEXT];

        if (!flaw && is_within(m, &list[i]))
            continue;
        address_text(&list[i], text);
        if (!flaw) {
            egress_ceiling_why(m->snapshot_->ceiling, text, &list[i], m->port, false, beyond);
            egress_reason_set_(why, "ceiling_denied", rule, EGRESS_CEILING_NEXT, "%s.", beyond);
            return EGRESS_DENIED;
        }
        egress_reason_set_(why, flaw->code, rule, flaw->next, "%s %s (%s)%s.", text, flaw->text,
                           is_public(&list[i]) ? "public" : address_reason(&list[i]),
                           n > 1 ? ", and one denied address denies all" : "");
        return EGRESS_DENIED;
    }
    return EGRESS_ALLOWED;
}
