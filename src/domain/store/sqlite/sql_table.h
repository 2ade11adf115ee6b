/* SPDX-License-Identifier: Apache-2.0 */
/* All statements, SQL(NAME, TEXT), for the enum in sql.h and the texts in sql.c, which defines the
 * lists of columns. */
SQL(SQL_BEGIN, "BEGIN IMMEDIATE")
SQL(SQL_COMMIT, "COMMIT")
SQL(SQL_ROLLBACK, "ROLLBACK")
SQL(SQL_SAVEPOINT, "SAVEPOINT txn")
SQL(SQL_RELEASE, "RELEASE txn")
SQL(SQL_ROLLBACK_TO, "ROLLBACK TO txn")

/* an update that changes no indexed column */
SQL(SQL_MOVE_SANDBOX,
    "UPDATE sandboxes SET state = ?3, profile_version = ?5, extension = ?6, host = ?7,"
    " updated_ns = ?9, ready_ns = ?10, finished_ns = ?11, ttl_ns = ?12, ttl_max_ns = ?13,"
    " idle_ns = ?14, boot = ?16, reason = ?17, step = ?18, request = ?19, detail = ?20"
    " WHERE id = ?1 AND live = ?25 AND owner = ?2 AND profile = ?4 AND created_ns = ?8"
    " AND deadline_ns = ?15 AND labels = ?21")
SQL(SQL_PUT_SANDBOX,
    "INSERT INTO sandboxes (" SANDBOX ", live) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
    " ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)"
    " ON CONFLICT (id) DO UPDATE SET owner = ?2, state = ?3, profile = ?4,"
    " profile_version = ?5, extension = ?6, host = ?7, created_ns = ?8, updated_ns = ?9,"
    " ready_ns = ?10, finished_ns = ?11, ttl_ns = ?12, ttl_max_ns = ?13, idle_ns = ?14,"
    " deadline_ns = ?15, boot = ?16, reason = ?17, step = ?18, request = ?19, detail = ?20,"
    " labels = ?21, maker = ?22, family = ?23, name = ?24, live = ?25")
SQL(SQL_DELETE_TAG, "DELETE FROM tags WHERE key = ?1 AND value = ?2 AND owner = ?3 AND live = ?4"
                    " AND created_ns = ?5 AND id = ?6")
SQL(SQL_PUT_TAG, "INSERT INTO tags (key, value, owner, live, created_ns, id)"
                 " VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
SQL(SQL_ADD_EVENT, "INSERT INTO events (" EVENT ", chain)"
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")
SQL(SQL_ADD_OUTBOX, "INSERT INTO outbox (seq) VALUES (?1)")
SQL(SQL_DELETE_OUTBOX, "DELETE FROM outbox WHERE seq = ?1")
SQL(SQL_PUT_PROCESS, "INSERT INTO processes (" PROCESS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
                     " ON CONFLICT (sandbox, proc) DO UPDATE SET spec = ?3, started_ns = ?4,"
                     " exited_ns = ?5, ended = ?6, how = ?7, status = ?8")
SQL(SQL_DELETE_PROCESS, "DELETE FROM processes WHERE sandbox = ?1 AND proc = ?2")
SQL(SQL_ERASE_SPECS, "UPDATE processes SET spec = ?2 WHERE sandbox = ?1")
SQL(SQL_PUT_EGRESS, "INSERT INTO egress (" EGRESS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
                    " ON CONFLICT (sandbox) DO UPDATE SET generation = ?2, endpoints = ?3,"
                    " policy = ?4, approved = ?5, admin = ?6, most = ?7")
SQL(SQL_PUT_TOKEN,
    "INSERT INTO tokens (" TOKEN ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
    " ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)"
    " ON CONFLICT (id) DO UPDATE SET hash = ?2, name = ?3, owner = ?4, actor = ?5,"
    " verbs = ?6, labels = ?7, gateway = ?8, created_ns = ?9, expires_ns = ?10,"
    " revoked_ns = ?11, role = ?12, preset = ?13, per_hour = ?14, per_day = ?15,"
    " concurrent = ?16, calls = ?17, network = ?18, filesystem = ?19, duration_s = ?20,"
    " memory_mb = ?21, cpu_milli = ?22, egress = ?23, maker = ?24")
SQL(SQL_END_TOKEN, "UPDATE tokens SET revoked_ns = ?2 WHERE id = ?1 AND revoked_ns = 0")
SQL(SQL_OLD_TOKENS, "SELECT id FROM tokens WHERE revoked_ns > 0 AND revoked_ns < ?1 LIMIT ?2")
SQL(SQL_EXPIRED_TOKENS, "SELECT id FROM tokens WHERE expires_ns > 0 AND expires_ns < ?1 LIMIT ?2")
SQL(SQL_DELETE_TOKEN, "DELETE FROM tokens WHERE id = ?1")
SQL(SQL_PUT_HOST, "INSERT INTO hosts (" HOST ") VALUES (?1, ?2, ?3, ?4)"
                  " ON CONFLICT (name) DO UPDATE SET address = ?2, added_ns = ?3, labels = ?4")
SQL(SQL_DELETE_HOST, "DELETE FROM hosts WHERE name = ?1")
SQL(SQL_ADD_IDEMPOTENCY, "INSERT INTO idempotency (" IDEMPOTENCY ") VALUES (?1, ?2, ?3, ?4, ?5)")
SQL(SQL_PUT_SETTING, "INSERT INTO settings (key, value) VALUES (?1, ?2)"
                     " ON CONFLICT (key) DO UPDATE SET value = ?2")
SQL(SQL_DELETE_SETTING, "DELETE FROM settings WHERE key = ?1")
SQL(SQL_PUT_PEER,
    "INSERT INTO peers (" PEER ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
    " ON CONFLICT (id) DO UPDATE SET hash = ?2, owner = ?3, actor_kind = ?4, actor = ?5,"
    " uid = ?6, role = ?7, client = ?8, created_ns = ?9, seen_ns = ?10, ended_ns = ?11,"
    " labels = ?12")
SQL(SQL_DELETE_PEER, "DELETE FROM peers WHERE id = ?1")
SQL(SQL_ADD_APPROVAL,
    "INSERT INTO approvals (" APPROVAL ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
    " ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)")
/* only from the state that the caller expects */
SQL(SQL_MOVE_APPROVAL, "UPDATE approvals SET state = ?10, decided_ns = ?13, finished_ns = ?14,"
                       " approver = ?15, reason = ?16, failed = ?17, result = ?19"
                       " WHERE id = ?1 AND state = ?22")
SQL(SQL_OLD_APPROVALS, "SELECT id FROM approvals INDEXED BY approvals_page"
                       " WHERE created_ns < ?1 AND state >= 3 ORDER BY created_ns DESC, id"
                       " LIMIT ?2")
SQL(SQL_DELETE_APPROVAL, "DELETE FROM approvals WHERE id = ?1")
SQL(SQL_PUT_GRANT, "INSERT INTO grants (" GRANT ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
                   " ON CONFLICT (id) DO UPDATE SET uses = ?7, expires_ns = ?8")
SQL(SQL_PUT_IMAGE, "INSERT INTO images (" IMAGE ") VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
                   " ON CONFLICT (ref) DO UPDATE SET digest = ?2, id = ?3, config = ?4,"
                   " layers = ?5, created_ns = ?6")
SQL(SQL_DELETE_IMAGE, "DELETE FROM images WHERE ref = ?1")
SQL(SQL_PUT_LAYER, "INSERT INTO layers (" LAYER ") VALUES (?1, ?2, ?3, ?4, ?5)"
                   " ON CONFLICT (name) DO UPDATE SET measure = ?2, bytes = ?3, entries = ?4,"
                   " created_ns = ?5")
SQL(SQL_DELETE_LAYER, "DELETE FROM layers WHERE name = ?1")
SQL(SQL_DELETE_GRANT, "DELETE FROM grants WHERE id = ?1")
SQL(SQL_PUT_SNAPSHOT, "INSERT INTO snapshots (" SNAPSHOT
                      ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
                      " ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)"
                      " ON CONFLICT (id) DO UPDATE SET name = ?3, layers = ?12")
SQL(SQL_SET_SNAPSHOT_LAYERS, "UPDATE snapshots SET layers = ?2 WHERE id = ?1")
SQL(SQL_DELETE_SNAPSHOT, "DELETE FROM snapshots WHERE id = ?1")
SQL(SQL_OLD_SANDBOXES,
    "SELECT id FROM sandboxes INDEXED BY sandboxes_old WHERE live = 0 AND updated_ns < ?1"
    " ORDER BY updated_ns LIMIT ?2")
SQL(SQL_DELETE_IDEMPOTENCY, "DELETE FROM idempotency WHERE sandbox = ?1")
SQL(SQL_DELETE_SANDBOX, "DELETE FROM sandboxes WHERE id = ?1")
SQL(SQL_OLD_EVENTS, "SELECT events.seq, time_ns, outbox.seq IS NOT NULL, chain FROM events"
                    " LEFT JOIN outbox ON outbox.seq = events.seq"
                    " WHERE events.seq > ?1 ORDER BY events.seq")
SQL(SQL_LAST_EVENT, "SELECT seq FROM events WHERE seq > 0 ORDER BY seq DESC LIMIT 1")
SQL(SQL_DELETE_EVENT, "DELETE FROM events WHERE seq = ?1")
SQL(SQL_PUT_LEDGER,
    "INSERT INTO ledger (n, first, seq, digest, pruned_ns, mac) VALUES (1, ?1, ?2, ?3, ?4, ?5)"
    " ON CONFLICT (n) DO UPDATE SET first = ?1, seq = ?2, digest = ?3, pruned_ns = ?4,"
    " mac = ?5")
SQL(SQL_PUT_CUT, "INSERT INTO event_cuts (first, last, digest, mac) VALUES (?1, ?2, ?3, ?4)"
                 " ON CONFLICT (last) DO UPDATE SET first = ?1, digest = ?3, mac = ?4")
SQL(SQL_DELETE_CUT, "DELETE FROM event_cuts WHERE last = ?1")
SQL(SQL_PUT_EGRESS_HEAD,
    "INSERT INTO egress_heads (" EGRESS_HEAD ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
    " ON CONFLICT (sandbox) DO UPDATE SET seq = ?2, digest = ?3, cut_seq = ?4,"
    " cut_digest = ?5, time_ns = ?6, mac = ?7")

SQL(SQL_SANDBOX, "SELECT " SANDBOX " FROM sandboxes WHERE id = ?1 AND (?2 = '' OR owner = ?2)")
SQL(SQL_PREFIX, "SELECT " SANDBOX " FROM sandboxes WHERE id >= ?1 AND id < ?2"
                " ORDER BY id")
/* all SQL_PAGE…: newest first, UP: oldest first; created_ns and id only */
SQL(SQL_PAGE, PAGE("sandboxes", ""))
SQL(SQL_PAGE_OWNER, PAGE("sandboxes", OWNED))
SQL(SQL_PAGE_TAG, PAGE("tags", TAGGED))
SQL(SQL_PAGE_TAG_OWNER, PAGE("tags", TAGGED_OWNED))
SQL(SQL_PAGE_UP, PAGE_UP("sandboxes", ""))
SQL(SQL_PAGE_UP_OWNER, PAGE_UP("sandboxes", OWNED))
SQL(SQL_PAGE_UP_TAG, PAGE_UP("tags", TAGGED))
SQL(SQL_PAGE_UP_TAG_OWNER, PAGE_UP("tags", TAGGED_OWNED))
SQL(SQL_LIVE, "SELECT " SANDBOX " FROM sandboxes WHERE live = 1 ORDER BY created_ns DESC, id"
              " LIMIT ?1")
SQL(SQL_DUE, "SELECT " SANDBOX " FROM sandboxes INDEXED BY sandboxes_due WHERE live = 1"
             " AND deadline_ns > 0"
             " ORDER BY deadline_ns LIMIT ?1")
/* Each is followed by the same with the newest first. */
SQL(SQL_EVENTS, EVENTS("", "") OLDEST_FIRST)
SQL(SQL_EVENTS_DOWN, EVENTS("", "") NEWEST_FIRST)
SQL(SQL_EVENTS_TYPE, EVENTS("", "INDEXED BY events_type") " AND type = ?6" OLDEST_FIRST)
SQL(SQL_EVENTS_TYPE_DOWN, EVENTS("", "INDEXED BY events_type") " AND type = ?6" NEWEST_FIRST)
SQL(SQL_EVENTS_SANDBOX, EVENTS("", "INDEXED BY events_sandbox") OF_SANDBOX OLDEST_FIRST)
SQL(SQL_EVENTS_SANDBOX_DOWN, EVENTS("", "INDEXED BY events_sandbox") OF_SANDBOX NEWEST_FIRST)
SQL(SQL_EVENTS_OWNER, EVENTS("", "INDEXED BY events_owner") " AND owner = ?4" OLDEST_FIRST)
SQL(SQL_EVENTS_OWNER_DOWN, EVENTS("", "INDEXED BY events_owner") " AND owner = ?4" NEWEST_FIRST)
SQL(SQL_EVENTS_LABELS, EVENTS(", " LABELS_OF, "") OLDEST_FIRST)
SQL(SQL_EVENTS_LABELS_DOWN, EVENTS(", " LABELS_OF, "") NEWEST_FIRST)
SQL(SQL_EVENTS_OWNER_LABELS,
    EVENTS(", " LABELS_OF, "INDEXED BY events_owner") " AND owner = ?4" OLDEST_FIRST)
SQL(SQL_EVENTS_OWNER_LABELS_DOWN,
    EVENTS(", " LABELS_OF, "INDEXED BY events_owner") " AND owner = ?4" NEWEST_FIRST)
SQL(SQL_EVENT_FROM, "SELECT seq, time_ns FROM events INDEXED BY events_sandbox"
                    " WHERE sandbox = ?1 AND seq >= ?2 ORDER BY seq LIMIT 1")
SQL(SQL_EVENT_AT, "SELECT seq, time_ns FROM events WHERE seq >= ?2 ORDER BY seq LIMIT 1")
/* the next owner in order */
SQL(SQL_EVENT_OWNER, "SELECT owner FROM events WHERE owner > ?1 ORDER BY owner LIMIT 1")
SQL(SQL_EVENT_COUNT, "SELECT count(*) FROM events WHERE owner = ?1 AND seq >= ?2")
SQL(SQL_HISTORY, HISTORY("seq >= ?2") " ORDER BY seq LIMIT ?4")
SQL(SQL_HISTORY_DOWN, HISTORY("seq < ?2") " ORDER BY seq DESC LIMIT ?4")
SQL(SQL_PROCESSES, "SELECT " PROCESS " FROM processes WHERE sandbox = ?1 ORDER BY proc LIMIT ?2")
SQL(SQL_EGRESS, "SELECT " EGRESS " FROM egress WHERE sandbox = ?1")
SQL(SQL_TOKENS, "SELECT " TOKEN " FROM tokens WHERE revoked_ns = 0"
                " AND (expires_ns = 0 OR expires_ns > ?2) ORDER BY id LIMIT ?1")
SQL(SQL_TOKENS_REVOKED, "SELECT " TOKEN " FROM tokens WHERE revoked_ns > 0"
                        " ORDER BY revoked_ns DESC LIMIT ?1")
SQL(SQL_TOKENS_EXPIRED, "SELECT " TOKEN " FROM tokens WHERE revoked_ns = 0 AND expires_ns > 0"
                        " AND expires_ns <= ?2 ORDER BY expires_ns DESC LIMIT ?1")
SQL(SQL_HOSTS, "SELECT " HOST " FROM hosts ORDER BY name LIMIT ?1")
SQL(SQL_IDEMPOTENCY, "SELECT " IDEMPOTENCY " FROM idempotency WHERE owner = ?1 AND key = ?2")
SQL(SQL_OUTBOX, "SELECT " EVENT " FROM events WHERE seq IN (SELECT seq FROM outbox WHERE seq > ?1"
                " ORDER BY seq LIMIT ?2) ORDER BY seq")
SQL(SQL_SETTINGS, "SELECT value, key FROM settings WHERE key > ?1 AND key < ?2 ORDER BY key")
SQL(SQL_SETTING, "SELECT value FROM settings WHERE key = ?1")
SQL(SQL_PEERS, "SELECT " PEER " FROM peers ORDER BY id LIMIT ?1")
SQL(SQL_APPROVAL, "SELECT " APPROVAL " FROM approvals WHERE id = ?1 AND (?2 = '' OR owner = ?2)")
SQL(SQL_APPROVALS_OPEN, "SELECT " APPROVAL " FROM approvals INDEXED BY approvals_open"
                        " WHERE state < 3 ORDER BY created_ns, id LIMIT ?1")
SQL(SQL_APPROVALS_WAITING, "SELECT " APPROVAL_SHORT " FROM approvals INDEXED BY approvals_open"
                           " WHERE state < 3 ORDER BY created_ns, id LIMIT ?1")
SQL(SQL_APPROVALS, "SELECT " APPROVAL_SHORT " FROM approvals WHERE created_ns <= ?2"
                   " AND (created_ns < ?2 OR id > ?3) ORDER BY created_ns DESC, id LIMIT ?1")
SQL(SQL_APPROVALS_OWNER, "SELECT " APPROVAL_SHORT " FROM approvals WHERE owner = ?4"
                         " AND created_ns <= ?2 AND (created_ns < ?2 OR id > ?3)"
                         " ORDER BY created_ns DESC, id LIMIT ?1")
SQL(SQL_IMAGES, "SELECT " IMAGE " FROM images WHERE ref > ?2 ORDER BY ref LIMIT ?1")
SQL(SQL_LAYERS, "SELECT " LAYER " FROM layers WHERE name > ?2 ORDER BY name LIMIT ?1")
SQL(SQL_GRANTS, "SELECT " GRANT " FROM grants ORDER BY id LIMIT ?1")
SQL(SQL_SNAPSHOTS, "SELECT " SNAPSHOT " FROM snapshots ORDER BY id LIMIT ?1")
SQL(SQL_LEDGER, "SELECT first, seq, digest, pruned_ns, mac FROM ledger WHERE n = 1")
/* by its last seq */
SQL(SQL_CUT, "SELECT first, last, digest, mac FROM event_cuts WHERE last = ?1")
/* by its first seq */
SQL(SQL_CUT_FIRST, "SELECT first, last, digest, mac FROM event_cuts WHERE first = ?1")
SQL(SQL_CHAINED, "SELECT " EVENT ", chain FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2")
SQL(SQL_EGRESS_HEAD, "SELECT " EGRESS_HEAD " FROM egress_heads WHERE sandbox = ?1")
SQL(SQL_EGRESS_HEADS, "SELECT " EGRESS_HEAD " FROM egress_heads WHERE sandbox > ?2"
                      " ORDER BY sandbox LIMIT ?1")
