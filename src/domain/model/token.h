/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs and limits of tokens. */
#ifndef DOMAIN_MODEL_TOKEN_H
#define DOMAIN_MODEL_TOKEN_H

#include <stdint.h>

#include "base/str.h"

enum token_verb {
    VERB_READ,    /* get, list, events, logs, profiles */
    VERB_CREATE,  /* create, recreate, estimate, snapshot, fork */
    VERB_EXEC,    /* processes: start, attach, signal, stdin */
    VERB_FILES,   /* files, sync */
    VERB_EXTEND,  /* extend-ttl, pause, resume */
    VERB_DESTROY, /* destroy, recreate, expire */
    VERB_ADMIN,   /* tokens, hosts, inspect, reap-stale, backup, metrics */
    TOKEN_VERB_COUNT_,
};

extern const char *const token_verb_names[TOKEN_VERB_COUNT_ + 1];

#define VERB_BIT(v) (UINT64_C(1) << (v))
#define VERBS_ALL   (VERB_BIT(TOKEN_VERB_COUNT_) - 1)

/* The access to the workspace that a token's sandboxes have without approval. */
enum token_files { TOKEN_FILES_ANY, TOKEN_FILES_RO, TOKEN_FILES_RW, TOKEN_FILES_COUNT_ };

enum {
    TOKEN_PRESET_MAX = 16,
    TOKEN_NETWORK_MAX = 4096,
    TOKEN_UNSET = -1,
    /* Maximum length of a chain of tokens that were made with each other: the limits of each token
     * also bind its descendants, and are checked one by one. */
    TOKEN_GENERATIONS_MAX = 8,
};
#define TOKEN_PUBLIC "public"

/* Limits of a token's holder, and the capabilities that its sandboxes have without a master's
 * approval. TOKEN_UNSET means the policy's limit for the token's role. */
struct token_terms {
    char preset[TOKEN_PRESET_MAX];         /* the terms' origin, or "" */
    int64_t per_hour, per_day, concurrent; /* sandboxes, minutes, sandboxes */
    int64_t calls;                         /* per tool and minute, instead of the tool's rate */
    struct str network;          /* approved: "", "public", or HOST[:PORT]s separated by blanks */
    enum token_files filesystem; /* TOKEN_FILES_ANY: unlimited; so is 0 below */
    int64_t duration_s, memory_mb, cpu_milli; /* above them a create needs approval */
};

#define TOKEN_TERMS_NONE                                                                           \
    ((struct token_terms){ .per_hour = TOKEN_UNSET,                                                \
                           .per_day = TOKEN_UNSET,                                                 \
                           .concurrent = TOKEN_UNSET,                                              \
                           .calls = TOKEN_UNSET,                                                   \
                           .network = { "", 0 } })

#endif
