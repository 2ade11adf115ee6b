/* What a token may be good for. */
#ifndef MODEL_TOKEN_H
#define MODEL_TOKEN_H

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

#endif
