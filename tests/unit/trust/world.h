/* SPDX-License-Identifier: Apache-2.0 */
/* Fixture of the tests of peers and held calls: a control plane over the fake backend, and trust on
 * top of it; both can be closed and reopened like by a restart. */
#ifndef TESTS_TRUST_WORLD_H
#define TESTS_TRUST_WORLD_H

#include "../control/fixture.h"
#include "control/owner/tokens.h"
#include "trust/approvals.h"
#include "trust/peers.h"
#include "trust/policy.h"

extern struct world {
    struct trust *trust;
    struct tokens *tokens;
    struct trust_setup setup;
    char bundle[512]; /* the file, if write_bundle() made one */
} world;

void world_open(void);
void world_close(void); /* forgets nothing */
void write_bundle(const char *yaml);

/* A journeyman of uid 1000; referenced. The token is a static one of the last call. */
struct peer *new_peer(void);
struct peer *new_peer_of(const char *owner, enum role role);
/* A journeyman's token with all verbs, from the next world_open() on; maker "": a user made it. */
void store_token(const char *id, const char *owner, const char *maker);
/* A journeyman who came with this token. */
struct peer *new_peer_by(const char *owner, const char *token);
extern char last_token[PEER_TOKEN_MAX];

/* Asks, and waits for the verdict. */
struct verdict ask(struct peer *p, const char *tool, const char *args,
                   const struct trust_capabilities *sandbox);
/* By one who is trusted otherwise than the peer. */
struct verdict ask_as(struct peer *p, enum role role, const char *tool, const char *args,
                      const struct trust_capabilities *sandbox);
/* A sandbox that the peer made. */
void create_as(struct peer *p, char ret[static ID_MAX]);
const struct json *tree(const char *text);
/* Until the store has so many events of this type. Asking takes turns of the loop itself, so the
 * last one that matters may be over by then: it is looked at again without waiting for another. */
void wait_events(const char *type, size_t n);

#endif
