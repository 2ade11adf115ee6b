/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/protocol.h"

#include "base/own.h"
#include "harness/tap.h"
#include "unit/domain/policy/policies.h"

/* Members of a row that may only be NULL where they are never called. */
TEST(the_row_of_every_protocol_is_complete)
{
    for (int i = 0; i < EGRESS_PROTOCOLS_; i++) {
        const struct protocol *p = &protocols[i];
        bool inspected = p->fields & PROTOCOL_INSPECTED;

        CHECK(egress_protocol_names[i] && inspected == (i != EGRESS_TCP));
        CHECK(!p->rule_fields == !inspected && !p->check_rule == !inspected);
        CHECK(!p->enforced || p->judge);
        CHECK(!p->enforced || (!p->compile_rule == !inspected && !p->action == !inspected));
    }
    CHECK(!egress_protocol_names[EGRESS_PROTOCOLS_]);
}

TEST(a_request_of_another_protocol_is_refused)
{
    const struct egress_snapshot *s =
        policy_compiled("version: 1\nnetwork_policies:\n  web:\n    endpoints: [{host: "
                        "api.example.com, port: 80, protocol: rest, access: full}]\n");
    struct egress_connect_query ask = ask_for("api.example.com:80", NULL);
    struct egress_action q = { EGRESS_ACTION_HTTP, { { .method = STR("GET"), .path = STR("/") } } };
    struct egress_match m;
    struct egress_reason why;

    CHECK_INT(egress_connect(s, &ask, &m, &why), EGRESS_ALLOWED);
    CHECK_INT(egress_judge(&m, &q, &why), EGRESS_ALLOWED);
    q.kind = EGRESS_ACTION_NONE;
    CHECK_INT(egress_judge(&m, &q, &why), EGRESS_DENIED);
    CHECK_STR(str_from(why.code), "policy_denied");
}
