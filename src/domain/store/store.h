/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's persistent state: SQLite, one writer, behind asynchronous calls.
 *
 * A change is a transaction that its owner fills and commits. Commits run in order on a thread of
 * the pool, all pending transactions are committed together (one write for many callers), and
 * `done` is called from the loop when the change is committed, or has failed without any effect:
 *
 *     store_txn_begin(&x->txn, s);
 *     store_put_sandbox(&x->txn, &record);
 *     store_add_event(&x->txn, &event);
 *     store_commit(&x->txn, on_committed);
 *
 * Records in a transaction are copied. A query also belongs to its owner and fills an arena of its
 * own. Only the calls marked "Blocks" block the loop's thread. A failed write (disk full, I/O
 * error, locked by another process) fails its transaction with an error and leaves the store
 * usable. */
#ifndef DOMAIN_STORE_STORE_H
#define DOMAIN_STORE_STORE_H

#include "base/arena.h"
#include "base/err.h"
#include "lib/loop/loop.h"
#include "domain/model/record.h"
#include "domain/store/ledger.h"
#include "lib/threads/threads.h"

struct store;
struct keyring;

enum { STORE_GAP_MAX = 128 };

/* Opens or makes DIR/sandboxer.db (0600). Upgrades an older schema, and keeps a copy of the old
 * file. Rejects, without changing it, a file with a newer schema, a damaged file, or a file of
 * another program. -ERR_BUSY if another daemon has the store open. Blocks. */
int store_open(int dir, struct loop *l, struct thread_pool *w, struct store **ret, struct err *e);
/* Whether store_open() would accept the header of DIR/sandboxer.db, or there is none. 1 if another
 * process has the store open. Makes and changes nothing. Not in a process that has it open. */
int store_probe(int dir, struct err *e);
/* Finishes all transactions and queries (their callbacks are called), then closes. Blocks. Call it
 * before the pool and the loop are freed, and not from a callback of the store. */
void store_close(struct store *s);

/* Whether a hub receives events; initially not. Events added while a hub is set are in the outbox
 * until store_outbox_sent(). */
void store_hub(struct store *s, bool on);

/* How many events store_prune() keeps; 0, the initial value: all. */
void store_keep_events(struct store *s, uint64_t n);

/* Call it before a new sandbox or the like: -ERR_FULL while the disk is full and the remaining
 * space is reserved for removals. */
int store_check_room(const struct store *s, struct err *e);

/* Seals secrets with these keys from now on (domain/store/sqlite/seal.c), and seals existing secrets
 * again that are not sealed with the active key. Call it before the first transaction; without it,
 * secrets are not sealed. Blocks. The keyring must outlive the store. */
int store_seal_with(struct store *s, struct keyring *k, struct err *e);

/* Chains events from now on (domain/store/ledger.h); makes the chain's key at the first call. Call it
 * after store_seal_with() and before the first transaction; without it, events are not chained.
 * Blocks. */
int store_open_ledger(struct store *s, struct err *e);
/* The key from which the chains of egress logs are derived; NULL without a ledger. */
const unsigned char *store_ledger_key(const struct store *s);

struct store_txn;
typedef void store_done_fn(struct store_txn *t, int r, const struct err *e);

/* A transaction, embedded in its owner. */
struct store_txn {
    struct store *store;
    store_done_fn *done_;
    struct link link_;
    struct arena arena_;
    struct list ops_;
    bool durable; /* done is called when the change survives a power failure; other changes survive
                     only the end of the process, unless the same commit has a durable one */
    int64_t first_seq, last_seq; /* of its events, set before done; 0 without events */
    struct store_pruned {
        int64_t time_ns;
        int rows; /* the maximum of the rows removed per kind */
        /* events that were removed before the hub received them; first 0: none */
        struct {
            int64_t n, first, last;
        } unsent;
    } pruned; /* set before done */
    int result_;
    struct err err_;
};

void store_txn_begin(struct store_txn *t, struct store *s);
void store_commit(struct store_txn *t, store_done_fn *done);

void store_put_sandbox(struct store_txn *t, const struct sandbox_record *r); /* insert or replace */
/* The commit assigns the event's seq, in the order of commits: see first_seq, last_seq. */
void store_add_event(struct store_txn *t, const struct event_record *r);
void store_put_process(struct store_txn *t, const struct process_record *r);
/* Removing an absent record, here and below, is not an error. */
void store_delete_process(struct store_txn *t, const char *sandbox, uint32_t proc);
void store_put_egress(struct store_txn *t, const struct egress_record *r);
/* The store computes the MAC. The sandbox must have a record. Does nothing without a ledger. */
void store_put_egress_head(struct store_txn *t, const struct egress_head_record *r);
void store_put_token(struct store_txn *t, const struct token_record *r);
/* Revokes the token, unless it is revoked already or absent. */
void store_end_token(struct store_txn *t, const char *id, int64_t revoked_ns);
void store_put_host(struct store_txn *t, const struct host_record *r);
void store_remove_host(struct store_txn *t, const char *name);
void store_put_peer(struct store_txn *t, const struct peer_record *r);
void store_remove_peer(struct store_txn *t, const char *id);
/* Fails the whole transaction with -ERR_CONFLICT if the id exists. */
void store_add_approval(struct store_txn *t, const struct approval_record *r);
/* Writes the new state, decision and result. Fails the whole transaction with -ERR_CONFLICT if the
 * stored state is not `from`. */
void store_move_approval(struct store_txn *t, const struct approval_record *r,
                         enum approval_state from);
void store_put_grant(struct store_txn *t, const struct grant_record *r);
void store_remove_grant(struct store_txn *t, const char *id);
/* The following changes refer to trees on disk, so they make their transaction durable: if a power
 * failure undid it, trees would be orphaned, or records would name deleted trees. */
void store_put_snapshot(struct store_txn *t, const struct snapshot_record *r);
/* Does nothing if the snapshot is absent. */
void store_set_snapshot_layers(struct store_txn *t, const char *id, const char *layers);
void store_remove_snapshot(struct store_txn *t, const char *id);
void store_put_image(struct store_txn *t, const struct image_record *r);
void store_remove_image(struct store_txn *t, const char *ref);
void store_put_layer(struct store_txn *t, const struct layer_record *r);
void store_remove_layer(struct store_txn *t, const char *name);
/* Fails the whole transaction with -ERR_CONFLICT if the owner already has the key. */
void store_put_idempotency(struct store_txn *t, const struct idempotency_record *r);
void store_set(struct store_txn *t, const char *key,
               const char *value); /* small settings and cursors */
void store_unset(struct store_txn *t, const char *key);
/* Seals every secret with the keyring's active key. */
void store_reseal(struct store_txn *t);
/* Forces all earlier commits to disk; changes nothing by itself. */
void store_force(struct store_txn *t);
/* The hub has received this event. */
void store_outbox_sent(struct store_txn *t, int64_t seq);
/* Removes sandboxes that were destroyed before their time limit, with all their records; events
 * that are older than their time limit or beyond the number to keep (store_keep_events()); and
 * decided held calls and ended tokens of the same age. While a hub is set, events in the outbox
 * remain, unless they are beyond the number to keep: the transaction then adds the event
 * `events.dropped` for the hub. Removes at most `limit` rows per kind. */
void store_prune(struct store_txn *t, int64_t sandboxes_before_ns, int64_t events_before_ns,
                 int limit);
/* The event that a committed store_prune() has added; false if it added none. `detail` is a buffer
 * for its text. */
bool store_gap_event(const struct store_txn *t, char detail[static STORE_GAP_MAX],
                     struct event_record *ret);

/* Reads. */
enum store_query_kind {
    STORE_SANDBOX,   /* by id */
    STORE_PREFIX,    /* ids that begin with text, of the owner and with the labels, at most 2, live
                        ones first; -ERR_INVALID if more than a thousand ids have the prefix */
    STORE_SANDBOXES, /* a page by filter, newest first unless `ascending` */
    STORE_LIVE,      /* sandboxes that are not destroyed, for the start */
    STORE_DUE,       /* live sandboxes with a deadline, by deadline */
    STORE_EVENTS,    /* after after_seq, from time_ns on and before until_ns (0: to the end), of one
                        sandbox and owner, or of all sandboxes with the labels. With text: of that
                        type. Ascending; `latest`: the last ones, descending */
    STORE_EVENT_COUNTS, /* number of events from time_ns on, per owner */
    STORE_HISTORY,      /* events of a sandbox from time_ns on, ascending; or up to it, descending.
                           With text: only events with the text in type or reason */
    STORE_PROCESSES,    /* of a sandbox */
    STORE_EGRESS,       /* of a sandbox */
    STORE_TOKENS,       /* that are valid at time_ns */
    STORE_TOKENS_REVOKED, /* latest first */
    STORE_TOKENS_EXPIRED, /* … before time_ns, latest first */
    STORE_HOSTS,
    STORE_IDEMPOTENCY, /* by owner and key */
    STORE_OUTBOX,      /* events that the hub has not received, ascending */
    STORE_SETTING,     /* by key */
    STORE_SETTINGS,    /* whose keys begin with text, which ends in a dot */
    STORE_PEERS,
    STORE_APPROVAL,          /* by id, and owner */
    STORE_APPROVALS_OPEN,    /* open ones, oldest first */
    STORE_APPROVALS_WAITING, /* the same, without arguments and results */
    STORE_APPROVALS,         /* … a page, of an owner or of all, newest first, also without */
    STORE_GRANTS,
    STORE_SNAPSHOTS,
    STORE_IMAGES,       /* by reference, those greater than text */
    STORE_LAYERS,       /* by name, those greater than text */
    STORE_LEDGER,       /* continues `walk`, for at most `limit` events */
    STORE_EGRESS_HEADS, /* of one sandbox; or a page, those greater than text */
    STORE_BACKUP,       /* writes a copy of the store to `fd`, which must be blocking */
};

struct store_setting {
    const char *key, *value;
};

struct store_count {
    char owner[OWNER_MAX];
    uint64_t n;
};

struct store_query;
typedef void store_answer_fn(struct store_query *q, int r, const struct err *e);

/* Which events, of programs (domain/model/command.h) and others. */
enum store_commands { COMMANDS_LEFT_OUT, COMMANDS_TOO, COMMANDS_ALONE };

struct store_query {
    enum store_query_kind kind;
    uint32_t states; /* bits of enum sandbox_state; 0: all */
    /* parameters; texts are borrowed until the answer */
    struct str text;  /* id, prefix, key, or a text to search for */
    struct str owner; /* empty: all owners */
    struct str sandbox;
    struct str profile; /* or the snapshot, image or token that the sandbox was made from or by */
    struct json_map labels;
    bool ascending;
    struct {
        int64_t created_ns;
        char id[ID_MAX];
    } after; /* paging: the last row of the previous page; id "": from the start, or, if
              * ascending, from created_ns on */
    int64_t after_seq;
    int64_t before_seq;           /* of STORE_EVENTS; 0: no bound */
    enum store_commands commands; /* of STORE_EVENTS */
    int64_t time_ns;
    int64_t until_ns;
    bool latest;
    int limit; /* rows; 0: all */
    int fd;
    struct ledger_walk *walk; /* borrowed until the answer */
    /* the answer */
    struct arena arena; /* holds the rows below; the owner calls arena_done() */
    union {
        struct sandbox_record *sandboxes;
        struct event_record *events;
        struct store_count *counts;
        struct process_record *processes;
        struct egress_record *egress;
        struct token_record *tokens;
        struct host_record *hosts;
        struct idempotency_record *idempotency;
        struct peer_record *peers;
        struct approval_record *approvals;
        struct grant_record *grants;
        struct snapshot_record *snapshots;
        struct image_record *images;
        struct layer_record *layers;
        struct egress_head_record *egress_heads;
        struct ledger_anchor *anchors; /* found by the walk */
        const char *setting;           /* NULL: not set */
        struct store_setting *settings;
        void *rows;
    };
    size_t n;
    /* private */
    struct link link_;
    store_answer_fn *answer_;
    const unsigned char *ledger_key_;
    int result_;
    struct err err_;
};

/* Runs the query on the pool; `answer` is called once, from the loop. The query sees every commit
 * whose done was called before. -ERR_BUSY if too many queries are pending. */
int store_ask(struct store *s, struct store_query *q, store_answer_fn *answer, struct err *e);
/* Like store_ask(), for the start, before the loop runs. Blocks. */
int store_ask_now(struct store *s, struct store_query *q, struct err *e);
/* Like store_commit(), for the start. Blocks. */
int store_commit_now(struct store_txn *t, struct err *e);

#endif
