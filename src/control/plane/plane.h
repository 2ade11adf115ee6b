/* SPDX-License-Identifier: Apache-2.0 */
/* The shared state of the control plane, for its parts. */
#ifndef CONTROL_PLANE_PLANE_H
#define CONTROL_PLANE_PLANE_H

#include "backends/backend.h"
#include "control/plane/access.h"
#include "control/plane/publish.h"
#include "control/plane/supervisor.h"
#include "domain/config/config.h"
#include "domain/profile/catalog.h"
#include "domain/store/store.h"
#include "engine/fetcher/fetcher.h"
#include "lib/loop/timer.h"
#include "lib/map/map.h"
#include "lib/quota/quota.h"
#include "lib/quota/rate.h"

struct base_image;

enum {
    BACKENDS_MAX = 16,
    CONTROL_ARENA_MAX = 8 << 20, /* for the answers of one request */
};

/* The state that the parts of the control plane share. Each part has a struct of its own. */
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
    struct supervisor supervisor;
    struct backend *instances[BACKENDS_MAX]; /* parallel to backends[] */
    struct map sandboxes;                    /* every sandbox that is not destroyed */
    struct map names;                        /* of those that have one: control/sandbox/names.h */
    struct map owners, families;             /* sandboxes per owner and per family of tokens */
    struct {
        uint64_t memory;
        uint32_t pids;
    } share; /* of one owner, unless configured */
    struct map snapshots;
    struct map checkpoints;            /* by sandbox: control/snapshot/checkpoints.h */
    struct quota output;               /* bytes of processes' output, by owner, token and sandbox */
    struct quota processes;            /* background processes, by owner and token */
    struct quota stored;               /* bytes of snapshots, by owner and token */
    struct quota taken;                /* snapshots, by owner and token … */
    struct quota checkpointed;         /* … and checkpoints */
    struct quota checkpoint_bytes;     /* a sum without a limit, by owner */
    struct commands *commands;         /* control/event/commands.h */
    struct copy_slots *copies;         /* of workspaces: control/sandbox/copy_slots.h */
    struct grant_slots *grants;        /* of workspaces: control/sandbox/grant_slots.h */
    struct tokens *tokens;             /* NULL: not open */
    struct rate events, token_events;  /* by owner, and by token; control/owner/event_share.h */
    int64_t prune_at;                  /* seq of the event that triggers an early pruning */
    struct layers *layers;             /* control/layer/layers.h */
    struct digest_queue *digest_queue; /* control/layer/digest_queue.h */
    struct dedup *dedup;               /* under way: control/snapshot/dedup.c; NULL: none */
    struct layer_slots *layer_slots;   /* control/layer/layer_slots.h */
    struct list subscribers;
    struct pool *pool;                 /* control/sandbox/pool.h */
    struct egress_links *egress_links; /* control/egress/egress_link.h */
    struct egress_tail *egress_tail;   /* control/egress/egress_tail.h */
    struct anchors *anchors;           /* control/egress/anchors.h */
    struct list audit_checks;          /* under way */
    struct meters *meters;             /* control/meters.h */
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
struct backend *control_backend(struct control *c, const char *id, const struct backend_ops **ret);

/* --- answered by control/sandbox, for the parts below it --- */

/* Whether a box of that id belongs to a sandbox or to the pool. */
bool control_knows(void *control, const char *id);
/* The record of a sandbox that is not destroyed; NULL: unknown. */
const struct sandbox_record *control_record(const struct control *c, const char *id);
/* Whether such a record is on disk. */
bool control_has_record(const struct control *c, const char *id);
/* Bytes of the sandbox went out or came in: a use of it. */
void control_note_egress(struct control *c, const char *id);
unsigned control_pool_ready(const struct control *c); /* boxes that can be handed out now */
/* The base image of each sandbox and snapshot, with its id. */
typedef void base_image_fn(void *user, const struct base_image *b, const char *id);
void control_each_base(struct control *c, base_image_fn *each, void *user);

/* --- for control/plane.c --- */

/* Recovers the sandboxes of earlier daemon runs. */
int control_recover(struct control *c, struct err *e);
void control_note_adopted(struct control *c); /* a box has answered */

int64_t clock_boot(void);

/* --- store_keys.c --- */

int control_open_secrets(struct control *c, struct err *e);

#endif
