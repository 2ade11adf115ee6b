/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "engine/egress/audit_event.h"
#include "lib/loop/timer.h"

enum { HELD_MAX = 64 << 10 };

#define AUDIT_TICK_NS  NS_PER_S
#define AUDIT_QUIET_NS (60 * NS_PER_S)

/* Denials of one kind within a second. */
struct denial_kind {
    unsigned char name[AUDIT_KIND_SIZE];
    uint64_t count;         /* denials that no line has reported yet */
    int64_t since;          /* time of the first of them */
    struct audit_event *of; /* the first of them; NULL while count is 0 */
};

struct audit {
    struct loop *loop;
    char box_id[ID_MAX];
    int fd;
    uint64_t written;
    uint64_t room, low_at; /* limits for `written`; room 0: no limit */
    enum wire_lack lack;   /* which limit `room` comes from */
    enum wire_lack failed; /* the limit that the last lost line ran into; none for other failures */
    audit_low_fn *low;     /* NULL after it was called */
    void *user;
    uint64_t generation; /* of the current policy, for events without a decision */
    struct buf held;     /* lines of this turn of the loop, not yet written */
    struct buf torn;     /* the rest of a line of which a full disk or pipe took the begin */
    struct crypto_hmac mac;
    bool has_mac;
    struct chain_place chain;   /* place of the last line, written or held */
    struct chain_place sure;    /* place of the last completely written line */
    struct chain_place at_torn; /* place of the torn line */
    struct chain_place *last;   /* output of audit_free(); NULL: not requested */
    uint64_t fd_seq;            /* seq before the first line of this descriptor */
    uint64_t lost;              /* number of failed writes */
    struct list opens;          /* struct audit_open: to be written in this turn */
    struct loop_later later;
    int64_t quiet_until; /* CLOCK_MONOTONIC: next log line not before this */
    struct loop_timer tick;
    struct denial_kind kinds[AUDIT_KINDS_MAX];
    size_t n;
    uint64_t more; /* denials beyond the last kind */
    int64_t more_since;
};

/* Makes pipes, sockets and terminals non-blocking, so that a slow reader does not stop the loop:
 * bytes that they do not take at once count as not recorded. Regular files take all bytes or
 * fail. */
static int make_sink(int fd)
{
    struct stat st;
    int flags = fd < 0 || fstat(fd, &st) < 0 || S_ISREG(st.st_mode) ? -1 : fcntl(fd, F_GETFL);

    if (flags >= 0 && !(flags & O_NONBLOCK))
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    return fd;
}

struct audit *audit_new(struct loop *l, const char *box_id, int fd)
{
    struct audit *a = new0(sizeof *a);

    a->loop = l;
    a->fd = make_sink(fd);
    buf_init(&a->held, HELD_MAX);
    buf_init(&a->torn, EGRESS_AUDIT_LINE_MAX);
    snprintf(a->box_id, sizeof a->box_id, "%s", box_id);
    return a;
}

void audit_resume(struct audit *a, const struct chain_place *from, const unsigned char *key)
{
    a->chain = a->sure = *from;
    a->fd_seq = from->seq;
    a->has_mac = key != NULL;
    if (key)
        crypto_hmac_init(&a->mac, (struct str){ (const char *)key, CHAIN_SIZE });
}

const struct chain_place *audit_place(const struct audit *a)
{
    return &a->sure;
}

void audit_note_last(struct audit *a, struct chain_place *last)
{
    a->last = last;
}

uint64_t audit_written(const struct audit *a)
{
    return a->written;
}

/* --- Room --- */

void audit_set_room(struct audit *a, uint64_t room, enum wire_lack lack, audit_low_fn *low,
                    void *user)
{
    a->room = room;
    a->lack = lack;
    a->low_at = room > a->written ? a->written + (room - a->written) / 2 : a->written;
    a->low = low;
    a->user = user;
}

bool audit_is_low(const struct audit *a)
{
    return a->room && a->written >= a->low_at;
}

static bool has_room(const struct audit *a, size_t n)
{
    return !a->room || (a->written <= a->room && n <= a->room - a->written);
}

const struct audit_refusal *audit_refusal(const struct audit *a)
{
    static const struct audit_refusal rows[WIRE_LACKS_] = {
        [WIRE_LACK_NONE] = { "audit_unavailable",
                             "The audit record cannot be written, so the connection is not "
                             "allowed.",
                             "Try again later, and inform the administrator." },
        [WIRE_LACK_BOX] = { "audit_full",
                            "The sandbox's egress log is full, so nothing more is allowed.",
                            "Ask the administrator to raise egress.audit_max, wait until records "
                            "expire (egress.audit_keep), or continue in a new sandbox." },
        [WIRE_LACK_OWNER] = { "audit_full",
                              "The egress logs of the sandbox's owner are full, so nothing more is "
                              "allowed.",
                              "Ask the administrator to raise limits.egress_logs_per_owner, or "
                              "wait "
                              "until records expire (egress.audit_keep)." },
    };

    return &rows[a->failed];
}

static void notify_low_room(struct audit *a)
{
    audit_low_fn *low = audit_is_low(a) ? a->low : NULL;

    if (!low)
        return;
    a->low = NULL;
    low(a->user);
}

/* --- Lines --- */

/* Logs a failed write, at most once a minute: a pipe with a slow reader fails and recovers many
 * times a second. */
static bool log_audit_failure(struct audit *a)
{
    int64_t now = clock_mono();

    a->failed = errno == EDQUOT ? a->lack : WIRE_LACK_NONE;
    if (now >= a->quiet_until) {
        LOG(ERROR, "audit.failing", LOG_S("sandbox", a->box_id), LOG_I("errno", errno));
        a->quiet_until = now + AUDIT_QUIET_NS;
    }
    return false;
}

/* Writes as much as the descriptor takes; false if some of it is left. */
static bool write_audit_bytes(struct audit *a, struct str *line)
{
    while (line->n > 0) {
        ssize_t n = write(a->fd, line->p, line->n);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return log_audit_failure(a);
        *line = (struct str){ line->p + n, line->n - (size_t)n };
        a->written += (uint64_t)n;
    }
    return true;
}

/* Completes a torn line before another is written, because its begin cannot be removed. */
static bool finish_torn(struct audit *a)
{
    struct str rest = buf_str(&a->torn);
    bool good = write_audit_bytes(a, &rest);

    buf_drop(&a->torn, a->torn.n - rest.n);
    if (good) {
        buf_done(&a->torn);
        a->sure = a->at_torn;
    }
    return good;
}

/* The place of the line that ends at `end`, where its newline is. */
static struct chain_place place_before(const struct audit *a, const char *end)
{
    const char *before = memrchr(a->held.p, '\n', (size_t)(end - a->held.p));
    const char *from = before ? before + 1 : a->held.p;
    struct chain_line line;

    return chain_parse((struct str){ from, (size_t)(end - from) }, &line) ? line.place : a->sure;
}

/* Keeps the rest of a line whose begin was written. The chain continues behind that line: lost
 * lines have no place in the chain. */
static void keep_torn(struct audit *a, struct str rest)
{
    size_t begun = (size_t)(rest.p - a->held.p);
    const char *whole = begun ? memrchr(a->held.p, '\n', begun) : NULL;
    size_t left = str_find(rest, '\n');

    if (whole)
        a->sure = place_before(a, whole);
    a->chain = a->sure;
    if (begun && rest.p[-1] != '\n') {
        buf_add(&a->torn, (struct str){ rest.p, left + 1 });
        a->chain = a->at_torn = place_before(a, rest.p + left);
    }
}

/* Writes all held lines in one piece; false if some of them are lost. */
static bool flush_audit(struct audit *a)
{
    struct str rest = buf_str(&a->held);
    bool good;

    if (rest.n == 0)
        return true;
    if (!has_room(a, a->torn.n + rest.n)) {
        errno = EDQUOT;
        good = log_audit_failure(a);
        a->chain = a->torn.n ? a->at_torn : a->sure;
    } else if (a->torn.n && !finish_torn(a)) {
        a->chain = a->at_torn;
        good = false;
    } else {
        good = write_audit_bytes(a, &rest);
        if (good)
            a->sure = a->chain;
        else
            keep_torn(a, rest);
    }
    if (!good)
        a->lost++;
    buf_done(&a->held);
    notify_low_room(a);
    return good;
}

/* Counts a line that cannot be written at all. */
static bool lose_line(struct audit *a, int why)
{
    errno = why;
    a->lost++;
    if (why == EDQUOT)
        a->low_at = a->written; /* a later call may get more room */
    log_audit_failure(a);
    notify_low_room(a);
    return false;
}

static bool is_allow(const struct audit_event *ev)
{
    return ev->what == AUDIT_ALLOW || ev->what == AUDIT_LOOKUP ||
           (ev->what == AUDIT_REQUEST && ev->verdict != EGRESS_DENIED);
}

static bool hold_audit_line(struct audit *a, const struct audit_event *ev)
{
    char bytes[EGRESS_AUDIT_LINE_MAX];
    struct str line = { bytes, audit_event_write(ev, a->box_id, bytes) };

    if (line.n == 0)
        return lose_line(a, EMSGSIZE);
    if (a->lack != WIRE_LACK_NONE && is_allow(ev) &&
        !has_room(a, a->torn.n + a->held.n + line.n + CHAIN_TEXT_MAX + AUDIT_RESERVE))
        return lose_line(a, EDQUOT);
    if (HELD_MAX - a->held.n < EGRESS_AUDIT_LINE_MAX)
        flush_audit(a);
    line.n =
        chain_add(&a->chain, a->chain.seq == a->fd_seq, a->has_mac ? &a->mac : NULL, bytes, line.n);
    buf_add(&a->held, line);
    return true;
}

static bool write_audit_event(struct audit *a, const struct audit_event *ev)
{
    return a->fd < 0 || (hold_audit_line(a, ev) && flush_audit(a));
}

static void write_opens(struct audit *a);

static void on_audit_turn_end(struct loop_later *l)
{
    struct audit *a = container_of(l, struct audit, later);

    write_opens(a);
    flush_audit(a);
}

/* Holds the event's line until the end of this turn. */
static void hold_audit_event(struct audit *a, const struct audit_event *ev)
{
    if (a->fd < 0)
        return;
    hold_audit_line(a, ev);
    loop_later(a->loop, &a->later, on_audit_turn_end, NULL);
}

bool audit_kept(struct audit *a, uint64_t ticket)
{
    flush_audit(a);
    return a->lost == ticket;
}

void audit_set_fd(struct audit *a, int fd)
{
    flush_audit(a);
    if (a->torn.n && !finish_torn(a))
        /* the torn line stays incomplete, and the next line takes its place in the chain */
        a->chain = a->sure;
    buf_done(&a->torn);
    drop_fd(&a->fd);
    a->fd = make_sink(fd);
    a->fd_seq = a->chain.seq;
    a->written = a->room = 0;
}

/* --- Counting denials --- */

/* An event without a decision. */
static struct audit_event plain_event(const struct audit *a, enum audit_what what, struct str code,
                                      struct str why)
{
    return (struct audit_event){ .what = what,
                                 .adapter = AUDIT_NO_ADAPTER,
                                 .time = clock_wall(),
                                 .count = 1,
                                 .generation = a->generation,
                                 .text = { [AUDIT_CODE] = code, [AUDIT_WHY] = why } };
}

static void on_audit_tick(struct loop_timer *t);

static void start_tick(struct audit *a)
{
    if (!loop_timer_started(&a->tick))
        loop_timer_start(a->loop, &a->tick, clock_mono() + AUDIT_TICK_NS, on_audit_tick, NULL);
}

/* Writes all counted denials. Forgets kinds that did not occur since the last tick; keeps kinds
 * that occurred, or that could not be written. */
static void write_counted_denials(struct audit *a)
{
    struct audit_event more =
        plain_event(a, AUDIT_MORE, STR("more_denials"),
                    STR("More different denials in one second than are recorded separately."));
    size_t kept = 0;

    for (size_t i = 0; i < a->n; i++) {
        struct denial_kind k = a->kinds[i];

        if (k.count == 0)
            continue;
        k.of->count = k.count;
        k.of->since = k.since;
        k.of->time = clock_wall();
        if (write_audit_event(a, k.of)) {
            free(take_ptr(k.of));
            k.count = 0;
        }
        a->kinds[kept++] = k;
    }
    a->n = kept;
    more.since = a->more_since;
    more.count = a->more;
    if (a->more && write_audit_event(a, &more))
        a->more = 0;
}

static void on_audit_tick(struct loop_timer *t)
{
    struct audit *a = container_of(t, struct audit, tick);

    write_counted_denials(a);
    if (a->n || a->more)
        start_tick(a);
}

static void count_denial(struct denial_kind *k, const struct audit_event *ev)
{
    if (!k->of) {
        k->of = audit_event_dup(ev);
        k->since = ev->time;
    }
    k->count++;
}

/* Writes the first denial of a kind at once, and the others with the next tick. */
static void write_denial(struct audit *a, const struct audit_event *ev)
{
    unsigned char name[AUDIT_KIND_SIZE];
    size_t i = 0;

    audit_event_kind(ev, name);
    start_tick(a);
    while (i < a->n && memcmp(a->kinds[i].name, name, sizeof name) != 0)
        i++;
    if (i < a->n) {
        count_denial(&a->kinds[i], ev);
    } else if (a->n == AUDIT_KINDS_MAX) {
        if (!a->more)
            a->more_since = ev->time;
        a->more++;
    } else {
        a->kinds[a->n++] = (struct denial_kind){ 0 };
        memcpy(a->kinds[i].name, name, sizeof name);
        if (!write_audit_event(a, ev))
            count_denial(&a->kinds[i], ev);
    }
}

void audit_free(struct audit *a)
{
    if (!a)
        return;
    loop_timer_stop(&a->tick);
    loop_later_stop(&a->later);
    a->low = NULL;
    flush_audit(a);
    write_counted_denials(a);
    for (size_t i = 0; i < a->n; i++)
        free(a->kinds[i].of);
    if (a->torn.n)
        finish_torn(a);
    if (a->last)
        *a->last = a->sure;
    buf_done(&a->torn);
    crypto_hmac_done(&a->mac);
    drop_fd(&a->fd);
    free(a);
}

/* --- Events --- */

static void set_event_reason(struct audit_event *ev, const struct egress_reason *why)
{
    ev->text[AUDIT_CODE] = str_from(why->code);
    ev->text[AUDIT_WHY] = str_from(why->text);
    ev->text[AUDIT_NEXT] = str_from(why->next);
    ev->text[AUDIT_RULE] = why->rule;
}

static struct audit_event event_of(enum audit_what what, const struct egress_intent *i,
                                   const struct egress_decision *d)
{
    const struct egress_who *who = &d->who;
    struct audit_event ev = { .what = what,
                              .verdict = d->verdict,
                              .adapter = (int)i->adapter,
                              .time = clock_wall(),
                              .count = 1,
                              .id = d->id,
                              .generation = d->generation,
                              .protocol = i->adapter == EGRESS_BY_DNS ? 0 : IPPROTO_TCP,
                              .has_client = i->client_port != 0,
                              .client = i->client,
                              .client_port = i->client_port,
                              .has_to = i->host.is_address,
                              .to = i->host.address,
                              .port = i->port,
                              .known = who->known };

    if (!i->host.is_address)
        ev.text[AUDIT_HOST] = str_from(i->host.name);
    if (who->known) {
        ev.pid = who->pid;
        ev.uid = who->uid;
        ev.text[AUDIT_BINARY] = str_from(who->binary);
        ev.text[AUDIT_HASH] = str_from(who->hash);
    }
    if (who->known && who->n_ancestors)
        ev.text[AUDIT_PARENT] = str_from(who->ancestors[0]);
    set_event_reason(&ev, &d->why);
    ev.text[AUDIT_POLICY_NAME] = d->match.policy;
    ev.text[AUDIT_ENDPOINT] = d->match.endpoint_name;
    return ev;
}

static uint64_t hold_allow_event(struct audit *a, const struct egress_intent *i,
                                 const struct egress_decision *d)
{
    struct audit_event ev = event_of(AUDIT_ALLOW, i, d);
    uint64_t ticket = a->lost;

    if (d->n) {
        ev.has_to = true;
        ev.to = d->addresses[0];
    }
    hold_audit_event(a, &ev);
    return ticket;
}

bool audit_allow(struct audit *a, const struct egress_intent *i, const struct egress_decision *d)
{
    return audit_kept(a, hold_allow_event(a, i, d));
}

void audit_open_soon(struct audit *a, struct audit_open *o, const struct egress_intent *i,
                     const struct egress_decision *d)
{
    o->intent_ = i;
    o->decision_ = d;
    list_append(&a->opens, &o->link_);
}

void audit_open_write(struct audit *a, struct audit_open *o)
{
    if (audit_open_forget(o))
        o->ticket_ = hold_allow_event(a, o->intent_, o->decision_);
}

static void write_opens(struct audit *a)
{
    for (struct link *m; (m = list_first(&a->opens));)
        audit_open_write(a, container_of(m, struct audit_open, link_));
}

bool audit_open_kept(struct audit *a, struct audit_open *o)
{
    write_opens(a);
    return audit_kept(a, o->ticket_);
}

bool audit_open_forget(struct audit_open *o)
{
    bool waits = link_joined(&o->link_);

    link_leave(&o->link_);
    return waits;
}

bool audit_lookup(struct audit *a, const struct egress_intent *i, const struct egress_decision *d)
{
    struct audit_event ev = event_of(AUDIT_LOOKUP, i, d);

    ev.verdict = EGRESS_ALLOWED;
    ev.text[AUDIT_CODE] = STR("looked_up");
    ev.text[AUDIT_WHY] = STR("The name is sent to a DNS server.");
    ev.text[AUDIT_NEXT] = (struct str){ 0 };
    return write_audit_event(a, &ev);
}

void audit_deny(struct audit *a, const struct egress_intent *i, const struct egress_decision *d)
{
    struct audit_event ev = event_of(AUDIT_DENY, i, d);

    ev.verdict = EGRESS_DENIED;
    write_denial(a, &ev);
}

uint64_t audit_request(struct audit *a, const struct egress_intent *i,
                       const struct egress_decision *d, enum egress_verdict v,
                       const struct egress_action *q, const struct egress_reason *why)
{
    struct audit_event ev = event_of(AUDIT_REQUEST, i, d);
    uint64_t ticket = a->lost;

    ev.verdict = v;
    set_event_reason(&ev, why);
    ev.text[AUDIT_METHOD] = q->http.method;
    ev.text[AUDIT_PATH] = q->http.path;
    if (v == EGRESS_DENIED)
        write_denial(a, &ev);
    else
        hold_audit_event(a, &ev);
    return ticket;
}

void audit_close(struct audit *a, const struct egress_intent *i, const struct egress_decision *d,
                 uint64_t bytes_out, uint64_t bytes_in, int64_t took_ns, const char *how)
{
    struct audit_event ev = event_of(AUDIT_CLOSE, i, d);

    ev.text[AUDIT_CODE] = ev.text[AUDIT_WHY] = ev.text[AUDIT_NEXT] = (struct str){ 0 };
    ev.text[AUDIT_HOW] = str_from(how);
    ev.bytes_out = bytes_out;
    ev.bytes_in = bytes_in;
    ev.took_ns = took_ns;
    hold_audit_event(a, &ev);
}

void audit_reject(struct audit *a, int protocol, const struct address *from, uint16_t from_port,
                  const struct address *to, uint16_t to_port)
{
    struct audit_event ev = plain_event(a, AUDIT_REJECT, STR("boundary_rejected"),
                                        STR("A sandbox can only use TCP, and DNS on port 53."));

    ev.protocol = protocol;
    ev.has_client = ev.has_to = true;
    ev.client = *from;
    ev.client_port = from_port;
    ev.to = *to;
    ev.port = to_port;
    ev.text[AUDIT_RULE] = STR("boundary");
    write_denial(a, &ev);
}

void audit_malformed(struct audit *a, enum egress_adapter by, const char *why)
{
    struct audit_event ev = plain_event(a, AUDIT_MALFORMED, STR("malformed"), str_from(why));

    ev.adapter = (int)by;
    write_denial(a, &ev);
}

void audit_wait(struct audit *a, const char *why)
{
    struct audit_event ev = plain_event(a, AUDIT_DENY, STR("connection_limit"), str_from(why));

    ev.protocol = IPPROTO_TCP;
    ev.text[AUDIT_NEXT] = STR("Open fewer connections at a time.");
    write_denial(a, &ev);
}

void audit_policy(struct audit *a, uint64_t generation)
{
    struct audit_event ev;

    a->generation = generation;
    ev = plain_event(a, AUDIT_POLICY, STR("policy_in_force"), STR("A new policy is in force."));
    ev.verdict = EGRESS_ALLOWED;
    write_audit_event(a, &ev);
}
