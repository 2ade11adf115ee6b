/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the control plane, for the files of this module. */
#ifndef CONTROL_PLANE_H
#define CONTROL_PLANE_H

#include "control/event/anchors.h"
#include "control/control.h"
#include "control/sandbox/copy_slots.h"
#include "control/egress/egress_tail.h"
#include "lib/map/map.h"
#include "control/layer/layers.h"
#include "control/layer/digest_queue.h"
#include "control/meters.h"
#include "control/egress/egress_link.h"
#include "control/owner/owners.h"
#include "control/sandbox/pool.h"
#include "engine/fetcher/fetcher.h"
#include "lib/quota/quota.h"
#include "lib/quota/rate.h"

enum {
    EXTENSIONS_MAX = 16,
    CONTROL_ARENA_MAX = 8 << 20, /* for the answers of one request */
};

struct control {
    struct keyring *keys; /* from the setup; NULL: none */
    bool rotating;
    struct loop *loop;
    struct thread_pool *work;
    const struct config *config;
    uid_t owner; /* an administrator like root */
    struct store *store;
    struct catalog *catalog;
    struct json_strs profiles; /* directories */
    struct control_storage storage;
    struct backend_context context;
    int (*mirror)(void *user, const struct control_sync *m, struct err *e);
    int (*grant)(void *user, const struct control_grant *g, struct control_request *q,
                 struct err *e);
    void (*cancel)(void *user, struct control_request *q);
    void (*forget_grant)(void *user, const char *sandbox);
    int (*headers)(void *user, int *ret, struct err *e);
    int (*egress_worker)(void *user, int *ret, uint64_t *ret_id, struct err *e);
    void (*end_egress_worker)(void *user, uint64_t id);
    int (*egress_places)(void *user, uint64_t id, const struct gate_place *list, size_t n,
                         struct control_request *q, struct err *e);
    int (*layer_worker)(void *user, int *ret, struct err *e);
    struct extension *instances[EXTENSIONS_MAX]; /* parallel to extensions[] */
    struct map sandboxes;                        /* every sandbox that is not destroyed */
    struct map owners, families;                 /* sandboxes per owner and per family of tokens */
    struct {
        uint64_t memory;
        uint32_t pids;
    } share; /* of one owner, unless configured */
    struct map snapshots;
    struct quota output;              /* bytes of processes' output, by owner, token and sandbox */
    struct quota processes;           /* background processes, by owner and token */
    struct quota stored;              /* bytes of snapshots, by owner and token */
    struct quota taken;               /* snapshots, by owner and token */
    struct copy_slots copies;         /* of workspaces, by owner and token */
    struct tokens *tokens;            /* NULL: not open */
    struct rate events, token_events; /* by owner, and by token; control/event/event_share.h */
    int64_t prune_at;                 /* seq of the event that triggers an early pruning */
    struct layers layers;
    struct digest_queue digest_queue;
    unsigned digests; /* under way, with a waiting caller */
    struct list subscribers;
    struct pool pool;
    struct egress_links egress_links;
    struct egress_tail egress_tail;
    struct anchors anchors;
    struct list audit_checks; /* under way */
    struct meters meters;
    char boot[RECORD_BOOT_MAX];

    /* after a start: boxes of earlier daemon runs that have not answered yet */
    size_t adopting;
    bool open;
    /* A record failed to parse, so orphan clean-up is disabled: its resources would look
     * unowned. */
    bool unreadable;
    size_t failed; /* sandboxes in the map without a box */
    struct loop_timer prune, usage;
    bool pruning;          /* a batch is under way */
    int64_t prune_logs_ns; /* CLOCK_MONOTONIC: the next scan of egress logs */
    void (*on_open)(void *user);
    void (*on_closed)(void *user);
    void *user;
    struct loop_later later;

    struct fetcher fetcher;                /* requests to registries and the hub */
    struct event_delivery *event_delivery; /* NULL: there is no hub */
    struct images *images;
    struct snapshot_flatten *flatten_queue; /* the current one */
    size_t changes;                         /* operations under way, which closing waits for */
    struct loop_timer closing;
    int64_t close_by;
};

/* The instance of a backend; NULL: unknown. */
struct extension *control_backend(struct control *c, const char *id,
                                  const struct backend_ops **ret);

/* Whether a box of that id belongs to a sandbox or to the pool. */
bool control_knows(void *control, const char *id);

/* Recovers the sandboxes of earlier daemon runs. */
int control_recover(struct control *c, struct err *e);
void control_note_adopted(struct control *c); /* a box has answered */

int64_t clock_boot(void);

/* --- sealed_env.c --- */

int control_open_secrets(struct control *c, struct keyring *keys, struct err *e);

#endif
