/* SPDX-License-Identifier: Apache-2.0 */
/* The audit record: OCSF 1.8 events, one JSON line each, appended to a descriptor, either at once
 * or together with the other lines of the same turn of the loop.
 *
 * Network Activity (4001) is used for connections and names, HTTP Activity (4002) for inspected
 * requests; docs/egress-audit.md describes the format. Events never contain query strings, bodies
 * or header values. Text from outside is truncated and escaped, so that no client can forge a line.
 *
 * An allow must be recorded before anything is dialled or forwarded: audit_allow() and audit_kept()
 * return whether it is. If not, the caller denies (fail closed: a full disk stops traffic).
 * Repeated denials (same destination, rule, code, program) are counted and written once a second as
 * one event with `count`; the first of a kind is written at once. Beyond AUDIT_KINDS_MAX kinds a
 * second, denials are counted in one summary. */
#ifndef ENGINE_EGRESS_AUDIT_H
#define ENGINE_EGRESS_AUDIT_H

#include "engine/egress/authorize.h"
#include "engine/egress/chain.h"
#include "engine/egress/wire.h"

struct audit;

enum { AUDIT_KINDS_MAX = 64, AUDIT_RESERVE = 32 << 10 };

/* The reason for a denial because the event could not be recorded. */
struct audit_refusal {
    const char *code, *text, *next;
};

/* Takes over the descriptor (O_APPEND). The file description of a pipe, socket or terminal becomes
 * non-blocking: while its reader does not read, nothing can be recorded, so nothing is allowed. fd
 * -1: events are discarded and count as recorded. */
struct audit *audit_new(struct loop *l, const char *box_id, int fd);
/* Continues a chain (engine/egress/chain.h) at `from`; call it before the first event. Otherwise a
 * new chain begins, and its lines have no mac. key may be NULL. */
void audit_resume(struct audit *a, const struct chain_place *from, const unsigned char *key);
/* Returns the place of the last completely written line; valid until the next call of this
 * module. */
const struct chain_place *audit_place(const struct audit *a);
/* audit_free() then stores the place of the last completely written line in *last. */
void audit_note_last(struct audit *a, struct chain_place *last);
/* Writes the counted denials, and frees. Accepts NULL. */
void audit_free(struct audit *a);
/* Writes to another descriptor from now on (rotation). The chain continues there. */
void audit_set_fd(struct audit *a, int fd);
uint64_t audit_written(const struct audit *a); /* bytes written to the current descriptor */

/* Limits the bytes that may be written to the current descriptor; 0: no limit. Lines beyond the
 * limit are lost. `low` is called once, from inside a write, when half of the remaining room is
 * used. `lack` names the quota that the limit comes from; then the last AUDIT_RESERVE bytes are
 * reserved for denials and Closes, and allows fail earlier. */
typedef void audit_low_fn(void *user);
void audit_set_room(struct audit *a, uint64_t room, enum wire_lack lack, audit_low_fn *low,
                    void *user);
bool audit_is_low(const struct audit *a); /* `low` was called, or is due */

/* Records an allowed name (EGRESS_BY_DNS); true if it was recorded. */
bool audit_allow(struct audit *a, const struct egress_intent *i, const struct egress_decision *d);
/* Whether the line with this ticket is recorded; writes the held lines if needed. If one line of a
 * turn is lost, all lines of that turn count as lost. */
bool audit_kept(struct audit *a, uint64_t ticket);
/* The reason for the last failure to record. */
const struct audit_refusal *audit_refusal(const struct audit *a);

/* The Open event of a connection (lease.h), embedded in its owner, zeroed before use. Intent and
 * decision must live as long. */
struct audit_open {
    struct link link_;
    const struct egress_intent *intent_;
    const struct egress_decision *decision_;
    uint64_t ticket_;
};

/* Schedules the Open: it is written at the end of the turn, or earlier if another line of this turn
 * must be recorded, or never, if audit_open_forget() is called before. */
void audit_open_soon(struct audit *a, struct audit_open *o, const struct egress_intent *i,
                     const struct egress_decision *d);
void audit_open_write(struct audit *a, struct audit_open *o); /* writes it before the next line */
/* whether it is recorded; writes it if needed */
bool audit_open_kept(struct audit *a, struct audit_open *o);
bool audit_open_forget(struct audit_open *o); /* false: already written */

/* Records that a name is about to be looked up; true if it was recorded. */
bool audit_lookup(struct audit *a, const struct egress_intent *i, const struct egress_decision *d);
void audit_deny(struct audit *a, const struct egress_intent *i, const struct egress_decision *d);
/* Records an allowed or denied request on an allowed connection. An allowed one is written with
 * this turn's lines; returns its ticket. */
uint64_t audit_request(struct audit *a, const struct egress_intent *i,
                       const struct egress_decision *d, enum egress_verdict v,
                       const struct egress_action *q, const struct egress_reason *why);
/* Records the end of a connection, with bytes in both directions and duration, at the end of the
 * turn. */
void audit_close(struct audit *a, const struct egress_intent *i, const struct egress_decision *d,
                 uint64_t bytes_out, uint64_t bytes_in, int64_t took_ns, const char *how);
/* Records a packet that the boundary's rules rejected, as parsed by nflog.h. */
void audit_reject(struct audit *a, int protocol, const struct address *from, uint16_t from_port,
                  const struct address *to, uint16_t to_port);
/* Records a malformed request: the adapter and the reason (only texts of ours). */
void audit_malformed(struct audit *a, enum egress_adapter by, const char *why);
/* Records that connections wait, and why. Counted like denials. */
void audit_wait(struct audit *a, const char *why);
/* Records that a new policy is in force. */
void audit_policy(struct audit *a, uint64_t generation);

#endif
