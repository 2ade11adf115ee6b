/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled egress policy: an immutable snapshot, and the queries of adapters and relays.
 *
 * For a connection, call egress_connect(), then egress_addresses() with the resolved addresses,
 * and, if the protocol is inspected, egress_judge() for every request. A match borrows from its
 * snapshot: hold a reference as long as the match, and compare generations before every write. A
 * changed policy is a new snapshot; decisions of the old one are no longer valid.
 *
 * Queries do not allocate. Their cost depends on the name, port and path in question and on the
 * endpoints that match, not on the size of the policy. Everything that cannot be decided is
 * denied. */
#ifndef DOMAIN_POLICY_EGRESS_H
#define DOMAIN_POLICY_EGRESS_H

#include "base/err.h"
#include "base/str.h"
#include "lib/net/address.h"
#include "domain/policy/egress_policy.h"

struct egress_snapshot;
struct egress_limit;

/* Compiles a policy that egress_check() accepted; copies what it needs. Returns NULL with the
 * reason in *e. The caller gets the first reference; references are counted across threads. */
struct egress_snapshot *egress_compile(const struct egress_policy *p, uint64_t generation,
                                       struct err *e);
/* The same under a ceiling (egress_ceiling.h): destinations beyond it are denied. ceiling NULL: no
 * ceiling. */
struct egress_ceiling;
struct egress_snapshot *egress_compile_under(const struct egress_policy *p,
                                             const struct egress_ceiling *ceiling,
                                             uint64_t generation, struct err *e);
const struct egress_ceiling *egress_snapshot_ceiling(const struct egress_snapshot *s);
struct egress_snapshot *egress_snapshot_ref(struct egress_snapshot *s);
void egress_snapshot_unref(struct egress_snapshot *s);
void egress_snapshot_unrefp_(struct egress_snapshot **s); /* for AUTO() */
uint64_t egress_snapshot_generation(const struct egress_snapshot *s);

enum egress_verdict {
    EGRESS_DENIED, /* also the value of a zeroed verdict */
    EGRESS_ALLOWED,
    EGRESS_AUDITED, /* denied by the policy, but the endpoint only records: let it pass */
};

/* The reason, for people and agents. Texts are printable and contain nothing of a query string. */
struct egress_reason {
    const char *code; /* stable, see docs/egress-policy.md: "policy_denied", "ssrf_denied", … */
    char text[256];   /* the denial, or the entry that allows */
    char next[256];   /* the remedy; empty if allowed */
    /* "network_policies.web.endpoints[0].deny_rules[2]"; borrowed from the snapshot; may be
     * empty */
    struct str rule;
    /* the limit that an allowed request uses; borrowed from the snapshot */
    struct egress_limit *limit;
};

/* A connection to be decided: its destination and its program. */
struct egress_connect_query {
    struct str host; /* from host_parse(): a canonical name, or the address as text */
    bool host_is_address;
    struct address address; /* if host_is_address */
    uint16_t port;
    bool identity_known; /* the three members below are evidence, not a guess */
    struct str binary;   /* path of the program that holds the socket */
    const struct str *ancestors;
    size_t n_ancestors;
};

struct egress_endpoint_c; /* a compiled endpoint */

/* A connection to which more endpoints apply is refused, so that a match has a fixed size. */
enum { EGRESS_MATCH_MAX = 64 };

/* The endpoints that apply to one connection. */
struct egress_match {
    const struct egress_endpoint_c *endpoint; /* the one that is reported; NULL: unlisted */
    struct str policy; /* name of its entry; "unlisted" if no endpoint names the host */
    /* its own name, or its location: "network_policies.web.endpoints[0]" */
    struct str endpoint_name;
    bool needs_identity; /* depends on the program: repeat with its identity */
    enum egress_protocol protocol;
    enum egress_tls tls; /* EGRESS_TLS_AUTO or EGRESS_TLS_SKIP */
    bool exact_host;     /* `endpoint` names the host without wildcards */
    bool encoded_slash;  /* for path_read(): one of the endpoints accepts %2F */
    bool audit_only;     /* all inspected endpoints only record */
    uint16_t port;
    uint64_t generation;
    /* the limit that the connection uses; NULL if requests are inspected, which then use it */
    struct egress_limit *limit;

    const struct egress_snapshot *snapshot_;
    struct address address_; /* the address in question … */
    bool host_is_address_;   /* … if the host is one */
    const struct egress_endpoint_c *all_[EGRESS_MATCH_MAX];
    size_t all_count_;
    size_t steps_; /* steps in the trie, for tests */
};

/* Decides whether this program may open the connection. Of the endpoints that apply, the one whose
 * entry has the smallest name is reported, then the first. Without an identity, a destination whose
 * endpoints name programs is denied with needs_identity set. A name is denied if only endpoints
 * without a host apply: otherwise every name could be sent to resolvers. *ret and *why are always
 * set. */
enum egress_verdict egress_connect(const struct egress_snapshot *s,
                                   const struct egress_connect_query *query,
                                   struct egress_match *ret, struct egress_reason *why);

/* Entries with `until` or `uses` expire, and are then ignored. A snapshot with such entries belongs
 * to one sandbox and one thread.
 *
 * Ends the entries whose time has passed by the wall clock. Returns the time when the next one
 * ends; INT64_MAX: never. */
int64_t egress_snapshot_expire(struct egress_snapshot *s, int64_t now);
/* Whether an entry of the match has expired, so that it must be decided again. An entry whose uses
 * are spent stays valid for connections that it allowed. */
bool egress_match_ended(const struct egress_match *m);
/* Takes one use, just before it is needed. False if no use is left. True for NULL. */
bool egress_limit_use(struct egress_limit *l);
void egress_limit_refuse(const struct egress_limit *l, struct egress_reason *why);

enum { EGRESS_NAME_PORTS_MAX = 256 };

struct egress_ports {
    bool any; /* every port; also if the list would be too long */
    uint16_t p[EGRESS_NAME_PORTS_MAX];
    size_t n; /* sorted, without duplicates */
    size_t steps_;
};

/* Policy DNS: whether an endpoint, for any program, has this canonical name, and on which ports.
 * Only names that are allowed here may be looked up. Endpoints without a host do not count:
 * otherwise every name could be sent to resolvers. */
enum egress_verdict egress_name(const struct egress_snapshot *s, struct str name,
                                struct egress_ports *ret, struct egress_reason *why);

/* Policy DNS, after resolution of a name that egress_name() allows: the ports of its endpoints, for
 * any program, that accept all of these addresses. Denies with the first endpoint's reason if there
 * are no such endpoints. The connection itself is still decided separately. */
enum egress_verdict egress_name_addresses(const struct egress_snapshot *s, struct str name,
                                          const struct address *list, size_t n,
                                          struct egress_ports *ret, struct egress_reason *why);

/* Decides whether the connection may go to these addresses. A single denied address denies all, and
 * so does an empty list. Metadata services and control-plane ports are never allowed. An address
 * that is not public is only allowed if the endpoint's allowed_ips has it as an exact address or,
 * for a name, in a range without public addresses. *why is only set on denial. */
enum egress_verdict egress_addresses(const struct egress_match *m, const struct address *list,
                                     size_t n, struct egress_reason *why);

/* The addresses that the policy itself declares for the host of a match, so that no resolver is
 * queried: the endpoint's allowed_ips, if all are exact and not public, and loopback for its names.
 * At most `max`; 0: the name must be looked up. */
size_t egress_match_addresses(const struct egress_match *m, struct address *ret, size_t max);
/* Whether the policy declares exactly this address for the host of the match. Only then may it be
 * one of this machine's own addresses. */
bool egress_match_declares(const struct egress_match *m, const struct address *a);
/* Whether an endpoint of the name, for any program and port, declares its addresses as above. The
 * name is then not looked up until a connection with a port is decided. */
bool egress_name_declared(const struct egress_snapshot *s, struct str name);

/* An HTTP request, unchanged. */
struct egress_http {
    struct str method;
    struct str path;  /* of the target; "/" if that is empty */
    struct str query; /* without '?'; p NULL if absent */
    bool upgrades;    /* it requests another protocol than HTTP */
};

/* A request over an inspected connection, by its protocol. */
enum egress_action_kind { EGRESS_ACTION_NONE, EGRESS_ACTION_HTTP };
struct egress_action {
    enum egress_action_kind kind; /* NONE: no request */
    union {
        struct egress_http http;
    };
};

/* Decides whether this request may pass over an allowed connection. Relays, `egress explain` and
 * `egress check` all use this function. If the connection is not inspected (EGRESS_TCP), the
 * request is allowed and *why is unchanged. Otherwise, of all endpoints that apply, at least one
 * must allow it and none deny it: of HTTP, in every reading of the path (path.h). A request that
 * cannot be parsed, that could be executed as another request, or that is not one of the
 * connection's protocol, is denied even if the endpoint only records. */
enum egress_verdict egress_judge(const struct egress_match *m, const struct egress_action *a,
                                 struct egress_reason *why);
/* Methods that are denied wherever requests are inspected: CONNECT, TRACE, and spellings such as
 * `post`, which we distinguish from POST but some servers do not. */
bool egress_method_refused(struct str method);

#endif
