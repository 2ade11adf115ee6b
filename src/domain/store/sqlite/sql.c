/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/sqlite/sql.h"

/* The columns in the order of the shapes in row.c. */
#define SANDBOX                                                                                    \
    "id, owner, state, profile, profile_version, extension, host, created_ns, updated_ns, "        \
    "ready_ns, finished_ns, ttl_ns, ttl_max_ns, idle_ns, deadline_ns, boot, reason, step, "        \
    "request, detail, labels, maker, family, name"
#define EVENT                                                                                      \
    "seq, time_ns, type, sandbox, owner, from_state, to_state, actor_kind, actor, reason, detail"
/* Labels of an event's sandbox; NULL if the sandbox has no row. */
#define LABELS_OF "(SELECT labels FROM sandboxes WHERE sandboxes.id = events.sandbox)"
#define PROCESS   "sandbox, proc, spec, started_ns, exited_ns, ended, how, status"
#define EGRESS    "sandbox, generation, endpoints, policy, approved, admin, most"
#define TOKEN                                                                                      \
    "id, hash, name, owner, actor, verbs, labels, gateway, created_ns, expires_ns, revoked_ns, "   \
    "role, preset, per_hour, per_day, concurrent, calls, network, filesystem, duration_s, "        \
    "memory_mb, cpu_milli, egress, maker"
#define HOST "name, address, added_ns, labels"
#define PEER                                                                                       \
    "id, hash, owner, actor_kind, actor, uid, role, client, created_ns, seen_ns, ended_ns, labels"
#define APPROVAL                                                                                   \
    "id, peer, owner, uid, tool, sandbox, version, rule, tier, state, created_ns, expires_ns, "    \
    "decided_ns, finished_ns, approver, reason, failed, args, result, request, labels"
/* Without the long columns, for lists. */
#define APPROVAL_SHORT                                                                             \
    "id, peer, owner, uid, tool, sandbox, version, rule, tier, state, created_ns, expires_ns, "    \
    "decided_ns, finished_ns, approver, reason, failed, '{}', '', request, labels"
#define GRANT "id, peer, tool, sandbox, version, approver, uses, expires_ns"
#define SNAPSHOT                                                                                   \
    "id, owner, name, sandbox, profile, profile_version, created_ns, bytes, entries, pause_ns, "   \
    "image, layers, labels, base, digest, config, family, expires_ns, settings, checkpoint, "      \
    "parent, "                                                                                     \
    "changed, cause"
#define IMAGE       "ref, digest, id, config, layers, created_ns"
#define LAYER       "name, measure, bytes, entries, created_ns"
#define EGRESS_HEAD "sandbox, seq, digest, cut_seq, cut_digest, time_ns, mac"
#define IDEMPOTENCY "owner, key, body, sandbox, created_ns"

/* A page, newest first or last: merges live and destroyed sandboxes, each read in the order of its
 * part of the index. ?1 and ?2 say whether to include live and destroyed ones; the page begins
 * behind the row ?3, ?4. */
#define DOWN "created_ns <= ?3 AND (created_ns < ?3 OR id > ?4)"
#define UP   "created_ns >= ?3 AND (created_ns > ?3 OR id < ?4)"
#define PAGE_PART(wanted, live, from, where, way)                                                  \
    "SELECT created_ns, id FROM " from " WHERE " wanted " AND " where " live = " live " AND " way
#define PAGE_WAY(from, where, way, order)                                                          \
    PAGE_PART("?1", "1", from, where, way)                                                         \
    " UNION ALL " PAGE_PART("?2", "0", from, where, way) " ORDER BY " order
#define PAGE(from, where)    PAGE_WAY(from, where, DOWN, "created_ns DESC, id")
#define PAGE_UP(from, where) PAGE_WAY(from, where, UP, "created_ns, id DESC")

#define TAGGED       "key = ?6 AND value = ?7 AND"
#define OWNED        "owner = ?5 AND"
#define TAGGED_OWNED TAGGED " " OWNED

/* Events after ?1 and before ?5, at most ?2: of the sandbox ?3, the owner ?4 or the type ?6. ?7: enum store_commands. */
#define NO_COMMAND "(type < 'command.' OR type >= 'command/')"
#define EVENTS(columns, index)                                                                     \
    "SELECT " EVENT columns " FROM events " index                                                  \
    " WHERE seq > ?1 AND seq < ?5 AND (?7 = 1 OR (?7 = 0) = " NO_COMMAND ")"
#define OF_SANDBOX   " AND sandbox = ?3 AND (?4 = '' OR owner = ?4)"
#define OLDEST_FIRST " ORDER BY seq LIMIT ?2"
#define NEWEST_FIRST " ORDER BY seq DESC LIMIT ?2"

/* Events of the sandbox ?1, filtered by the text ?3 if it is not empty. */
#define HISTORY(where)                                                                             \
    "SELECT " EVENT " FROM events INDEXED BY events_sandbox WHERE sandbox = ?1 AND " where         \
    " AND " NO_COMMAND " AND (?3 = '' OR instr(type, ?3) OR instr(reason, ?3))"

const char *const sql_texts[SQL_COUNT_] = {
#define SQL(name, text) [name] = (text),
#include "domain/store/sqlite/sql_table.h"
#undef SQL
};
