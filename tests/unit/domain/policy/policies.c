/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/domain/policy/policies.h"

#include <stdio.h>

#include "base/own.h"
#include "harness/tap.h"
#include "lib/net/host.h"
#include "domain/policy/egress_file.h"

static struct arena arena = ARENA_INIT(EGRESS_MEMORY_MAX);

struct arena *policies_arena(void)
{
    return &arena;
}

int policy_try(const char *yaml, struct egress_policy *ret, struct err *e)
{
    return egress_policy_read(str_from(yaml), &arena, ret, e);
}

const struct egress_snapshot *snapshot_of(const struct egress_policy *p)
{
    static const struct egress_snapshot *kept[256]; /* so that they are not lost */
    static size_t n;
    struct err e;

    CHECK(n < COUNT_OF(kept));
    kept[n] = egress_compile(p, 7, &e);
    if (!kept[n])
        FAIL("%s", e.msg);
    return kept[n++];
}

const struct egress_snapshot *policy_compiled(const char *yaml)
{
    struct egress_policy p;
    struct err e;

    CHECK_OK(policy_try(yaml, &p, &e), e);
    return snapshot_of(&p);
}

struct egress_connect_query ask_for(const char *destination, const char *binary)
{
    struct host host;
    struct egress_connect_query ask = { .identity_known = binary != NULL,
                                        .binary = str_from(binary) };
    struct err e;

    CHECK_OK(authority_parse(str_from(destination), 0, &host, &ask.port, &e), e);
    ask.host = str_from(arena_dup(&arena, str_from(host.name)));
    ask.host_is_address = host.is_address;
    ask.address = host.address;
    return ask;
}

const char *verdict_text(enum egress_verdict v, const struct egress_reason *why)
{
    static const char *const words[] = { "denied", "allowed", "audited" };
    static char text[128];

    if (v == EGRESS_ALLOWED)
        return words[v];
    CHECK(why->code && *why->text && *why->next);
    snprintf(text, sizeof text, "%s %s", words[v], why->code);
    return text;
}

const char *connect_text(const struct egress_snapshot *s, const char *destination,
                         const char *binary)
{
    struct egress_connect_query ask = ask_for(destination, binary);
    struct egress_match m;
    struct egress_reason why;

    return verdict_text(egress_connect(s, &ask, &m, &why), &why);
}

const char *request_text(const struct egress_snapshot *s, const char *destination,
                         const char *method, const char *target)
{
    struct egress_connect_query ask = ask_for(destination, "/usr/bin/curl");
    struct egress_action q = { .kind = EGRESS_ACTION_HTTP, .http = { .method = str_from(method) } };
    struct egress_match m;
    struct egress_reason why;

    if (egress_connect(s, &ask, &m, &why) != EGRESS_ALLOWED)
        return verdict_text(EGRESS_DENIED, &why);
    q.http.query = str_cut(str_from(target), '?', &q.http.path);
    return verdict_text(egress_judge(&m, &q, &why), &why);
}
