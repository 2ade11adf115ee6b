/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/own.h"
#include "box_world.h"
#include "engine/egress/audit.h"
#include "engine/egress/own_addresses.h"
#include "harness/tap.h"

#define ANYBODY "    binaries: [{path: /**}]\n"
#define WEB                                                                                        \
    "  web:\n    endpoints: [{host: api.example.com, port: 443}, {host: '*.wild.example.com', "    \
    "port: 443}]\n" ANYBODY
#define LITERAL                                                                                    \
    "  literal:\n    endpoints: [{host: 93.184.216.35, port: 443}, {host: 10.1.2.3, port: 443, "   \
    "allowed_ips: [10.1.2.3]}]\n" ANYBODY
#define PROGRAMS                                                                                   \
    "  programs:\n    endpoints: [{host: tool.example.com, port: 443}]\n"                          \
    "    binaries: [{path: /usr/bin/curl}]\n"

static struct lease *decide(const char *authority)
{
    struct egress_intent i = world_intent(authority);

    return world_decide(&i);
}

/* The code of a denial, or "" . */
static void expect(const char *authority, const char *code, int status)
{
    struct lease *l = decide(authority);
    struct egress_decision d = l->decision;

    if (d.verdict != EGRESS_DENIED || strcmp(d.why.code, code) != 0 || d.status != status)
        FAIL("%s: verdict %d, %s, status %d: %s", authority, d.verdict, d.why.code, d.status,
             d.why.text);
    CHECK(d.why.text[0] && d.why.next[0]);
    lease_free(l);
}

TEST(an_allowed_name_is_resolved_once_and_its_addresses_are_kept)
{
    struct box_world *w = world_start(WEB);
    struct address want = world_address("93.184.216.34"), six = world_address("2606:2800::1");
    struct lease *l;

    w->names[0].name = "api.example.com";
    w->names[0].addresses[0] = "93.184.216.34";
    w->names[0].addresses[1] = "2606:2800::1";
    l = decide("api.example.com:443");
    CHECK_INT(l->decision.verdict, EGRESS_ALLOWED);
    CHECK_INT(l->decision.n, 2);
    CHECK(address_equal(&l->decision.addresses[0], &want) &&
          address_equal(&l->decision.addresses[1], &six));
    CHECK_INT(w->dns.asked, 2); /* A and AAAA */
    CHECK(egress_decision_current(&l->decision, w->box));
    CHECK(lease_open(l));
    CHECK_INT(w->box->counters.allowed, 1);
    CHECK(world_audited("\"Open\"") > 0); /* before anything is dialled */
    world_policy(WEB);
    CHECK(!egress_decision_current(&l->decision, w->box));
    lease_free(l);
    world_end();
}

TEST(a_denied_name_is_never_asked_for)
{
    struct box_world *w = world_start(WEB LITERAL);

    expect("secret.attacker.example:443", "policy_denied", 403);
    expect("wild.example.com:443", "policy_denied", 403);
    expect("metadata.google.internal:443", "metadata_denied", 403);
    expect("169.254.169.254:443", "metadata_denied", 403);
    expect("api.example.com:6443", "control_plane_port", 403);
    CHECK_INT(w->dns.asked, 0);
    CHECK(w->box->counters.denied == 5 && world_audited("secret.attacker.example") > 0);
    world_end();
}

TEST(without_a_policy_everything_is_denied)
{
    struct box_world *w = world_start(NULL);

    expect("api.example.com:443", "policy_missing", 403);
    CHECK_INT(w->dns.asked, 0);
    world_end();
}

TEST(a_policy_that_is_invalid_is_the_reason)
{
    struct box_world *w = world_start(NULL);
    struct egress_intent i = world_intent("api.example.com:443");
    struct lease *l;

    egress_box_note_flaw(w->box, "line 3: x: is unknown");
    l = world_decide(&i);
    CHECK_STR(str_from(l->decision.why.code), "policy_missing");
    CHECK(strstr(l->decision.why.text, "invalid, so nothing is allowed: line 3: x: is unknown"));
    lease_free(l);
    world_policy(WEB);
    world_policy(NULL); /* the flaw of the earlier policy is forgotten */
    l = world_decide(&i);
    CHECK(!strstr(l->decision.why.text, "invalid"));
    lease_free(l);
    world_end();
}

TEST(one_bad_address_refuses_all)
{
    static const char *const bad[] = { "127.0.0.1", "10.0.0.1",        "::1",      "fe80::1",
                                       "0.0.0.0",   "64:ff9b::7f00:1", "224.0.0.1" };
    struct box_world *w = world_start(WEB);

    w->names[0].name = "a.wild.example.com";
    w->names[0].addresses[0] = "93.184.216.34";
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        w->names[0].addresses[1] = bad[i];
        expect("a.wild.example.com:443", "ssrf_denied", 403);
    }
    world_end();
}

static void start_with_seventeen(const char *last)
{
    static char room[16][32];
    struct box_world *w = world_start(WEB);

    w->names[0].name = "api.example.com";
    for (int i = 0; i < 15; i++) {
        snprintf(room[i], sizeof room[i], "93.184.216.%d", i + 1);
        w->names[0].addresses[i] = room[i];
    }
    w->names[0].addresses[15] = "2606:2800::1";
    w->names[0].addresses[16] = last;
}

TEST(an_address_behind_the_sixteenth_is_checked_too)
{
    struct lease *l;

    start_with_seventeen("2606:2800::2");
    l = decide("api.example.com:443");
    CHECK_INT(l->decision.verdict, EGRESS_ALLOWED);
    CHECK_INT(l->decision.n, EGRESS_PINNED_MAX);
    lease_free(l);
    world_end();
    start_with_seventeen("fd00::1");
    expect("api.example.com:443", "ssrf_denied", 403);
    world_end();
}

/* All lookups of the sandbox share the budget, for every adapter; each is recorded before it is
 * sent. */
TEST(lookups_have_a_budget_and_a_record)
{
    enum { NAMES = 3 * EGRESS_LOOKUPS_BURST };
    struct box_world *w = world_start(WEB);
    unsigned left = 0, refused = 0;
    char authority[64];

    for (int i = 0; i < NAMES; i++) {
        struct egress_intent to;
        struct lease *l;

        snprintf(authority, sizeof authority, "n%d.wild.example.com:443", i);
        to = world_intent(authority);
        to.adapter = i % 2 ? EGRESS_BY_FORWARD : EGRESS_BY_CONNECT;
        l = world_decide(&to);
        CHECK_INT(l->decision.verdict, EGRESS_DENIED);
        if (strcmp(l->decision.why.code, "lookup_limit") == 0) {
            CHECK_INT(l->decision.status, 429);
            refused++;
        } else {
            CHECK_STR(str_from(l->decision.why.code), "resolution_failed");
            left++;
        }
        lease_free(l);
    }
    CHECK(left >= EGRESS_LOOKUPS_BURST && refused > 0);
    CHECK_INT(w->dns.asked, 2 * left);
    CHECK_INT(world_audited("\"looked_up\""), left);
    CHECK_INT(w->box->lookups_running, 0);
    world_end();
}

/* Nothing leaves for it, so it costs nothing. */
TEST(a_name_that_is_known_costs_no_lookup)
{
    struct box_world *w = world_start(WEB);

    w->ttl = 30;
    w->names[0].name = "api.example.com";
    w->names[0].addresses[0] = "93.184.216.34";
    for (int i = 0; i < 2 * EGRESS_LOOKUPS_BURST; i++) {
        struct lease *l = decide("api.example.com:443");

        CHECK_INT(l->decision.verdict, EGRESS_ALLOWED);
        lease_free(l);
    }
    CHECK_INT(w->dns.asked, 2);
    CHECK_INT(world_audited("\"looked_up\""), 1);
    world_end();
}

TEST(no_name_leaves_that_cannot_be_recorded)
{
    struct box_world *w = world_start(WEB);
    struct lease *l;

    audit_set_fd(w->box->audit, open("/dev/full", O_WRONLY | O_CLOEXEC));
    l = decide("api.example.com:443");
    CHECK_INT(l->decision.verdict, EGRESS_DENIED);
    CHECK_STR(str_from(l->decision.why.code), "audit_unavailable");
    CHECK_INT(w->dns.asked, 0);
    lease_free(l);
    world_end();
}

/* A cancelled lookup does not occupy a place. */
TEST(a_cancelled_lookup_is_on_record_and_runs_no_more)
{
    struct box_world *w = world_start(WEB);
    struct egress_intent i = world_intent("api.example.com:443");
    struct authorization a = { 0 };

    authorize_start(&a, w->box, &i, NULL);
    CHECK_INT(w->box->lookups_running, 1);
    authorize_cancel(&a);
    CHECK_INT(w->box->lookups_running, 0);
    CHECK_INT(world_audited("\"looked_up\""), 1);
    world_end();
}

TEST(an_endpoint_without_a_host_lets_no_name_leave)
{
    struct box_world *w = world_start("  web:\n    endpoints: [{port: 443, allowed_ips: "
                                      "[93.184.216.0/24]}]\n" ANYBODY);
    struct lease *l;

    expect("secret.attacker.example:443", "policy_denied", 403);
    CHECK_INT(w->dns.asked, 0);
    l = decide("93.184.216.34:443");
    CHECK_INT(l->decision.verdict, EGRESS_ALLOWED);
    lease_free(l);
    world_end();
}

/* ---- leases ---- */

TEST(a_use_is_taken_with_the_lease)
{
    struct lease *first, *second;

    world_start(
        "  once:\n    uses: 1\n    endpoints: [{host: 93.184.216.35, port: 443}]\n" ANYBODY);
    first = decide("93.184.216.35:443");
    CHECK_INT(first->decision.verdict, EGRESS_ALLOWED);
    second = decide("93.184.216.35:443");
    CHECK_STR(str_from(second->decision.why.code), "uses_spent");
    CHECK(lease_open(first));
    CHECK(!lease_open(second));
    lease_free(first);
    lease_free(second);
    world_turn();
    CHECK_INT(world_audited("\"Open\""), 1);
    CHECK_INT(world_audited("\"Close\""), 1);
    world_end();
}

/* One that is let go of before it is dialled was never opened. */
TEST(what_is_not_dialled_has_no_open)
{
    struct box_world *w = world_start(LITERAL);

    lease_free(decide("93.184.216.35:443"));
    world_turn();
    audit_close(w->box->audit, &(struct egress_intent){ 0 }, &(struct egress_decision){ 0 }, 0, 0,
                0, "another");
    world_turn();
    CHECK_INT(world_audited("\"Open\""), 0);
    CHECK_INT(world_audited("\"Close\""), 1);
    world_end();
}

static void read_nothing(struct serving *s, const struct dns_query *q)
{
}

TEST(names_that_do_not_resolve)
{
    struct box_world *w = world_start(WEB);

    expect("api.example.com:443", "resolution_failed", 502);
    w->names[0].name = "api.example.com"; /* without addresses */
    expect("api.example.com:443", "resolution_failed", 502);
    w->dns.script = read_nothing;
    expect("api.example.com:443", "resolution_failed", 504);
    world_end();
}

TEST(pinned_and_literal_addresses_need_no_lookup_and_are_checked)
{
    struct box_world *w = world_start(WEB LITERAL);
    struct egress_intent i = world_intent("api.example.com:443");
    struct lease *l;

    i.pinned[0] = world_address("93.184.216.34");
    i.n_pinned = 1;
    l = world_decide(&i);
    CHECK_INT(l->decision.verdict, EGRESS_ALLOWED);
    CHECK(l->decision.n == 1 && address_equal(&l->decision.addresses[0], &i.pinned[0]));
    lease_free(l);
    i.pinned[1] = world_address("192.168.1.1");
    i.n_pinned = 2;
    l = world_decide(&i);
    CHECK_INT(l->decision.verdict, EGRESS_DENIED);
    lease_free(l);
    l = decide("10.1.2.3:443");
    CHECK_INT(l->decision.verdict, EGRESS_ALLOWED);
    lease_free(l);
    expect("10.1.2.4:443", "policy_denied", 403);
    CHECK_INT(w->dns.asked, 0);
    world_end();
}

/* All that own_addresses_has() looks at. */
static void pretend_to_own(struct box_world *w, struct own_addresses *o, struct address *list,
                           size_t n)
{
    o->list = list;
    o->n = n;
    w->egress.own = o;
}

TEST(our_own_addresses_are_refused_unless_declared)
{
    struct box_world *w = world_start(WEB LITERAL);
    struct own_addresses own = { 0 };
    struct address list[] = { world_address("93.184.216.34"), world_address("93.184.216.35") };
    struct lease *l;

    pretend_to_own(w, &own, list, 2);
    w->names[0].name = "a.wild.example.com";
    w->names[0].addresses[0] = "93.184.216.35";
    w->names[1].name = "api.example.com";
    w->names[1].addresses[0] = "93.184.216.34";
    expect("a.wild.example.com:443", "ssrf_denied", 403);
    expect("api.example.com:443", "ssrf_denied", 403);
    l = decide("93.184.216.35:443");
    CHECK_INT(l->decision.verdict, EGRESS_ALLOWED);
    lease_free(l);
    own.unknown = true;
    w->names[0].addresses[0] = "93.184.216.99";
    expect("a.wild.example.com:443", "ssrf_denied", 403);
    world_end();
}

/* ---- who asks ---- */

static struct authorization *asking;
static unsigned cancelled;

static void ask_later(struct authorization *a)
{
    asking = a;
    a->who_ = &asking;
}

static void cancel_asking(struct authorization *a)
{
    CHECK(a == asking);
    cancelled++;
}

static const struct egress_who_ops fake_who = { ask_later, cancel_asking };

static bool done_;

static void on_done(struct authorization *a)
{
    done_ = true;
}

TEST(programs_are_asked_about_where_a_rule_names_them)
{
    struct box_world *w = world_start(WEB PROGRAMS);
    struct egress_intent i = world_intent("tool.example.com:443");
    struct egress_who curl = { .known = true, .pid = 7, .binary = "/usr/bin/curl" };
    struct egress_who other = { .known = true, .pid = 8, .binary = "/usr/bin/wget" };
    const struct egress_who *const answers[] = { &curl, &other, NULL };
    static const char *const codes[] = { NULL, "binary_not_allowed", "identity_unknown" };
    struct authorization a;

    expect("tool.example.com:443", "identity_unknown", 403); /* no identity provider */
    w->egress.who = &fake_who;
    w->names[0].name = "tool.example.com";
    w->names[0].addresses[0] = "93.184.216.34";
    for (size_t k = 0; k < COUNT_OF(answers); k++) {
        a = (struct authorization){ 0 };
        done_ = false;
        authorize_start(&a, w->box, &i, on_done);
        CHECK(asking == &a);
        CHECK_INT(w->dns.asked, k ? 2 : 0);
        authorize_known(&a, answers[k]);
        world_run(&done_);
        CHECK_INT(a.lease->decision.verdict, codes[k] ? EGRESS_DENIED : EGRESS_ALLOWED);
        if (codes[k])
            CHECK_STR(str_from(a.lease->decision.why.code), codes[k]);
        else
            CHECK_INT(a.lease->decision.who.pid, 7);
        lease_free(a.lease);
        asking = NULL;
    }
    world_end();
}

/* For a record of programs; a connection of an unknown one is allowed as it would be without. */
TEST(a_box_that_identifies_asks_about_every_allowed_connection)
{
    struct box_world *w = world_start(WEB PROGRAMS);
    struct egress_intent i = world_intent("api.example.com:443");
    struct egress_who curl = { .known = true, .pid = 7, .binary = "/usr/bin/curl" };
    const struct egress_who *const answers[] = { &curl, NULL };
    struct authorization a;

    w->egress.who = &fake_who;
    w->box->identify = true;
    w->names[0].name = "api.example.com";
    w->names[0].addresses[0] = "93.184.216.34";
    for (size_t k = 0; k < COUNT_OF(answers); k++) {
        a = (struct authorization){ 0 };
        asking = NULL;
        done_ = false;
        authorize_start(&a, w->box, &i, on_done);
        CHECK(asking == &a);
        authorize_known(&a, answers[k]);
        world_run(&done_);
        CHECK_INT(a.lease->decision.verdict, EGRESS_ALLOWED);
        CHECK_INT(a.lease->decision.who.known, answers[k] != NULL);
        lease_free(a.lease);
    }
    world_end();
}

TEST(denials_are_recorded_with_the_program)
{
    struct box_world *w = world_start(WEB);
    struct egress_intent i = world_intent("evil.example.com:443");
    const struct egress_who curl = { .known = true, .pid = 7, .binary = "/usr/bin/curl" };
    struct authorization a = { 0 };

    w->egress.who = &fake_who;
    done_ = false;
    authorize_start(&a, w->box, &i, on_done);
    CHECK(asking == &a);
    CHECK_INT(w->box->counters.denied, 0);
    authorize_known(&a, &curl);
    world_run(&done_);
    CHECK_INT(w->box->counters.denied, 1);
    CHECK_STR(str_from(a.lease->decision.why.code), "policy_denied");
    CHECK_STR(str_from(a.lease->decision.who.binary), "/usr/bin/curl");
    lease_free(a.lease);

    asking = NULL; /* a client that leaves meanwhile is on record, too */
    a = (struct authorization){ 0 };
    authorize_start(&a, w->box, &i, on_done);
    CHECK(asking == &a);
    authorize_cancel(&a);
    CHECK_INT(w->box->counters.denied, 2);
    world_end();
}

TEST(only_so_many_programs_are_searched_for_denials)
{
    struct box_world *w = world_start(WEB);
    struct egress_intent i = world_intent("evil.example.com:443");
    int searched = 0;

    w->egress.who = &fake_who;
    for (int n = 0; n < 10 * EGRESS_ATTRIBUTIONS_BURST; n++) {
        struct authorization a = { 0 };

        asking = NULL;
        done_ = false;
        authorize_start(&a, w->box, &i, on_done);
        searched += asking == &a;
        if (asking)
            authorize_known(&a, NULL);
        world_run(&done_);
        lease_free(a.lease);
    }
    CHECK(searched >= EGRESS_ATTRIBUTIONS_BURST && searched < 10 * EGRESS_ATTRIBUTIONS_BURST);
    CHECK_INT(w->box->counters.denied, 10 * EGRESS_ATTRIBUTIONS_BURST);
    world_end();
}

TEST(cancelling_in_every_state_lets_go)
{
    struct box_world *w = world_start(WEB PROGRAMS);
    struct egress_intent name = world_intent("api.example.com:443"),
                         tool = world_intent("tool.example.com:443");
    struct authorization a = { 0 };

    authorize_cancel(&a);
    w->egress.who = &fake_who;
    done_ = false;
    authorize_start(&a, w->box, &tool, on_done); /* being asked about */
    authorize_cancel(&a);
    CHECK_INT(cancelled, 1);
    authorize_start(&a, w->box, &name, on_done); /* being looked up */
    authorize_cancel(&a);
    /* decided, but `done` is not called yet */
    tool.host = world_intent("evil.example.com:443").host;
    authorize_start(&a, w->box, &tool, on_done);
    authorize_cancel(&a);
    world_turn();
    CHECK(!done_);
    world_end();
}

TEST(only_so_many_lookups_run_at_once)
{
    struct box_world *w = world_start(WEB);
    struct authorization all[EGRESS_LOOKUPS_MAX + 1] = { 0 };
    char authority[64];

    done_ = false;
    for (int i = 0; i <= EGRESS_LOOKUPS_MAX; i++) {
        struct egress_intent to;

        snprintf(authority, sizeof authority, "n%d.wild.example.com:443", i);
        to = world_intent(authority);
        authorize_start(&all[i], w->box, &to, i < EGRESS_LOOKUPS_MAX ? NULL : on_done);
    }
    CHECK_INT(w->box->lookups_running, EGRESS_LOOKUPS_MAX);
    for (int i = 0; i < EGRESS_LOOKUPS_MAX; i++)
        authorize_cancel(&all[i]);
    world_run(&done_);
    CHECK_STR(str_from(all[EGRESS_LOOKUPS_MAX].lease->decision.why.code), "lookup_limit");
    lease_free(all[EGRESS_LOOKUPS_MAX].lease);
    world_end();
}

/* ---- policies that change ---- */

TEST(a_policy_that_changes_meanwhile_is_a_denial)
{
    struct box_world *w = world_start(WEB);
    struct egress_intent i = world_intent("api.example.com:443");
    struct authorization a = { 0 };

    w->names[0].name = "api.example.com";
    w->names[0].addresses[0] = "93.184.216.34";
    done_ = false;
    authorize_start(&a, w->box, &i, on_done);
    world_policy(WEB); /* it says the same, and it is another */
    world_run(&done_);
    CHECK_INT(a.lease->decision.verdict, EGRESS_DENIED);
    CHECK_STR(str_from(a.lease->decision.why.code), "stale_policy");
    lease_free(a.lease);
    world_end();
}

TEST(a_lease_of_an_earlier_policy_is_not_opened)
{
    struct lease *l;

    world_start(LITERAL);
    l = decide("93.184.216.35:443");
    CHECK_INT(l->decision.verdict, EGRESS_ALLOWED);
    world_policy(LITERAL); /* it says the same, and it is another */
    CHECK(!lease_open(l));
    CHECK_STR(str_from(l->decision.why.code), "stale_policy");
    lease_free(l);
    world_turn();
    CHECK_INT(world_audited("\"Open\""), 0);
    CHECK_INT(world_audited("stale_policy"), 1);
    world_end();
}

TEST(what_is_open_is_asked_about_again)
{
    static const char rest[] =
        "  web:\n    endpoints: [{host: api.example.com, port: 80, protocol: "
        "rest, access: full}]\n" ANYBODY;
    static const char plain[] =
        "  web:\n    endpoints: [{host: api.example.com, port: 80}]\n" ANYBODY;
    static const char more[] =
        "  web:\n    endpoints: [{host: api.example.com, port: 80}]\n" ANYBODY PROGRAMS;
    struct box_world *w = world_start(plain);
    struct egress_intent i = world_intent("api.example.com:80");
    struct lease *l;
    uint64_t id;

    i.pinned[0] = world_address("93.184.216.34");
    i.n_pinned = 1;
    l = world_decide(&i);
    CHECK_INT(l->decision.verdict, EGRESS_ALLOWED);
    id = l->decision.id;
    world_policy(more);
    CHECK(authorize_again(l, 0, 1));
    CHECK(egress_decision_current(&l->decision, w->box) && l->decision.id == id &&
          l->decision.n == 1);
    world_policy(rest);
    CHECK(!authorize_again(l, 0, 1));
    CHECK_STR(str_from(l->decision.why.code), "stale_policy");
    CHECK(!egress_decision_current(&l->decision, w->box));
    world_policy(PROGRAMS);
    CHECK(!authorize_again(l, 0, 1));
    CHECK_STR(str_from(l->decision.why.code), "policy_denied");
    world_policy(NULL);
    CHECK(!authorize_again(l, 0, 1));
    CHECK_STR(str_from(l->decision.why.code), "policy_missing");
    lease_free(l);
    world_end();
}

TEST(requests_are_evaluated_and_put_on_record)
{
    static const char rest[] =
        "  web:\n    endpoints: [{host: api.example.com, port: 80, protocol: "
        "rest, access: read-only}]\n" ANYBODY;
    const struct egress_action get = {
        EGRESS_ACTION_HTTP,
        { { .method = STR("GET"), .path = STR("/seen"), .query = STR("secret=1") } }
    };
    const struct egress_action post = { EGRESS_ACTION_HTTP,
                                        { { .method = STR("POST"), .path = STR("/seen") } } };
    struct box_world *w = world_start(rest);
    struct egress_intent i = world_intent("api.example.com:80");
    struct lease *l;
    struct egress_reason why;
    uint64_t ticket;

    i.pinned[0] = world_address("93.184.216.34");
    i.n_pinned = 1;
    l = world_decide(&i);
    CHECK_INT(authorize_request(l, &get, &why, &ticket), EGRESS_ALLOWED);
    CHECK(audit_kept(w->box->audit, ticket));
    CHECK_INT(authorize_request(l, &post, &why, &ticket), EGRESS_DENIED);
    CHECK(world_audited("/seen") > 0 && world_audited("secret") == 0);
    world_policy(rest);
    CHECK_INT(authorize_request(l, &get, &why, &ticket), EGRESS_DENIED);
    CHECK_STR(str_from(why.code), "stale_policy");
    lease_free(l);
    world_end();
}

TEST(what_cannot_be_recorded_is_denied)
{
    struct box_world *w = world_start(NULL);
    struct listeners none;
    struct egress_intent i = world_intent("api.example.com:443");
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    struct egress_box *usual = w->box;
    struct lease *l;
    struct err e;

    CHECK(full >= 0);
    listeners_init(&none);
    CHECK_OK(egress_box_new(&w->egress, "sbx_full", &none, full, &w->box, &e), e);
    world_policy(WEB);
    i.pinned[0] = world_address("93.184.216.34");
    i.n_pinned = 1;
    l = world_decide(&i);
    CHECK_INT(l->decision.verdict, EGRESS_ALLOWED);
    CHECK(!lease_open(l));
    CHECK_INT(l->decision.verdict, EGRESS_DENIED);
    CHECK_STR(str_from(l->decision.why.code), "audit_unavailable");
    CHECK_INT(l->decision.status, 503);
    lease_free(l);
    egress_box_free(w->box);
    w->box = usual;
    world_end();
}
