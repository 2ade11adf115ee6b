/* The control plane's inside, for the files of this module. */
#ifndef CONTROL_PLANE_H
#define CONTROL_PLANE_H

#include "control/anchors.h"
#include "control/control.h"
#include "control/feed.h"
#include "control/index.h"
#include "control/layers.h"
#include "control/measuring.h"
#include "control/meters.h"
#include "control/outlet.h"
#include "control/owners.h"
#include "control/pool.h"
#include "fetcher/fetcher.h"
#include "quota/quota.h"
#include "quota/rate.h"

enum {
    EXTENSIONS_MAX = 16,
    CONTROL_ARENA_MAX = 8 << 20, /* of one request's answers */
};

struct control {
    struct keyring *keys; /* the setup's; NULL: none */
    bool rotating;
    struct loop *loop;
    struct work_pool *work;
    const struct config *config;
    uid_t owner; /* an administrator beside root */
    struct store *store;
    struct catalog *catalog;
    struct json_strs profiles; /* directories */
    struct control_storage storage;
    struct ext_context context;
    int (*mirror)(void *user, const struct control_mirror *m, struct err *e);
    int (*grant)(void *user, const struct control_grant *g, struct control_request *q,
                 struct err *e);
    void (*cancel)(void *user, struct control_request *q);
    void (*forget_grant)(void *user, const char *sandbox);
    int (*headers)(void *user, int *ret, struct err *e);
    int (*egress_worker)(void *user, int *ret, uint64_t *ret_id, struct err *e);
    void (*end_egress_worker)(void *user, uint64_t id);
    int (*egress_places)(void *user, uint64_t id, const struct gate_place *list, size_t n,
                         struct control_request *q, struct err *e);
    int (*keeper)(void *user, int *ret, struct err *e);
    struct extension *instances[EXTENSIONS_MAX]; /* beside extensions[] */
    struct index index;                          /* every sandbox that is not destroyed */
    struct index owners, families;               /* whose they are: owners, families of tokens */
    struct {
        uint64_t memory;
        uint32_t pids;
    } share; /* of one owner, unless the configuration has another */
    struct index snapshots;
    struct quota output;              /* bytes of processes' output, by owner, token and sandbox */
    struct quota processes;           /* background processes, by owner and token */
    struct quota stored;              /* bytes of snapshots, by owner and token */
    struct quota taken;               /* snapshots, by owner and token */
    struct tokens *tokens;            /* NULL: not open */
    struct rate events, token_events; /* by owner, and by token; control/event_share.h */
    int64_t prune_at;                 /* seq of the event that pruning begins early for */
    struct layers layers;
    struct measuring measuring;
    unsigned measures; /* under way that somebody waits for */
    struct list subscribers;
    struct pool pool;
    struct outlets outlets;
    struct feed feed;
    struct anchors anchors;
    struct list audit_checks; /* under way */
    struct meters meters;
    char boot[RECORD_BOOT_MAX];

    /* the start: how many boxes of an earlier life have not answered yet */
    size_t adopting;
    bool open;
    bool unreadable; /* a record was: what it stands for cannot be told from what is nobody's */
    size_t failed;   /* sandboxes in the index that have no box any more */
    struct loop_timer prune, usage;
    bool pruning;          /* a batch is under way */
    int64_t prune_logs_ns; /* CLOCK_MONOTONIC: egress logs are not looked at before */
    void (*on_open)(void *user);
    void (*on_closed)(void *user);
    void *user;
    struct loop_later later;

    struct fetcher fetcher; /* requests to registries and the hub */
    struct outbox *outbox;  /* NULL: there is no hub */
    struct images *images;
    struct flattening *flattening; /* the one that is under way */
    size_t changes;                /* under way */
    struct loop_timer closing;
    int64_t close_by;
};

/* The instance of an extension; NULL if it is none of ours. */
struct extension *control_extension(struct control *c, const char *id,
                                    const struct extension_ops **ret);

/* Whether a box of that id is ours: a sandbox's, or one of the pool. */
bool control_knows(void *control, const char *id);

/* Takes up what an earlier life of the daemon left. */
int control_recover(struct control *c, struct err *e);
void control_adopted(struct control *c); /* one box less to wait for */

int64_t clock_boot(void);

/* --- secrets.c --- */

int open_secrets(struct control *c, struct keyring *keys, struct err *e);

#endif
