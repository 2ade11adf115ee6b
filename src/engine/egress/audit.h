/* The audit record: OCSF 1.8 events, one JSON line each, appended to a descriptor: at once, or with
 * the others of the same turn of the loop in one write().
 *
 * Network Activity (4001) for connections and names, HTTP Activity (4002) for inspected requests;
 * the shape is in docs/egress-audit.md. Never in an event: query strings, bodies, header values.
 * Text from outside is bounded and escaped, so that a line is one event whatever a client sends.
 *
 * An allow must be on record before anything is dialled or forwarded: audit_allow() and
 * audit_kept() say whether it is, and a no means deny (fail closed: a full disk stops traffic).
 * Denials that repeat (same destination, rule, code, program) are counted and written once a
 * second as one event with `count`; the first of a kind is written at once. A flood of different
 * ones is bounded, too: beyond AUDIT_KINDS_MAX kinds a second they are counted in one summary. */
#ifndef EGRESS_AUDIT_H
#define EGRESS_AUDIT_H

#include "egress/authorize.h"
#include "egress/chain.h"
#include "egress/wire.h"

struct audit;

enum { AUDIT_KINDS_MAX = 64, AUDIT_RESERVE = 32 << 10 };

/* Why something that is not on record is denied. */
struct audit_refusal {
    const char *code, *text, *next;
};

/* Takes the descriptor (O_APPEND). A pipe, socket or terminal is fine, too: its description becomes
 * non-blocking, and while its reader does not read, nothing is on record and nothing is allowed.
 * fd -1: events go nowhere and all is well. */
struct audit *audit_new(struct loop *l, const char *box_id, int fd);
/* Where the chain of its lines goes on (egress/chain.h), before the first event; without, it begins
 * here and its lines have no mac. key may be NULL. */
void audit_resume(struct audit *a, const struct chain_place *from, const unsigned char *key);
/* The place of the last line that is wholly written. It is valid until the next call of this
 * module. */
const struct chain_place *audit_place(const struct audit *a);
/* audit_free() leaves there the place of the last line that is wholly written. */
void audit_note_last(struct audit *a, struct chain_place *last);
/* Writes what is being counted, and frees. NULL is fine. */
void audit_free(struct audit *a);
/* Another descriptor from now on (rotation). The chain goes on there. */
void audit_set_fd(struct audit *a, int fd);
uint64_t audit_written(const struct audit *a); /* bytes to the current descriptor */

/* How many bytes may be written to the current descriptor in all; 0: no limit. What has no room is
 * not on record. low is called once when half of what is left now is used, from inside a write.
 * lack: there is no more than that, and why; then the last AUDIT_RESERVE bytes take no allows, so
 * that denials and the ends of connections are on record for a while. */
typedef void audit_low_fn(void *user);
void audit_set_room(struct audit *a, uint64_t room, enum wire_lack lack, audit_low_fn *low,
                    void *user);
bool audit_is_low(const struct audit *a); /* it was called, or would be */

/* A name (EGRESS_BY_DNS) was allowed; true if it is on record. */
bool audit_allow(struct audit *a, const struct egress_intent *i, const struct egress_decision *d);
/* For the ticket of a line that is written with whatever else this turn has to tell: whether it is
 * on record, and sees to it. Where one line of a turn is lost, it says no for the others, too. */
bool audit_kept(struct audit *a, uint64_t ticket);
/* After a no: why. */
const struct audit_refusal *audit_refusal(const struct audit *a);

/* The Open of a connection (lease.h), embedded in its owner, zeroed before. What it points to lives
 * as long. */
struct audit_open {
    struct link link_;
    const struct egress_intent *intent_;
    const struct egress_decision *decision_;
    uint64_t ticket_;
};

/* Is written when the turn is over, when another that was asked for in this turn must be on record,
 * or never, if its owner forgets it before. */
void audit_open_soon(struct audit *a, struct audit_open *o, const struct egress_intent *i,
                     const struct egress_decision *d);
void audit_open_write(struct audit *a, struct audit_open *o); /* before what is written next */
bool audit_open_kept(struct audit *a, struct audit_open *o);  /* it is on record, or made so */
bool audit_open_forget(struct audit_open *o);                 /* false: it is written already */

/* A name is about to be looked up; true if that is on record. */
bool audit_lookup(struct audit *a, const struct egress_intent *i, const struct egress_decision *d);
void audit_deny(struct audit *a, const struct egress_intent *i, const struct egress_decision *d);
/* A request under an allowed connection; denied ones as well. One that is allowed is written soon:
 * this is its ticket. */
uint64_t audit_request(struct audit *a, const struct egress_intent *i,
                       const struct egress_decision *d, enum egress_verdict v, struct str method,
                       struct str path, const struct egress_reason *why);
/* The end of a connection: bytes both ways, how long. Written when the turn is over. */
void audit_close(struct audit *a, const struct egress_intent *i, const struct egress_decision *d,
                 uint64_t bytes_out, uint64_t bytes_in, int64_t took_ns, const char *how);
/* A packet that the boundary's rules refused, as NFLOG shows it. */
void audit_reject(struct audit *a, int protocol, const struct address *from, uint16_t from_port,
                  const struct address *to, uint16_t to_port);
/* A request that could not be understood: the adapter, and why (our words only). */
void audit_malformed(struct audit *a, enum egress_adapter by, const char *why);
/* Connections wait, and why. Counted as denials are. */
void audit_wait(struct audit *a, const char *why);
/* A new policy is in force. */
void audit_policy(struct audit *a, uint64_t generation);

#endif
