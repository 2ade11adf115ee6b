/* The egress policy as it is asked: one compiled, immutable snapshot, and the questions that
 * adapters and relays have.
 *
 * A connection asks egress_connect(), then egress_addresses() with what the name resolved to, and,
 * where the protocol is inspected, egress_request() for every request. A match borrows from its
 * snapshot: hold a reference as long as the match, and compare generations before every write. A
 * changed policy is a new snapshot; nothing decided under the old one may go on.
 *
 * No question allocates, and each costs what the asked name, port and path cost and what matches
 * them, not what else the policy has. Whatever cannot be decided is denied. */
#ifndef POLICY_EGRESS_H
#define POLICY_EGRESS_H

#include "base/err.h"
#include "base/str.h"
#include "net/address.h"
#include "policy/egress_policy.h"

struct egress_snapshot;
struct egress_limit;

/* Copies what it needs of a policy that egress_check() took. *e says why if NULL is returned. The
 * first reference is the caller's; references are counted across threads. */
struct egress_snapshot *egress_compile(const struct egress_policy *p, uint64_t generation,
                                       struct err *e);
/* The same for a policy that a ceiling (egress_ceiling.h) binds: what the policy allows beyond it
 * is denied. ceiling NULL: none does. */
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
    EGRESS_DENIED, /* also what a zeroed answer is */
    EGRESS_ALLOWED,
    EGRESS_AUDITED, /* the policy says no and the endpoint only records it: let it pass */
};

/* Why, for people and agents. Texts are printable and hold nothing of a query. */
struct egress_reason {
    const char *code; /* stable, see docs/egress-policy.md: "policy_denied", "ssrf_denied", … */
    char text[256];   /* what was denied, or what allows it */
    char next[256];   /* what to do about it; empty if allowed */
    struct str rule;  /* "network_policies.web.endpoints[0].deny_rules[2]"; of the snapshot; may be
                         empty */
    struct egress_limit *limit; /* what an allowed request uses up; of the snapshot */
};

/* Who wants to go where. */
struct egress_ask {
    struct str host; /* as host_parse() makes it: a canonical name, or the address as text */
    bool host_is_address;
    struct address address; /* if host_is_address */
    uint16_t port;
    bool identity_known; /* the three below are evidence, not a guess */
    struct str binary;   /* path of the program that holds the socket */
    const struct str *ancestors;
    size_t n_ancestors;
};

struct egress_endpoint_c; /* a compiled endpoint */

/* More endpoints that apply to one connection are refused: a limit, so that a match has a size. */
enum { EGRESS_MATCH_MAX = 64 };

/* What applies to one connection. */
struct egress_match {
    const struct egress_endpoint_c *endpoint; /* the winner, which is reported; NULL: unlisted */
    struct str policy;        /* its entry's name; "unlisted" if no endpoint names the host */
    struct str endpoint_name; /* its own name, or its place: "network_policies.web.endpoints[0]" */
    bool needs_identity;      /* the answer depends on the program: find out and ask again */
    enum egress_protocol protocol;
    enum egress_tls tls; /* EGRESS_TLS_AUTO or EGRESS_TLS_SKIP */
    bool exact_host;     /* the winner names the host without wildcards */
    bool encoded_slash;  /* for path_read(): any of the endpoints takes %2F */
    bool audit_only;     /* every inspected endpoint only records */
    uint16_t port;
    uint64_t generation;
    struct egress_limit *limit; /* what the connection uses up; where requests are inspected, they
                                   do, and it is NULL */

    const struct egress_snapshot *snapshot_;
    struct address address_; /* the asked one … */
    bool host_is_address_;   /* … if it was one */
    const struct egress_endpoint_c *all_[EGRESS_MATCH_MAX];
    size_t all_count_;
    size_t steps_; /* that the trie took: for tests */
};

/* May this program open a connection there? The winner among the endpoints that apply is the one
 * whose entry has the smallest name, then the first. Without an identity, a destination whose
 * endpoints name programs is denied with needs_identity set. A name for which only endpoints
 * without a host apply is denied: through them every name would leave. *ret and *why are always
 * filled. */
enum egress_verdict egress_connect(const struct egress_snapshot *s, const struct egress_ask *ask,
                                   struct egress_match *ret, struct egress_reason *why);

/* Entries with `until` or `uses` run out and are then as if they were not there. A snapshot that
 * has such is one sandbox's alone, and one thread's.
 *
 * Ends those whose time has come, by the wall clock. Returns when the next one does; INT64_MAX:
 * none. */
int64_t egress_snapshot_expire(struct egress_snapshot *s, int64_t now);
/* Whether an entry that the match rests on has ended: ask again. One whose uses are spent has not,
 * for what it let through. */
bool egress_match_ended(const struct egress_match *m);
/* Takes one use, just before it is made. False: there is none left. NULL always has one. */
bool egress_limit_use(struct egress_limit *l);
void egress_limit_refuse(const struct egress_limit *l, struct egress_reason *why);

enum { EGRESS_NAME_PORTS_MAX = 256 };

struct egress_ports {
    bool any; /* every port; also if there are more than fit */
    uint16_t p[EGRESS_NAME_PORTS_MAX];
    size_t n; /* sorted, each once */
    size_t steps_;
};

/* Policy DNS: is there an endpoint, for whichever program, that has this canonical name, and on
 * which ports? Only what is allowed here may be asked upstream. Endpoints without a host do not
 * count: through them every name would leave. */
enum egress_verdict egress_name(const struct egress_snapshot *s, struct str name,
                                struct egress_ports *ret, struct egress_reason *why);

/* Policy DNS, once a name that egress_name() allows is resolved: the ports of those of its
 * endpoints, for whichever program, that take all of these addresses. If there are none it is
 * denied, with the first endpoint's reason. A connection is asked about all the same. */
enum egress_verdict egress_name_addresses(const struct egress_snapshot *s, struct str name,
                                          const struct address *list, size_t n,
                                          struct egress_ports *ret, struct egress_reason *why);

/* May the connection go to these addresses? One bad one refuses all, and so does an empty list.
 * Metadata services and control-plane ports never; what is not public only if the endpoint has it
 * in its allowed_ips, as one exact address or, under a name, in a range without public ones. *why
 * is only filled if it is denied: the connection's reason stays. */
enum egress_verdict egress_addresses(const struct egress_match *m, const struct address *list,
                                     size_t n, struct egress_reason *why);

/* The addresses at which the policy itself has the host of a match, so that no server is asked for
 * them: those of the endpoint's allowed_ips, where all are exact and none is public, and loopback
 * for the names of it. At most `max`; 0: the name has to be looked up. */
size_t egress_match_addresses(const struct egress_match *m, struct address *ret, size_t max);
/* Whether the policy says exactly this address for the host of the match: only then may it be one
 * of this machine's own. */
bool egress_match_declares(const struct egress_match *m, const struct address *a);
/* Whether one of the endpoints of a name, for whichever program and port, has it at addresses as
 * above: it is then not looked up before a connection says which port it is for. */
bool egress_name_declared(const struct egress_snapshot *s, struct str name);

/* An HTTP request as its client wrote it. */
struct egress_http {
    struct str method;
    struct str path;  /* of the target, "/" where that is empty */
    struct str query; /* without its '?'; p NULL if there is none */
    bool upgrades;    /* it asks for another protocol than HTTP */
};

/* May this request pass, over a connection that may? The one judge of requests: relays, `egress
 * explain` and `egress check` ask it. Where the connection is not inspected (EGRESS_TCP), the
 * answer is yes, and *why stays as it is: the connection's. Otherwise: over all endpoints that
 * apply, at least one allows and none denies, in every reading of the path (path.h). What cannot be
 * read, and what would make the judged request another one, is denied even where an endpoint only
 * records. */
enum egress_verdict egress_request(const struct egress_match *m, const struct egress_http *q,
                                   struct egress_reason *why);
/* A method that is denied wherever requests are inspected: CONNECT, TRACE, and `post`, which is
 * another method than POST to us and the same to some server. */
bool egress_method_refused(struct str method);

#endif
