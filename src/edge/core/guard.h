/* The policy for tools, before a request is served.
 *
 * Every token that is no administrator's is its own peer, on every interface: what the request is
 * to the policy stands in guard_rows.c, and nothing that a client sends or leaves out avoids the
 * question. `Sandboxer-Peer: TOKEN` beside the credentials names a session below them, which
 * narrows further: the caller sees the session's sandboxes alone. */
#ifndef API_GUARD_H
#define API_GUARD_H

#include "api/call.h"

struct peer;
struct policy_text;
struct route;
struct trust_capabilities;

/* After the caller is known. False: it is answered. */
bool guard_identify(struct call *c);
/* Serves the call, after asking if it has to be asked. */
void guard_serve(struct call *c);
void guard_done(struct call *c); /* the call is freed */

/* Whose call it is; NULL: no peer's, and nothing is asked. */
struct peer *guard_peer(const struct call *c);
/* The session that `Sandboxer-Peer` names; NULL: the request has none. */
struct peer *guard_session(const struct call *c);

/* The role of sessions that the caller begins: a user's is what the configuration says, whatever
 * the user is; a token says it itself. */
enum role guard_role(const struct call *c);

/* The argument that a text body is. */
#define GUARD_TEXT "policy"

/* Whether an argument of that name came from the path or the query, and not from the body. */
bool guard_adds(const struct route *r, struct str name);

/* Whether the policy is asked about a program where the call is about one: what starts programs
 * inside says so to the control plane, which refuses others. */
bool guard_starts_programs(const struct call *c);
/* Whether the caller may run programs in that sandbox: then what its programs know is no secret to
 * it. Nothing is used up, and nothing recorded. */
bool guard_may_exec(const struct call *c, const struct sandbox *s);
/* An object of variables of that sandbox: values are for callers that could read them inside, and
 * others see the names. */
void guard_write_env(struct json_writer *w, const struct json_map *env, bool may_exec);

/* --- for handlers of rows with GUARD_LATER --- */

/* Asks about what the request would make: `go` is called now if nothing has to be asked or it was,
 * later if the answer is yes, and not at all otherwise: then it is answered. The call is held
 * meanwhile. */
typedef void guard_fn(struct call *c);
void guard_ask(struct call *c, const struct trust_capabilities *declares, guard_fn *go);
/* The same about a sandbox that is to be created, and then sets who approved its network. */
void guard_ask_create(struct call *c, struct create_op *op, guard_fn *go);

/* Gives the call's sandbox another network, if the policy lets it. done: as sandbox_set_policy(),
 * with the call as `user`, referenced. Takes the policy over. */
void guard_set_network(struct call *c, struct policy_text *t, egress_set_fn *done);

/* --- for all who ask the policy --- */

/* The caller as the peer: no administrator, naming nothing of this machine, and seeing what has the
 * peer's label beside those that it had to have before. */
void caller_narrow(struct caller *who, const struct peer *p, struct arena *a);
/* One label more that a sandbox must have; what does not fit into the arena ends the process. */
void caller_label(struct caller *who, const char *key, const char *value, struct arena *a);

#endif
