/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/egress_settings.h"

#include <stdio.h>

#include "base/own.h"
#include "control/control.h"
#include "control/egress/policy_text.h"
#include "edge/core/guard.h"
#include "edge/core/internal.h"
#include "lib/json/writer.h"

static const char *const everything[] = { "0.0.0.0/0", "::/0" };
const struct json_strs egress_settings_everything = { everything, COUNT_OF(everything) };

static bool is_closed(const struct egress_settings *n)
{
    return n->internet_given && !n->internet;
}

static struct json_strs denied_hosts(const struct egress_settings *n)
{
    return is_closed(n) ? egress_settings_everything : n->deny;
}

/* Rejects deny lists on profiles with egress rules of their own: the lists of a request are added
 * to the profile's rules and cannot restrict them. */
static int check_profile(const struct egress_settings *n, const struct catalog *all,
                         const char *name, struct err *e)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    int r = n->deny.n || is_closed(n) ? catalog_find(all, str_from(name), &p, e) : 0;

    if (r >= 0 && p && p->network.egress.n)
        return err_set(e, ERR_UNSUPPORTED,
                       "network: %s allows hosts of its own, which a create cannot deny; update "
                       "the network after the sandbox is created",
                       p->id);
    return r;
}

int egress_settings_fill(const struct egress_settings *n, const struct catalog *all,
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
    q->egress.deny_out = denied_hosts(n);
    return check_profile(n, all, q->profile, e);
}

static void write_host_list(struct json_writer *w, const char *key, struct json_strs hosts)
{
    json_field_begin_array(w, key);
    for (size_t i = 0; i < hosts.n; i++)
        json_put_str(w, str_from(hosts.p[i]));
    json_end_array(w);
}

static int make_policy_from_lists(const struct egress_settings *n, const struct policy_bounds *b,
                                  struct policy_text **ret, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(REQUEST_JSON_MAX);
    struct json_writer w;
    int r;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    write_host_list(&w, "allow_out", n->allow);
    write_host_list(&w, "deny_out", denied_hosts(n));
    json_end_object(&w);
    r = json_writer_finish(&w, e);
    return r < 0 ? r : policy_text_read(buf_str(&text), b, ret, e);
}

static int make_new_policy(struct call *c, const struct egress_settings *n,
                           struct policy_text **ret, struct err *e)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    const struct sandbox_record *record = sandbox_view(c->sandbox).record;
    const struct create_request nothing = { 0 };
    char name[RECORD_NAME_MAX + 24];
    struct policy_bounds b;
    int r = sandbox_ceiling(c->sandbox, &c->caller, &c->arena, &b, e);

    if (r < 0)
        return r;
    if (is_closed(n) || n->allow.n || n->deny.n)
        return make_policy_from_lists(n, &b, ret, e);
    snprintf(name, sizeof name, "%s@%lld", record->profile, (long long)record->profile_version);
    r = catalog_find(control_catalog(c->api->control), str_from(name), &p, e);
    return r < 0 ? r : policy_text_make(p, &nothing, &b, ret, e);
}

void egress_settings_set(struct call *c, const struct egress_settings *n,
                         void (*done)(void *call, int r, const struct err *e))
{
    AUTO(policy_text_unrefp_) struct policy_text *t = NULL;
    struct sandbox_egress x;
    struct err e;

    if (!sandbox_egress(c->sandbox, &x))
        call_fail_with(c, 409, "conflict",
                       "this sandbox was created without a network, which cannot be added later");
    else if (make_new_policy(c, n, &t, &e) < 0)
        call_fail(c, &e);
    else
        guard_set_network(c, take_ptr(t), done);
}

/* --- the policy in force --- */

bool egress_settings_allows_any(const struct egress_policy *p)
{
    return p->network_policies.n || p->unlisted.access == EGRESS_UNLISTED_PUBLIC ||
           p->unlisted.allowed_ips.n;
}

struct egress_policy egress_settings_policy(const struct sandbox *s, struct arena *a)
{
    struct egress_policy p = { 0 };
    struct sandbox_egress x;

    if (sandbox_egress(s, &x))
        (void)egress_policy_from_json(sandbox_policy(s), a, &p, NULL);
    return p;
}

bool egress_settings_open(const struct sandbox *s)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    const struct egress_policy p = egress_settings_policy(s, &a);

    return egress_settings_allows_any(&p);
}
