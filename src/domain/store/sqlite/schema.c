/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/sqlite/schema.h"

#include <assert.h>

#include "base/own.h"
#include "domain/model/approval.h"
#include "domain/model/role.h"
#include "domain/model/state.h"

/* States are stored as numbers, whose meaning must not change. */
static_assert(SANDBOX_REQUESTED == 0 && SANDBOX_DESTROYED == 8, "new states go behind the old");

/* `live` is 1 until a sandbox is destroyed. Indexes begin with `live` instead of the state, because
 * it changes only once: most changes of state touch no index.
 *
 * `tags` duplicates values of the sandbox's row for searches: its labels and, with an empty key,
 * its profile, its snapshot and its image. To delete a sandbox's tags, their keys are computed from
 * its row: no index by sandbox is necessary. */
static const char first[] =
    "CREATE TABLE sandboxes ("
    " n INTEGER PRIMARY KEY, id TEXT NOT NULL, owner TEXT NOT NULL, state INTEGER NOT NULL,"
    " live INTEGER NOT NULL, profile TEXT NOT NULL, profile_version INTEGER NOT NULL,"
    " extension TEXT NOT NULL, host TEXT NOT NULL, created_ns INTEGER NOT NULL,"
    " updated_ns INTEGER NOT NULL, ready_ns INTEGER NOT NULL, finished_ns INTEGER NOT NULL,"
    " ttl_ns INTEGER NOT NULL, ttl_max_ns INTEGER NOT NULL, idle_ns INTEGER NOT NULL,"
    " deadline_ns INTEGER NOT NULL, boot TEXT NOT NULL, reason TEXT NOT NULL, step TEXT NOT NULL,"
    " request TEXT NOT NULL, detail TEXT NOT NULL, labels TEXT NOT NULL"
    ") STRICT;"
    "CREATE UNIQUE INDEX sandboxes_id ON sandboxes (id);"
    "CREATE INDEX sandboxes_page ON sandboxes (live, created_ns DESC, id);"
    "CREATE INDEX sandboxes_owner_page ON sandboxes (owner, live, created_ns DESC, id);"
    "CREATE INDEX sandboxes_due ON sandboxes (deadline_ns) WHERE live = 1;"
    "CREATE INDEX sandboxes_old ON sandboxes (updated_ns) WHERE live = 0;"

    "CREATE TABLE tags ("
    " key TEXT NOT NULL, value TEXT NOT NULL, owner TEXT NOT NULL, live INTEGER NOT NULL,"
    " created_ns INTEGER NOT NULL, id TEXT NOT NULL,"
    " PRIMARY KEY (key, value, owner, live, created_ns DESC, id)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX tags_page ON tags (key, value, live, created_ns DESC, id);"

    "CREATE TABLE events ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT, time_ns INTEGER NOT NULL, type TEXT NOT NULL,"
    " sandbox TEXT NOT NULL, owner TEXT NOT NULL, from_state INTEGER NOT NULL,"
    " to_state INTEGER NOT NULL, actor_kind INTEGER NOT NULL, actor TEXT NOT NULL,"
    " reason TEXT NOT NULL, detail TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX events_sandbox ON events (sandbox);" /* rowid, seq, is an implicit last column */
    "CREATE INDEX events_owner ON events (owner);"

    "CREATE TABLE outbox (seq INTEGER PRIMARY KEY) STRICT;"

    "CREATE TABLE processes ("
    " sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE, proc INTEGER NOT NULL,"
    " spec TEXT NOT NULL, started_ns INTEGER NOT NULL, exited_ns INTEGER NOT NULL,"
    " ended INTEGER NOT NULL, how INTEGER NOT NULL, status INTEGER NOT NULL,"
    " PRIMARY KEY (sandbox, proc)"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE tokens ("
    " id TEXT NOT NULL PRIMARY KEY, hash BLOB NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL,"
    " actor INTEGER NOT NULL, verbs INTEGER NOT NULL, labels TEXT NOT NULL,"
    " gateway INTEGER NOT NULL, created_ns INTEGER NOT NULL, expires_ns INTEGER NOT NULL,"
    " revoked_ns INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE UNIQUE INDEX tokens_hash ON tokens (hash);"

    "CREATE TABLE hosts ("
    " name TEXT NOT NULL PRIMARY KEY, address TEXT NOT NULL, added_ns INTEGER NOT NULL,"
    " labels TEXT NOT NULL"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE idempotency ("
    " owner TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL, sandbox TEXT NOT NULL,"
    " created_ns INTEGER NOT NULL, PRIMARY KEY (owner, key)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX idempotency_sandbox ON idempotency (sandbox);"

    "CREATE TABLE settings (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)"
    " STRICT, WITHOUT ROWID;";

/* A separate table, so that lists of sandboxes do not read policies. */
static const char egress[] =
    "CREATE TABLE egress ("
    " sandbox TEXT NOT NULL PRIMARY KEY REFERENCES sandboxes (id) ON DELETE CASCADE,"
    " generation INTEGER NOT NULL, endpoints INTEGER NOT NULL, policy TEXT NOT NULL"
    ") STRICT;";

/* A `state` below 3 is open. */
static_assert(APPROVAL_PENDING == 0 && APPROVAL_RUNNING == 2 && APPROVAL_INTERRUPTED == 7,
              "new states go behind the old");
static_assert(ROLE_JOURNEYMAN == 1 && ROLE_MASTER == 2, "roles are kept as numbers");

static const char trust[] =
    "ALTER TABLE tokens ADD COLUMN role INTEGER NOT NULL DEFAULT 1;"

    "CREATE TABLE peers ("
    " id TEXT NOT NULL PRIMARY KEY, hash BLOB NOT NULL, owner TEXT NOT NULL,"
    " actor_kind INTEGER NOT NULL, actor TEXT NOT NULL, uid INTEGER NOT NULL,"
    " role INTEGER NOT NULL, client TEXT NOT NULL, created_ns INTEGER NOT NULL,"
    " seen_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE approvals ("
    " n INTEGER PRIMARY KEY, id TEXT NOT NULL, peer TEXT NOT NULL, owner TEXT NOT NULL,"
    " uid INTEGER NOT NULL, tool TEXT NOT NULL, sandbox TEXT NOT NULL, version TEXT NOT NULL,"
    " rule TEXT NOT NULL, tier INTEGER NOT NULL, state INTEGER NOT NULL,"
    " created_ns INTEGER NOT NULL, expires_ns INTEGER NOT NULL, decided_ns INTEGER NOT NULL,"
    " finished_ns INTEGER NOT NULL, approver TEXT NOT NULL, reason TEXT NOT NULL,"
    " failed INTEGER NOT NULL, args TEXT NOT NULL, result TEXT NOT NULL"
    ") STRICT;"
    "CREATE UNIQUE INDEX approvals_id ON approvals (id);"
    "CREATE INDEX approvals_open ON approvals (created_ns, id) WHERE state < 3;"
    "CREATE INDEX approvals_page ON approvals (created_ns DESC, id);"
    "CREATE INDEX approvals_owner_page ON approvals (owner, created_ns DESC, id);"

    "CREATE TABLE grants ("
    " id TEXT NOT NULL PRIMARY KEY, peer TEXT NOT NULL, tool TEXT NOT NULL, sandbox TEXT NOT NULL,"
    " version TEXT NOT NULL, approver TEXT NOT NULL, uses INTEGER NOT NULL,"
    " expires_ns INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;";

/* A layer's row is written after the layer is complete on disk, and removed before the layer is
 * deleted: a layer on disk without a row is garbage. References to a layer are in the rows of
 * images. */
static const char images[] = "CREATE TABLE images ("
                             " ref TEXT NOT NULL PRIMARY KEY, digest TEXT NOT NULL,"
                             " id TEXT NOT NULL, config TEXT NOT NULL, layers TEXT NOT NULL,"
                             " created_ns INTEGER NOT NULL"
                             ") STRICT;"

                             "CREATE TABLE layers ("
                             " name TEXT NOT NULL PRIMARY KEY, measure TEXT NOT NULL,"
                             " bytes INTEGER NOT NULL, entries INTEGER NOT NULL,"
                             " created_ns INTEGER NOT NULL"
                             ") STRICT, WITHOUT ROWID;";

static const char snapshots[] = "CREATE TABLE snapshots ("
                                " id TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL,"
                                " name TEXT NOT NULL, sandbox TEXT NOT NULL,"
                                " profile TEXT NOT NULL, profile_version INTEGER NOT NULL,"
                                " created_ns INTEGER NOT NULL, bytes INTEGER NOT NULL,"
                                " entries INTEGER NOT NULL, pause_ns INTEGER NOT NULL,"
                                " image TEXT NOT NULL, layers TEXT NOT NULL, labels TEXT NOT NULL"
                                ") STRICT, WITHOUT ROWID;";

/* A snapshot stores its own base, because its image's reference may later name another image. */
static const char snapshot_bases[] =
    "ALTER TABLE snapshots ADD COLUMN base TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE snapshots ADD COLUMN digest TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE snapshots ADD COLUMN config TEXT NOT NULL DEFAULT '';";

static const char held_requests[] =
    "ALTER TABLE approvals ADD COLUMN request TEXT NOT NULL DEFAULT '';";

static const char snapshot_tags[] =
    "INSERT INTO tags (key, value, owner, live, created_ns, id)"
    " SELECT '', request ->> '$.snapshot', owner, live, created_ns, id FROM sandboxes"
    " WHERE json_valid(request) AND json_type(request, '$.snapshot') = 'text';";

static const char image_tags[] =
    "INSERT OR IGNORE INTO tags (key, value, owner, live, created_ns, id)"
    " SELECT '', request ->> '$.image', owner, live, created_ns, id FROM sandboxes"
    " WHERE json_valid(request) AND json_type(request, '$.image') = 'text'"
    " AND request ->> '$.image' <> '';";

/* Drops digests that were checksums, for which collisions can be constructed; a background job
 * computes new ones. */
static const char new_measures[] = "UPDATE layers SET measure = '';";

/* Adds to each token its limits and the capabilities that it has without approval. Tokens of older
 * versions had no limits; they get those of an SDK's key, so that clients continue to work and none
 * is unlimited. -1: the limit of the role. */
static const char credentials[] =
    "ALTER TABLE tokens ADD COLUMN preset TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE tokens ADD COLUMN per_hour INTEGER NOT NULL DEFAULT -1;"
    "ALTER TABLE tokens ADD COLUMN per_day INTEGER NOT NULL DEFAULT -1;"
    "ALTER TABLE tokens ADD COLUMN concurrent INTEGER NOT NULL DEFAULT -1;"
    "ALTER TABLE tokens ADD COLUMN calls INTEGER NOT NULL DEFAULT -1;"
    "ALTER TABLE tokens ADD COLUMN network TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE tokens ADD COLUMN filesystem INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE tokens ADD COLUMN duration_s INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE tokens ADD COLUMN memory_mb INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE tokens ADD COLUMN cpu_milli INTEGER NOT NULL DEFAULT 0;"
    "UPDATE tokens SET preset = 'migrated', per_hour = 10000, per_day = 1000000,"
    " concurrent = 2000, calls = 60000, network = 'public';"
    "ALTER TABLE sandboxes ADD COLUMN maker TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE egress ADD COLUMN approved TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE peers ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';"
    "ALTER TABLE approvals ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';";

/* The author of older policies is unknown: -1. most, egress: enum egress_reach + 1. */
static const char egress_authors[] =
    "ALTER TABLE egress ADD COLUMN admin INTEGER NOT NULL DEFAULT -1;"
    "ALTER TABLE egress ADD COLUMN most INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE tokens ADD COLUMN egress INTEGER NOT NULL DEFAULT 0;";

/* The daemon's chain (domain/store/ledger.h). Older events have no chain value. An egress head is the last
 * known line of a sandbox's egress log, and the last line that a rotation removed. */
static const char ledger[] =
    "ALTER TABLE events ADD COLUMN chain BLOB;"
    "CREATE TABLE ledger ("
    " n INTEGER PRIMARY KEY CHECK (n = 1), first INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " digest BLOB NOT NULL, pruned_ns INTEGER NOT NULL, mac BLOB NOT NULL"
    ") STRICT;"
    "CREATE TABLE event_cuts ("
    " last INTEGER PRIMARY KEY, first INTEGER NOT NULL, digest BLOB NOT NULL, mac BLOB NOT NULL"
    ") STRICT;"
    "CREATE INDEX event_cuts_first ON event_cuts (first);"
    "CREATE TABLE egress_heads ("
    " sandbox TEXT NOT NULL PRIMARY KEY REFERENCES sandboxes (id) ON DELETE CASCADE,"
    " seq INTEGER NOT NULL, digest BLOB NOT NULL, cut_seq INTEGER NOT NULL,"
    " cut_digest BLOB NOT NULL, time_ns INTEGER NOT NULL, mac BLOB NOT NULL"
    ") STRICT, WITHOUT ROWID;";

/* A token ends with its maker. Indexes find the tokens that have ended, by time. */
static const char token_makers[] =
    "ALTER TABLE tokens ADD COLUMN maker TEXT NOT NULL DEFAULT '';"
    "CREATE INDEX tokens_revoked ON tokens (revoked_ns) WHERE revoked_ns > 0;"
    "CREATE INDEX tokens_expires ON tokens (expires_ns) WHERE expires_ns > 0;";

/* An owner's budget has a share for each family of tokens. Older sandboxes are charged to the token
 * that made them; the token of an older snapshot is unknown. */
static const char families[] = "ALTER TABLE sandboxes ADD COLUMN family TEXT NOT NULL DEFAULT '';"
                               "UPDATE sandboxes SET family = maker WHERE maker <> '';"
                               "ALTER TABLE snapshots ADD COLUMN family TEXT NOT NULL DEFAULT '';";

/* Snapshots of changes that a destroy could not sync back to the host are deleted after a while. */
static const char snapshot_ends[] =
    "ALTER TABLE snapshots ADD COLUMN expires_ns INTEGER NOT NULL DEFAULT 0;";

/* A name is free again when its sandbox is destroyed. */
static const char names[] =
    "ALTER TABLE sandboxes ADD COLUMN name TEXT NOT NULL DEFAULT '';"
    "CREATE UNIQUE INDEX sandboxes_name ON sandboxes (owner, name) WHERE live = 1 AND name <> '';";

/* Settings of the sandbox that a snapshot was taken of, for sandboxes that are made from it. */
static const char snapshot_settings[] =
    "ALTER TABLE snapshots ADD COLUMN settings TEXT NOT NULL DEFAULT '';";

/* Events of one type are found without reading the others. */
static const char event_types[] = "CREATE INDEX events_type ON events (type);";

/* Checkpoints of sandboxes are snapshots with a number. */
static const char checkpoints[] =
    "ALTER TABLE snapshots ADD COLUMN checkpoint INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE snapshots ADD COLUMN parent INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE snapshots ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE snapshots ADD COLUMN cause TEXT NOT NULL DEFAULT '';";

static const struct migration migrations[] = {
    { 1, first },          { 2, egress },        { 3, trust },
    { 4, images },         { 5, snapshots },     { 6, snapshot_bases },
    { 7, held_requests },  { 8, snapshot_tags }, { 9, image_tags },
    { 10, new_measures },  { 11, credentials },  { 12, egress_authors },
    { 13, ledger },        { 14, token_makers }, { 15, families },
    { 16, snapshot_ends }, { 17, names },        { 18, snapshot_settings },
    { 19, event_types },   { 20, checkpoints },
};

const struct schema store_schema = { migrations, COUNT_OF(migrations) };
