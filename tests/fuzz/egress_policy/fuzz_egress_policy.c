/* SPDX-License-Identifier: Apache-2.0 */
/* A text that is read as a policy is the same again when it was written as JSON and read back; and
 * the index of its snapshot finds what going through all endpoints finds. */
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "domain/policy/egress.h"
#include "domain/policy/egress_file.h"
#include "domain/policy/glob.h"
#include "domain/policy/host_pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ASKED_MAX = 8 };

static const char program[] = "/usr/bin/curl";

static void must(bool good)
{
    if (!good)
        abort();
}

static bool program_matches(const char *path, struct arena *a)
{
    const struct glob *g;

    must(glob_compile(str_from(path), GLOB_PARTS, '/', a, &g, NULL) >= 0);
    return glob_match(g, str_from(program));
}

static bool who_matches(const struct egress_entry *entry, const struct egress_endpoint *ep,
                        struct arena *a)
{
    const struct egress_binary *all = entry->binaries.p;
    bool good = ep->binaries.n == 0 && entry->binaries.n == 0; /* every program */

    for (size_t i = 0; i < ep->binaries.n; i++)
        good |= program_matches(ep->binaries.p[i], a);
    for (size_t i = 0; ep->binaries.n == 0 && i < entry->binaries.n; i++)
        good |= program_matches(all[i].path, a);
    return good;
}

static bool applies(const struct egress_endpoint *ep, const struct egress_connect_query *ask)
{
    struct host_pattern p;
    struct address address;
    bool port = false;

    for (size_t i = 0; i < ep->port_count; i++)
        port |= ep->ports[i] == ask->port;
    if (!port || !ep->host)
        return port;
    if (address_parse(str_from(ep->host), &address))
        return ask->host_is_address && address_equal(&address, &ask->address);
    must(!host_pattern_parse(str_from(ep->host), &p));
    return !ask->host_is_address && host_pattern_match(&p, ask->host);
}

static bool naive_allows(const struct egress_policy *p, const struct egress_connect_query *ask)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(64 << 20);
    const struct egress_entry *entries = p->network_policies.p;

    for (size_t i = 0; i < p->network_policies.n; i++) {
        const struct egress_endpoint *eps = entries[i].endpoints.p;

        for (size_t k = 0; k < entries[i].endpoints.n; k++)
            if (applies(&eps[k], ask) && who_matches(&entries[i], &eps[k], &a))
                return true;
    }
    return false;
}

static void ask_requests(const struct egress_match *m)
{
    static const char *const methods[] = { "GET", "HEAD", "post", "DELETE" };
    static const char *const targets[] = { "/", "/v1/a?q=a&b", "/a/%2e%2e/b;x/", "/x?%zz" };
    struct egress_reason why = { 0 };

    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        struct egress_action q = { .kind = EGRESS_ACTION_HTTP };

        q.http.query = str_cut(str_from(targets[i]), '?', &q.http.path);
        for (size_t k = 0; k < COUNT_OF(methods); k++) {
            q.http.method = str_from(methods[k]);
            (void)egress_judge(m, &q, &why);
        }
    }
}

static void ask_for(const struct egress_policy *p, const struct egress_snapshot *s,
                    struct egress_connect_query *ask)
{
    static const struct address public = { .bytes = { 8, 8, 8, 8 } };
    struct egress_match m;
    struct egress_reason why;
    struct egress_ports ports;
    enum egress_verdict v;

    ask->binary = str_from(program);
    ask->identity_known = true;
    v = egress_connect(s, ask, &m, &why);
    must(why.code && *why.text);
    if (p->unlisted.access == EGRESS_UNLISTED_DENY && p->unlisted.allowed_ips.n == 0 &&
        strcmp(why.code, "policy_too_complex") != 0 && strcmp(why.code, "metadata_denied") != 0)
        must((v == EGRESS_ALLOWED) == naive_allows(p, ask));
    if (v == EGRESS_ALLOWED) {
        (void)egress_addresses(&m, &public, 1, &why);
        ask_requests(&m);
    }
    if (!ask->host_is_address)
        (void)egress_name(s, ask->host, &ports, &why);
}

/* The host of an endpoint with letters for its stars, and names beside it. */
static void ask_about(const struct egress_policy *p, const struct egress_snapshot *s,
                      const struct egress_endpoint *ep)
{
    static const char *const stars[] = { "a", "b.c", "" };
    char name[1024];

    for (size_t i = 0; ep->host && i < COUNT_OF(stars); i++) {
        struct egress_connect_query ask = { .port = ep->ports[0] };
        size_t n = 0;

        for (const char *c = ep->host; *c && n < sizeof name - 8; c++)
            n += (size_t)snprintf(name + n, sizeof name - n, "%s%.*s", *c == '*' ? stars[i] : "",
                                  *c != '*', c);
        ask.host = (struct str){ name, n };
        ask.host_is_address = address_parse(ask.host, &ask.address);
        ask_for(p, s, &ask);
        ask.port = (uint16_t)(ask.port + 1);
        ask_for(p, s, &ask);
    }
}

static void ask_all(const struct egress_policy *p, const struct egress_snapshot *s)
{
    const struct egress_entry *entries = p->network_policies.p;
    size_t asked = 0;

    for (size_t i = 0; i < p->network_policies.n; i++) {
        const struct egress_endpoint *eps = entries[i].endpoints.p;

        for (size_t k = 0; k < entries[i].endpoints.n && asked < ASKED_MAX; k++, asked++)
            ask_about(p, s, &eps[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    AUTO(buf_done) struct buf one = BUF_INIT(EGRESS_JSON_BYTES_MAX);
    AUTO(buf_done) struct buf two = BUF_INIT(EGRESS_JSON_BYTES_MAX);
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = NULL;
    struct egress_policy p, again;

    if (egress_policy_read((struct str){ (const char *)data, size }, &a, &p, NULL) < 0)
        return 0;
    must(egress_policy_to_json(&p, &one, NULL) == 0);
    must(egress_policy_from_json(buf_str(&one), &a, &again, NULL) == 0);
    must(egress_policy_to_json(&again, &two, NULL) == 0);
    must(str_eq(buf_str(&one), buf_str(&two)));
    s = egress_compile(&again, 1, NULL);
    must(s != NULL);
    ask_all(&p, s);
    return 0;
}
