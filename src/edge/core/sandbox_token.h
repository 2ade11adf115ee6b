/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that authenticate access to one sandbox: its envd, its ports, and links to its files.
 *
 * A token names its holder: the API key that requested it. Its bearer acts as that key in that
 * sandbox as long as the key is valid: with its verbs, labels, limits and tool policy. `what` is
 * the purpose that the token is bound to. */
#ifndef EDGE_CORE_SANDBOX_TOKEN_H
#define EDGE_CORE_SANDBOX_TOKEN_H

#include "edge/core/call.h"

struct token_record;

enum {
    SANDBOX_TOKEN_CODE_TEXT = 65, /* including NUL */
    SANDBOX_TOKEN_TEXT = SANDBOX_TOKEN_CODE_TEXT + ID_RANDOM_CHARS,
    SANDBOX_LINK_HOLDERS =
        64, /* bounds the keys to try, as senders of links are not authenticated */
};

/* Loads the key that signs tokens, or makes one. Blocks: call it before the loop runs. */
int sandbox_tokens_open(struct api *a, struct err *e);

void sandbox_token_make(const struct api *a, const char *what, const char *holder,
                        char ret[static SANDBOX_TOKEN_TEXT]);
/* The holder's record; NULL if the token is invalid or its key is expired or revoked. */
const struct token_record *sandbox_token_holder(const struct api *a, const char *what,
                                                struct str given);
/* A token without a holder, computed in the same way. */
void sandbox_token_sign(const struct api *a, const char *what,
                        char ret[static SANDBOX_TOKEN_CODE_TEXT]);

/* The token for the ports of a sandbox. The holder is the call's key. */
void sandbox_traffic_token(const struct call *c, const char *id,
                           char ret[static SANDBOX_TOKEN_TEXT]);
const struct token_record *sandbox_traffic_holder(const struct api *a, const char *id,
                                                  struct str given);

/* Finds the holder of the token that signed a link, because links do not name it: tries the key
 * that made the sandbox, then other keys of its owner. NULL if none matches. */
typedef bool sandbox_link_fn(void *user, const char *holder);
const struct token_record *sandbox_link_holder(const struct call *c, sandbox_link_fn *fits,
                                               void *user);

/* Authenticates the call as the holder, restricted to the call's sandbox. Returns false after it
 * has answered the call. */
bool sandbox_token_enter(struct call *c, const struct token_record *holder);

#endif
