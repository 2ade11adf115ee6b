/* The control plane's memory on disk: SQLite, one writer, behind asynchronous calls.
 *
 * A change is a transaction that its owner fills and commits. Commits run in order on the pool's
 * thread, everything that waits is committed together (one write for many callers), and `done` is
 * called from the loop when the change is on disk, or was refused and nothing of it happened:
 *
 *     store_txn_begin(&x->txn, s);
 *     store_put_sandbox(&x->txn, &record);
 *     store_add_event(&x->txn, &event);
 *     store_commit(&x->txn, on_committed);
 *
 * Everything put into a transaction is copied. A query likewise belongs to its owner and fills
 * an arena of its own. No call blocks the loop's thread, except open and close. A failed write
 * (disk full, I/O error, locked by somebody else) fails its transaction with a clear error and
 * leaves the store usable. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/arena.h"
#include "base/err.h"
#include "loop/loop.h"
#include "model/record.h"
#include "store/ledger.h"
#include "work/work.h"

struct store;
struct keyring;

enum { STORE_GAP_MAX = 128 };

/* Opens or makes DIR/sandboxer.db (0600), upgrades an older schema, one backup copy before. Refused
 * with a clear message and the file untouched: a newer schema, a damaged file, somebody else's
 * file. Another daemon that has it open is -ERR_BUSY. Blocks. */
int store_open(int dir, struct loop *l, struct work_pool *w, struct store **ret, struct err *e);
/* Finishes what was committed and asked (their dones and answers are called), then closes. Blocks.
 * Before the pool and the loop are gone, not from inside a done or an answer. */
void store_close(struct store *s);

/* Whether there is a hub that takes events. Events added while there is one wait in the outbox
 * until store_outbox_sent(); without one, which is how a store starts, nothing is kept for it. */
void store_hub(struct store *s, bool on);

/* How many events store_prune() leaves; 0, which is how a store starts: as many as there are. */
void store_keep_events(struct store *s, uint64_t n);

/* Before something new is begun: -ERR_FULL while the disk is full, and what is left is for ends and
 * removals. */
int store_check_room(const struct store *s, struct err *e);

/* Before the first transaction: secrets are sealed with these keys from now on (store/seal.c),
 * and everything that is not sealed with the active one is sealed again. Blocks. Without, nothing
 * is sealed. The keyring must outlive the store. */
int store_seal_with(struct store *s, struct keyring *k, struct err *e);

/* After the keys, before the first transaction: from now on events are chained (store/ledger.h).
 * Makes the chain's key if there is none. Blocks. Without, they are not. */
int store_open_ledger(struct store *s, struct err *e);
/* The key that the chains of egress logs are derived from; NULL: there is no ledger. */
const unsigned char *store_ledger_key(const struct store *s);

struct store_txn;
typedef void store_done_fn(struct store_txn *t, int r, const struct err *e);

/* A member of its owner. */
struct store_txn {
    struct store *store;
    store_done_fn *done_;
    struct link link_;
    struct arena arena_;
    struct list ops_;
    bool durable; /* done is told when a power cut cannot undo it any more; others, which only the
                     end of the process cannot undo, wait as long if they are committed with it */
    int64_t first_seq, last_seq; /* of its events, set before done; 0 without events */
    struct store_pruned {
        int64_t time_ns;
        int rows; /* the most that were removed of one kind */
        /* events that the hub has not taken and never will; first 0: none */
        struct {
            int64_t n, first, last;
        } unsent;
    } pruned; /* set before done */
    int result_;
    struct err err_;
};

void store_txn_begin(struct store_txn *t, struct store *s);
void store_txn_cancel(
    struct store_txn *t); /* one that was not committed; harmless on a zeroed one */
void store_commit(struct store_txn *t, store_done_fn *done);

void store_put_sandbox(struct store_txn *t, const struct sandbox_record *r); /* insert or replace */
/* The event's seq is given at commit and ascends in the order of commits: see first_seq, last_seq.
 */
void store_add_event(struct store_txn *t, const struct event_record *r);
void store_put_process(struct store_txn *t, const struct process_record *r);
/* Nothing there is fine. */
void store_remove_process(struct store_txn *t, const char *sandbox, uint32_t proc);
void store_put_egress(struct store_txn *t, const struct egress_record *r);
/* Its mac is the store's to fill in; the sandbox is on record. Without a ledger nothing happens. */
void store_put_egress_head(struct store_txn *t, const struct egress_head_record *r);
void store_put_token(struct store_txn *t, const struct token_record *r);
/* It is revoked from then on, if it was not before; nothing there is fine. */
void store_end_token(struct store_txn *t, const char *id, int64_t revoked_ns);
void store_put_host(struct store_txn *t, const struct host_record *r);
void store_remove_host(struct store_txn *t, const char *name);
void store_put_peer(struct store_txn *t, const struct peer_record *r);
void store_remove_peer(struct store_txn *t, const char *id);
/* Fails the whole transaction with -ERR_CONFLICT if the id is there already. */
void store_add_approval(struct store_txn *t, const struct approval_record *r);
/* Writes its new state and what came with it. Fails the whole transaction with -ERR_CONFLICT if it
 * is not in the state `from`. */
void store_move_approval(struct store_txn *t, const struct approval_record *r,
                         enum approval_state from);
void store_put_grant(struct store_txn *t, const struct grant_record *r);
void store_remove_grant(struct store_txn *t, const char *id);
/* What names trees that are on disk beside the store, or lets go of them, makes its transaction
 * durable: lost, it would lose them, or name what has been removed since. */
void store_put_snapshot(struct store_txn *t, const struct snapshot_record *r);
/* Of one that is there; one that is not stays away. */
void store_set_snapshot_layers(struct store_txn *t, const char *id, const char *layers);
void store_remove_snapshot(struct store_txn *t, const char *id);
void store_put_image(struct store_txn *t, const struct image_record *r);
void store_remove_image(struct store_txn *t, const char *ref);
void store_put_layer(struct store_txn *t, const struct layer_record *r);
void store_remove_layer(struct store_txn *t, const char *name);
/* Fails the whole transaction with -ERR_CONFLICT if owner and key are there already. */
void store_put_idempotency(struct store_txn *t, const struct idempotency_record *r);
void store_set(struct store_txn *t, const char *key,
               const char *value); /* small settings and cursors */
/* Seals every secret with the keyring's active key. */
void store_reseal(struct store_txn *t);
/* Forces what was committed before to disk; by itself it changes nothing. */
void store_force(struct store_txn *t);
/* The hub has taken this event. */
void store_outbox_sent(struct store_txn *t, int64_t seq);
/* Removes sandboxes that were destroyed before that time with all that belongs to them, and the
 * oldest events up to the first that is not before its time and one of those to keep
 * (store_keep_events()), and held calls that old that are decided, and tokens that ended so long
 * ago. While there is a hub, events
 * that it has not taken stay, unless there are more than are to be kept: then the same transaction
 * adds the event `events.dropped`, which the hub gets. At most `limit` of either at a time. */
void store_prune(struct store_txn *t, int64_t sandboxes_before_ns, int64_t events_before_ns,
                 int limit);
/* The event that a committed store_prune() added. False: none. `detail` takes its text. */
bool store_gap_event(const struct store_txn *t, char detail[static STORE_GAP_MAX],
                     struct event_record *ret);

/* Reads. */
enum store_query_kind {
    STORE_SANDBOX,   /* by id */
    STORE_PREFIX,    /* ids that start with text, of that owner and with these labels, at most 2,
                        live ones first; -ERR_INVALID if it is so short that more than a thousand
                        sandboxes have to be looked at */
    STORE_SANDBOXES, /* a page by filter, newest first unless it is to be ascending */
    STORE_LIVE,      /* everything that is not destroyed, for the start */
    STORE_DUE,       /* unfinished ones, by deadline */
    STORE_EVENTS,    /* after seq, of one sandbox and owner, or of all whose sandbox has the labels,
                        ascending */
    STORE_EVENT_COUNTS, /* events from time_ns on, of each owner who has any */
    STORE_HISTORY,   /* events of a sandbox from time_ns on, ascending; or those up to it, the last
                        first. With text: whose type or reason has it */
    STORE_PROCESSES, /* of a sandbox */
    STORE_EGRESS,    /* of a sandbox */
    STORE_TOKENS,    /* that are good at time_ns */
    STORE_TOKENS_REVOKED, /* the latest first; so are … */
    STORE_TOKENS_EXPIRED, /* … those that expired before time_ns */
    STORE_HOSTS,
    STORE_IDEMPOTENCY, /* by owner and key */
    STORE_OUTBOX,      /* events not taken by the hub yet, ascending */
    STORE_SETTING,     /* by key */
    STORE_PEERS,
    STORE_APPROVAL,          /* by id, and owner */
    STORE_APPROVALS_OPEN,    /* that are under way, oldest first */
    STORE_APPROVALS_WAITING, /* the same, without arguments and results; so is … */
    STORE_APPROVALS,         /* … a page, of an owner or of all, newest first */
    STORE_GRANTS,
    STORE_SNAPSHOTS,
    STORE_IMAGES, /* by their names, those behind text; the same of … */
    STORE_LAYERS,
    STORE_LEDGER,       /* goes on with `walk`, for at most `limit` events */
    STORE_EGRESS_HEADS, /* of one sandbox; or a page, those behind text */
    STORE_BACKUP, /* writes the whole store as of now to the file descriptor fd, which blocks */
};

struct store_count {
    char owner[OWNER_MAX];
    uint64_t n;
};

struct store_query;
typedef void store_answer_fn(struct store_query *q, int r, const struct err *e);

struct store_query {
    enum store_query_kind kind;
    uint32_t states; /* bits of enum sandbox_state; 0: all */
    /* what to look for; texts are borrowed until the answer */
    struct str text;  /* id, prefix, key, or a part of it */
    struct str owner; /* empty: everybody's */
    struct str sandbox;
    struct str
        profile; /* or the id of the snapshot, image or token that they were made from or by */
    struct json_map labels;
    bool ascending;
    struct {
        int64_t created_ns;
        char id[ID_MAX];
    } after; /* paging: the last row of the page before; id "": from the start, or ascending from
              * what was created after that */
    int64_t after_seq;
    int64_t time_ns;
    int limit; /* rows; 0: all */
    int fd;
    struct ledger_walk *walk; /* the caller's, until the answer */
    /* the answer */
    struct arena arena; /* holds everything below; arena_done() by the owner */
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
        struct ledger_anchor *anchors; /* that the walk came by */
        const char *setting;           /* NULL: not set */
        void *rows;
    };
    size_t n;
    /* private */
    struct link link_;
    store_answer_fn *answer_;
    struct keyring *keys_;
    const unsigned char *ledger_key_;
    int result_;
    struct err err_;
};

/* Runs on the pool; the answer comes from the loop, once. Reads see every commit whose done was
 * called before. -ERR_BUSY if too many wait. */
int store_ask(struct store *s, struct store_query *q, store_answer_fn *answer, struct err *e);
/* Blocks; for the start, before the loop runs. */
int store_ask_now(struct store *s, struct store_query *q, struct err *e);
/* Blocks; the same for a change. */
int store_commit_now(struct store_txn *t, struct err *e);

#endif
