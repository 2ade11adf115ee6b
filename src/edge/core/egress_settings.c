#include "api/e2b/network.h"

#include <stdio.h>

#include "api/e2b/write.h"
#include "base/own.h"
#include "control/control.h"
#include "control/policy_text.h"
#include "policy/egress_file.h"

static const char *const everything[] = { "0.0.0.0/0", "::/0" };
#define EVERYTHING ((struct json_strs){ everything, COUNT_OF(everything) })

#define AT(member) JSON_AT(struct e2b_network, member)

const struct json_field e2b_network_fields[E2B_NETWORK_FIELD_COUNT] = {
    { "allowOut", JSON_KIND_STRS, AT(allow), .max = REQUEST_ALLOW_MAX },
    { "denyOut", JSON_KIND_STRS, AT(deny), .max = REQUEST_ALLOW_MAX },
    { "allow_internet_access", JSON_KIND_BOOL, AT(internet),
      .seen = offsetof(struct e2b_network, internet_given) },
    { "rules", JSON_KIND_ANY, AT(rules) },
    { "egressProxy", JSON_KIND_ANY, AT(proxy) },
    { "maskRequestHost", JSON_KIND_ANY, AT(mask) },
    { "httpsPorts", JSON_KIND_ANY, AT(https_ports) },
    { "allowPublicTraffic", JSON_KIND_BOOL, AT(public_traffic) },
};

static bool is_said(const struct json *v)
{
    return v && v->type != JSON_NULL && !(v->type >= JSON_ARRAY && !v->list.n);
}

int e2b_network_check(const struct e2b_network *n, struct err *e)
{
    if (is_said(n->rules))
        return err_set(e, ERR_UNSUPPORTED, "network.rules: requests are not rewritten here");
    if (is_said(n->proxy))
        return err_set(e, ERR_UNSUPPORTED, "network.egressProxy: there are no other proxies here");
    if (is_said(n->mask))
        return err_set(e, ERR_UNSUPPORTED, "network.maskRequestHost: nothing is served outside");
    if (is_said(n->https_ports))
        return err_set(e, ERR_UNSUPPORTED,
                       "network.httpsPorts: servers inside are talked to in plain HTTP");
    if (n->public_traffic)
        return err_set(
            e, ERR_UNSUPPORTED,
            "network.allowPublicTraffic: a port is for who has the sandbox's token, since "
            "what anybody may fetch is a way out that no policy knows of");
    return 0;
}

static bool is_closed(const struct e2b_network *n)
{
    return n->internet_given && !n->internet;
}

static struct json_strs denied(const struct e2b_network *n)
{
    return is_closed(n) ? EVERYTHING : n->deny;
}

/* Lists in a request come beside what the profile lets out, and take nothing of it away. */
static int check_profile(const struct e2b_network *n, const struct catalog *all, const char *name,
                         struct err *e)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    int r = n->deny.n || is_closed(n) ? catalog_find(all, str_from(name), &p, e) : 0;

    if (r >= 0 && p && p->network.egress.n)
        return err_set(e, ERR_UNSUPPORTED,
                       "network: %s lets out hosts of its own, which a create cannot deny; set the "
                       "network of the sandbox when it is there",
                       p->id);
    return r;
}

int e2b_network_fill(const struct e2b_network *n, const struct catalog *all,
                     struct create_request *q, struct err *e)
{
    if (is_closed(n) && !n->allow.n) {
        create_request_network(q, false);
        return 0;
    }
    if (!n->allow.n && !n->deny.n)
        return 0;
    q->egress.given = true;
    q->egress.allow_out = n->allow;
    q->egress.deny_out = denied(n);
    return check_profile(n, all, q->profile, e);
}

static void put_items(struct json_writer *w, struct json_strs list)
{
    for (size_t i = 0; i < list.n; i++)
        json_put_str(w, str_from(list.p[i]));
}

static void put_list(struct json_writer *w, const char *key, struct json_strs list)
{
    json_key(w, str_from(key));
    json_begin_array(w);
    put_items(w, list);
    json_end_array(w);
}

static int text_of_lists(const struct e2b_network *n, const struct policy_bounds *b,
                         struct policy_text **ret, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(REQUEST_JSON_MAX);
    struct json_writer w;
    int r;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    put_list(&w, "allow_out", n->allow);
    put_list(&w, "deny_out", denied(n));
    json_end_object(&w);
    r = json_writer_finish(&w, e);
    return r < 0 ? r : policy_text_read(buf_str(&text), b, ret, e);
}

/* What it was made with, if nothing is said. */
int e2b_network_text(const struct e2b_network *n, const struct catalog *all,
                     const struct sandbox_record *r, const struct policy_bounds *b,
                     struct policy_text **ret, struct err *e)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    const struct create_request nothing = { 0 };
    char name[RECORD_NAME_MAX + 24];
    int found;

    if (is_closed(n) || n->allow.n || n->deny.n)
        return text_of_lists(n, b, ret, e);
    snprintf(name, sizeof name, "%s@%lld", r->profile, (long long)r->profile_version);
    found = catalog_find(all, str_from(name), &p, e);
    return found < 0 ? found : policy_text_make(p, &nothing, b, ret, e);
}

/* --- what holds --- */

/* "**.example.com" of ours is "*.example.com" to them. */
static void put_host(struct json_writer *w, const char *host)
{
    if (host)
        json_put_str(w, str_from(strncmp(host, "**.", 3) == 0 ? host + 1 : host));
}

static void put_allowed(struct json_writer *w, const struct egress_policy *p)
{
    const struct egress_entry *entries = p->network_policies.p;

    json_key(w, STR("allowOut"));
    json_begin_array(w);
    for (size_t i = 0; i < p->network_policies.n; i++) {
        const struct egress_endpoint *endpoints = entries[i].endpoints.p;

        for (size_t k = 0; k < entries[i].endpoints.n; k++)
            put_host(w, endpoints[k].host);
    }
    put_items(w, p->unlisted.allowed_ips);
    json_end_array(w);
}

static bool lets_out(const struct egress_policy *p)
{
    return p->network_policies.n || p->unlisted.access == EGRESS_UNLISTED_PUBLIC ||
           p->unlisted.allowed_ips.n;
}

/* One without a network is like one that lets nothing out. */
static struct egress_policy policy_of(const struct sandbox *s, struct arena *a)
{
    struct egress_policy p = { 0 };
    struct sandbox_egress x;

    if (sandbox_egress(s, &x))
        (void)egress_policy_from_json(sandbox_policy(s), a, &p, NULL);
    return p;
}

bool e2b_network_open(const struct sandbox *s)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    const struct egress_policy p = policy_of(s, &a);

    return lets_out(&p);
}

void e2b_network_write(struct json_writer *w, const struct sandbox *s)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    const struct egress_policy p = policy_of(s, &a);

    put_flag(w, "allowInternetAccess", lets_out(&p));
    json_key(w, STR("network"));
    json_begin_object(w);
    put_allowed(w, &p);
    put_list(w, "denyOut", lets_out(&p) ? p.unlisted.denied_ips : EVERYTHING);
    put_flag(w, "allowPublicTraffic", false);
    json_end_object(w);
}
