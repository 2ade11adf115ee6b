/* Every statement there is: prepared once a connection, and each checked to find its rows by an
 * index. */
#ifndef STORE_SQL_H
#define STORE_SQL_H

enum sql {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_SAVEPOINT,
    SQL_RELEASE,
    SQL_ROLLBACK_TO,

    SQL_MOVE_SANDBOX, /* nothing that an index holds has changed */
    SQL_PUT_SANDBOX,
    SQL_DROP_TAG,
    SQL_PUT_TAG,
    SQL_ADD_EVENT,
    SQL_ADD_OUTBOX,
    SQL_DROP_OUTBOX,
    SQL_PUT_PROCESS,
    SQL_DROP_PROCESS,
    SQL_PUT_EGRESS,
    SQL_PUT_TOKEN,
    SQL_PUT_HOST,
    SQL_DROP_HOST,
    SQL_ADD_IDEMPOTENCY,
    SQL_PUT_SETTING,
    SQL_PUT_PEER,
    SQL_DROP_PEER,
    SQL_ADD_APPROVAL,
    SQL_MOVE_APPROVAL, /* only from the state that it is thought to be in */
    SQL_OLD_APPROVALS,
    SQL_DROP_APPROVAL,
    SQL_PUT_GRANT,
    SQL_PUT_IMAGE,
    SQL_DROP_IMAGE,
    SQL_PUT_LAYER,
    SQL_DROP_LAYER,
    SQL_DROP_GRANT,
    SQL_PUT_SNAPSHOT,
    SQL_DROP_SNAPSHOT,
    SQL_OLD_SANDBOXES,
    SQL_DROP_IDEMPOTENCY,
    SQL_DROP_SANDBOX,
    SQL_OLD_EVENTS,
    SQL_DROP_EVENT,

    SQL_SANDBOX,
    SQL_PREFIX,
    SQL_PAGE, /* these four give created_ns and id only */
    SQL_PAGE_OWNER,
    SQL_PAGE_TAG,
    SQL_PAGE_TAG_OWNER,
    SQL_LIVE,
    SQL_DUE,
    SQL_EVENTS,
    SQL_EVENTS_SANDBOX,
    SQL_EVENTS_OWNER,
    SQL_EVENTS_LABELS,
    SQL_EVENTS_OWNER_LABELS,
    SQL_PROCESSES,
    SQL_EGRESS,
    SQL_TOKENS,
    SQL_HOSTS,
    SQL_IDEMPOTENCY,
    SQL_OUTBOX,
    SQL_SETTING,
    SQL_PEERS,
    SQL_APPROVAL,
    SQL_APPROVALS_OPEN,
    SQL_APPROVALS_WAITING,
    SQL_APPROVALS,
    SQL_APPROVALS_OWNER,
    SQL_IMAGES,
    SQL_LAYERS,
    SQL_GRANTS,
    SQL_SNAPSHOTS,
    SQL_COUNT_,
};

extern const char *const sql_texts[SQL_COUNT_];

#endif
