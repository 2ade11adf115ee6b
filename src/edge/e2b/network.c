/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/e2b/internal.h"

#include "base/own.h"
#include "edge/core/bind_known.h"
#include "control/control.h"
#include "domain/policy/egress_file.h"

#define AT(member) JSON_AT(struct e2b_network, member)

const struct json_field e2b_network_fields[E2B_NETWORK_FIELD_COUNT] = {
    { "allowOut", JSON_KIND_STRS, AT(egress.allow), .max = REQUEST_ALLOW_MAX },
    { "denyOut", JSON_KIND_STRS, AT(egress.deny), .max = REQUEST_ALLOW_MAX },
    { "allow_internet_access", JSON_KIND_BOOL, AT(egress.internet),
      .seen = offsetof(struct e2b_network, egress.internet_given) },
    { "rules", JSON_KIND_ANY, AT(rules) },
    { "egressProxy", JSON_KIND_ANY, AT(proxy) },
    { "maskRequestHost", JSON_KIND_ANY, AT(mask) },
    { "httpsPorts", JSON_KIND_ANY, AT(https_ports) },
    { "allowPublicTraffic", JSON_KIND_BOOL, AT(public_traffic) },
};

int e2b_network_check(const struct e2b_network *n, struct err *e)
{
    const char *why =
        bind_given(n->rules)   ? "network.rules: rewriting requests is not supported"
        : bind_given(n->proxy) ? "network.egressProxy: other proxies are not supported"
        : bind_given(n->mask)  ? "network.maskRequestHost: not supported"
        : bind_given(n->https_ports)
            ? "network.httpsPorts: not supported; servers in sandboxes must use plain HTTP"
        : n->public_traffic
            ? "network.allowPublicTraffic: not supported; ports require the sandbox's token, "
              "because public ports would bypass the egress policy"
            : NULL;

    return why ? err_set(e, ERR_UNSUPPORTED, "%s", why) : 0;
}

static void write_str_items(struct json_writer *w, struct json_strs list)
{
    for (size_t i = 0; i < list.n; i++)
        json_put_str(w, str_from(list.p[i]));
}

/* --- the policy in force --- */

/* Writes our "**.example.com" as the clients' "*.example.com". */
static void write_allowed_hosts(struct json_writer *w, const struct egress_policy *p)
{
    const struct egress_entry *entries = p->network_policies.p;

    json_field_begin_array(w, "allowOut");
    for (size_t i = 0; i < p->network_policies.n; i++) {
        const struct egress_endpoint *endpoints = entries[i].endpoints.p;

        for (size_t k = 0; k < entries[i].endpoints.n; k++) {
            const char *host = endpoints[k].host;

            if (host)
                json_put_str(w, str_from(strncmp(host, "**.", 3) == 0 ? host + 1 : host));
        }
    }
    write_str_items(w, p->unlisted.allowed_ips);
    json_end_array(w);
}

void e2b_network_write(struct json_writer *w, const struct sandbox *s)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    const struct egress_policy p = egress_settings_policy(s, &a);

    json_field_bool(w, "allowInternetAccess", egress_settings_allows_any(&p));
    json_field_begin_object(w, "network");
    write_allowed_hosts(w, &p);
    json_field_begin_array(w, "denyOut");
    write_str_items(w, egress_settings_allows_any(&p) ? p.unlisted.denied_ips
                                                      : egress_settings_everything);
    json_end_array(w);
    json_field_bool(w, "allowPublicTraffic", false);
    json_end_object(w);
}
