/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <sys/socket.h>

#include "base/own.h"
#include "engine/egress/dial.h"
#include "engine/egress/refuse.h"
#include "engine/egress/relays/flow.h"
#include "engine/egress/relays/relays.h"
#include "lib/loop/fd.h"
#include "lib/loop/timer.h"
#include "lib/tls/hello.h"

/* A tunnel with one half closed and the other silent has usually lost its peer. */
#define HALF_CLOSED_NS (600 * NS_PER_S)

enum tunnel_phase {
    PHASE_DIAL,
    PHASE_FIRST, /* the client's first bytes are not classified yet */
    PHASE_HELLO, /* they are an incomplete TLS ClientHello */
    PHASE_FLOW,
    PHASE_OVER,
};

/* State of a tunnel that is only needed until it is connected. */
struct tunnel_setup {
    struct tcp_tunnel *tunnel;
    struct dial dial;
    struct buf read, greeting;
};

struct tcp_tunnel {
    struct egress_open open;
    struct egress_box *box;
    enum tunnel_phase phase;
    bool half; /* one direction has ended */
    int client, upstream;
    struct loop_fd client_fd, upstream_fd;
    struct loop_timer timer;
    int64_t started, last; /* CLOCK_MONOTONIC ns */
    struct flow out, in;
    struct tunnel_setup *setup;
    size_t at; /* index of the address in use */
    struct lease *lease;
    struct loop_later later;
};

/* ---- the end ---- */

static void on_tunnel_free(struct loop_later *l)
{
    struct tcp_tunnel *t = container_of(l, struct tcp_tunnel, later);

    lease_free(t->lease);
    free(t);
}

static void tunnel_setup_free(struct tunnel_setup *s)
{
    if (!s)
        return;
    dial_cancel(&s->dial);
    buf_done(&s->read);
    buf_done(&s->greeting);
    free(s);
}

/* Ends the tunnel and leaves the box. Open descriptors are closed, or with `reset` reset, so that
 * unsent bytes of a denied connection are dropped. */
static void end_tunnel(struct tcp_tunnel *t, const char *how, bool reset)
{
    if (t->phase == PHASE_OVER)
        return;
    loop_fd_stop_to_close(&t->client_fd);
    loop_fd_stop_to_close(&t->upstream_fd);
    loop_timer_stop(&t->timer);
    for (int *fd = &t->client; fd; fd = fd == &t->client ? &t->upstream : NULL) {
        if (*fd >= 0 && reset)
            refuse_reset(*fd);
        else if (*fd >= 0)
            close(*fd);
        *fd = -1;
    }
    lease_close(t->lease, t->out.bytes, t->in.bytes, how);
    t->phase = PHASE_OVER;
    tunnel_setup_free(take_ptr(t->setup));
    flow_done(&t->out);
    flow_done(&t->in);
    egress_open_leave(t->box, &t->open);
    loop_later(t->box->egress->loop, &t->later, on_tunnel_free, NULL);
}

static void on_tunnel_close(struct egress_open *o, const char *how)
{
    end_tunnel(container_of(o, struct tcp_tunnel, open), how, true);
}

/* Denies a connected tunnel: records the denial and resets both sides. */
static void deny_tunnel(struct tcp_tunnel *t, const char *code, const char *text)
{
    const struct egress_intent *i = &t->lease->intent;

    lease_refuse(t->lease, 403, code, "Send the host of the connection as TLS server name (SNI).",
                 "%s (%s:%u)", text, i->host.name, i->port);
    end_tunnel(t, code, true);
}

/* ---- time ---- */

static int64_t tunnel_end_at(const struct tcp_tunnel *t)
{
    int64_t total = t->box->egress->total_ns;

    return t->started + (total ? total : EGRESS_TOTAL_NS);
}

static int64_t tunnel_due_at(const struct tcp_tunnel *t)
{
    int64_t idle = t->box->egress->idle_ns ? t->box->egress->idle_ns : EGRESS_IDLE_NS;
    int64_t limit = t->phase == PHASE_HELLO ? EGRESS_HELLO_NS : t->half ? HALF_CLOSED_NS : idle;
    int64_t last = tunnel_end_at(t);

    return t->last + limit < last ? t->last + limit : last;
}

/* Not restarted for every byte: compares with the time of the last one. */
static void on_tunnel_timer(struct loop_timer *timer)
{
    struct tcp_tunnel *t = container_of(timer, struct tcp_tunnel, timer);
    int64_t now = clock_mono();

    if (tunnel_due_at(t) > now)
        loop_timer_start(timer->loop, timer, tunnel_due_at(t), on_tunnel_timer, NULL);
    else if (tunnel_end_at(t) <= now)
        end_tunnel(t, "total time", true);
    else
        end_tunnel(t, t->phase == PHASE_HELLO ? "hello timeout" : "idle", true);
}

static void set_tunnel_timer(struct tcp_tunnel *t)
{
    loop_timer_stop(&t->timer);
    t->last = clock_mono();
    loop_timer_start(t->box->egress->loop, &t->timer, tunnel_due_at(t), on_tunnel_timer, NULL);
}

/* ---- bytes ---- */

enum { LISTEN = LOOP_READ | LOOP_HALF };

static void update_tunnel_interest(struct tcp_tunnel *t)
{
    bool held = t->phase == PHASE_HELLO || t->phase == PHASE_FIRST;
    unsigned client = 0, upstream = 0;

    if (t->phase == PHASE_OVER)
        return;
    if (t->out.passed && t->in.passed) {
        end_tunnel(t, "closed", false);
        return;
    }
    if (!t->half && (t->out.ended || t->in.ended)) {
        t->half = true;
        set_tunnel_timer(t);
    }
    client |= held || flow_wants_read(&t->out) ? LISTEN : 0;
    client |= flow_wants_write(&t->in) ? LOOP_WRITE : 0;
    upstream |= flow_wants_read(&t->in) ? LISTEN : 0;
    upstream |= !held && flow_wants_write(&t->out) ? LOOP_WRITE : 0;
    if (loop_fd_want(&t->client_fd, client, NULL) < 0 ||
        loop_fd_want(&t->upstream_fd, upstream, NULL) < 0)
        end_tunnel(t, "out of resources", true);
}

/* Which bytes an event lets move: those that are pending, or also bytes that are read now. */
enum {
    MOVE_OUT = 1 << 0,
    MOVE_IN = 1 << 1,
    READ_CLIENT = 1 << 2,   /* with MOVE_OUT */
    READ_UPSTREAM = 1 << 3, /* with MOVE_IN */
};

static void move_tunnel_bytes(struct tcp_tunnel *t, unsigned how)
{
    struct egress_counters *c = &t->box->counters;
    uint64_t out_bytes = t->out.bytes, in_bytes = t->in.bytes;
    enum flow_result r = FLOW_WAIT;

    /* No byte goes upstream under an outdated policy. reconsider() guarantees that already; this is
     * a second check. */
    if (!egress_decision_current(&t->lease->decision, t->box)) {
        end_tunnel(t, "policy changed", true);
        return;
    }
    t->out.last = t->in.passed;
    t->in.last = t->out.passed;
    if (how & MOVE_OUT)
        r = flow_move(&t->out, t->client, t->upstream, how & READ_CLIENT);
    if (r == FLOW_WAIT && how & MOVE_IN)
        r = flow_move(&t->in, t->upstream, t->client, how & READ_UPSTREAM);
    c->bytes_out += t->out.bytes - out_bytes;
    c->bytes_in += t->in.bytes - in_bytes;
    if (t->out.bytes != out_bytes || t->in.bytes != in_bytes)
        c->last_ns = t->last = clock_mono();
    if (r == FLOW_BROKEN)
        end_tunnel(t, "reset", true);
}

/* ---- the client's first bytes ---- */

static bool names_host(const struct tcp_tunnel *t, const struct tls_hello *h)
{
    struct host named;

    return host_parse(str_from(h->sni), false, &named, NULL) >= 0 && !named.is_address &&
           (strcmp(named.name, t->lease->intent.host.name) == 0 ||
            host_calls_loopback(&named, &t->lease->intent.host));
}

/* TLS has no SNI for a literal address; the address itself was allowed. */
static bool check_hello(struct tcp_tunnel *t, const struct tls_hello *h)
{
    if (h->ech)
        deny_tunnel(t, "sni_unverifiable", "The TLS ClientHello encrypts its server name");
    else if (!h->has_sni && !t->lease->intent.host.is_address)
        deny_tunnel(t, "sni_missing", "The TLS ClientHello has no server name");
    else if (h->has_sni && (h->sni_odd || !names_host(t, h)))
        deny_tunnel(t, "sni_mismatch", "The TLS ClientHello has another server name");
    else
        return true;
    return false;
}

enum { RECORD_FIRST = 0x14, RECORD_LAST = 0x18 }; /* types of TLS records */

/* Whether a TLS server might read the bytes as a hello without a name, or differently from our
 * parser: a hello in SSL 2 format, a handshake record that our parser rejects, and any other
 * record, such as an alert, behind which some servers still accept a hello. */
static bool is_odd_tls(struct str first)
{
    const unsigned char *p = (const unsigned char *)first.p;
    bool old =
        (p[0] & 0x80) && (first.n < 3 || p[2] == 1) && (first.n < 4 || p[3] == 0 || p[3] == 3);
    bool record = p[0] >= RECORD_FIRST && p[0] <= RECORD_LAST && (first.n < 2 || p[1] == 3);

    return old || record;
}

enum { ODD_BYTES = 5 /* bytes needed for that */ };

static void wait_for_hello(struct tcp_tunnel *t)
{
    if (t->out.ended) {
        deny_tunnel(t, "tls_malformed", "The TLS ClientHello is incomplete");
    } else if (t->phase == PHASE_FIRST) {
        t->phase = PHASE_HELLO;
        set_tunnel_timer(t);
    }
}

static void inspect_first_bytes(struct tcp_tunnel *t)
{
    struct str first = buf_str(&t->out.held);
    struct tls_hello hello;
    int r;

    if (first.n == 0 && !t->out.ended)
        return;
    if (first.n > 0 && tls_is_hello(first)) {
        r = tls_hello_parse(first, &hello, NULL);
        if (r < 0)
            deny_tunnel(t, "tls_malformed", "The client sent malformed TLS");
        else if (r == 0)
            wait_for_hello(t);
        else if (check_hello(t, &hello))
            t->phase = PHASE_FLOW;
    } else if (first.n == 0 || !is_odd_tls(first)) {
        t->phase = PHASE_FLOW;
    } else if (first.n < ODD_BYTES && !t->out.ended) {
        wait_for_hello(t);
    } else {
        deny_tunnel(t, "tls_malformed", "The client sent malformed TLS");
    }
}

static void read_first(struct tcp_tunnel *t)
{
    size_t left = TLS_HELLO_BYTES - t->out.held.n;
    char room[4096];
    ssize_t n = recv(t->client, room, left < sizeof room ? left : sizeof room, MSG_DONTWAIT);

    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            end_tunnel(t, "reset", true);
        return;
    }
    if (n == 0)
        t->out.ended = true;
    else
        flow_add(&t->out, (struct str){ room, (size_t)n });
    inspect_first_bytes(t);
}

static void begin_flow(struct tcp_tunnel *t)
{
    if (t->phase == PHASE_FLOW)
        move_tunnel_bytes(t, MOVE_OUT);
}

/* ---- events ---- */

enum {
    READABLE = LOOP_READ | LOOP_HUP | LOOP_ERROR,
    WRITABLE = LOOP_WRITE | LOOP_HUP | LOOP_ERROR
};

static void on_tunnel_client(struct loop_fd *s, unsigned events)
{
    struct tcp_tunnel *t = container_of(s, struct tcp_tunnel, client_fd);

    if (t->phase != PHASE_FLOW && (events & READABLE)) {
        read_first(t);
        begin_flow(t);
    } else {
        t->out.ending = events & LOOP_HALF;
        move_tunnel_bytes(t, (events & READABLE ? MOVE_OUT | READ_CLIENT : 0) |
                                 (events & WRITABLE ? MOVE_IN : 0));
    }
    update_tunnel_interest(t);
}

static void on_tunnel_upstream(struct loop_fd *s, unsigned events)
{
    struct tcp_tunnel *t = container_of(s, struct tcp_tunnel, upstream_fd);
    bool writable = (events & WRITABLE) && t->phase == PHASE_FLOW;

    t->in.ending = events & LOOP_HALF;
    move_tunnel_bytes(t, (writable ? MOVE_OUT : 0) |
                             (events & READABLE ? MOVE_IN | READ_UPSTREAM : 0));
    update_tunnel_interest(t);
}

/* ---- beginning ---- */

static void refuse_client(struct tcp_tunnel *t, int status, const struct egress_reason *why)
{
    int client = take_fd(&t->client);

    if (t->setup->greeting.n > 0)
        refuse_http(t->box, client, status, &t->lease->intent, &t->lease->decision, why);
    else
        refuse_reset(client);
}

static void refuse_failed_dial(struct tcp_tunnel *t, const struct err *e)
{
    const struct egress_intent *i = &t->lease->intent;
    const struct egress_decision *d = &t->lease->decision;
    bool late = e->code == ERR_TIMEOUT;
    struct egress_reason why;

    refuse_reason(&why, "upstream_unreachable", "Try again later, or check host and port.",
                  "%s:%u cannot be reached: %s.", i->host.name, i->port, e->msg);
    if (t->lease->state == LEASE_OPEN)
        refuse_client(t, late ? 504 : 502, &why);
    else
        refuse_client(t, d->status, &d->why);
    end_tunnel(t, late ? "timeout" : "unreachable", true);
}

static void on_tunnel_dialled(struct dial *d, int fd, const struct err *e)
{
    struct tunnel_setup *s = container_of(d, struct tunnel_setup, dial);
    struct tcp_tunnel *t = s->tunnel;
    struct loop *l = t->box->egress->loop;

    if (fd < 0) {
        refuse_failed_dial(t, e);
        return;
    }
    t->upstream = fd;
    t->at = d->at;
    t->phase = PHASE_FIRST;
    t->box->counters.connections++;
    flow_add(&t->in, buf_str(&s->greeting));
    flow_add(&t->out, buf_str(&s->read));
    tunnel_setup_free(take_ptr(t->setup));
    if (loop_fd_start(l, &t->client_fd, t->client, LISTEN, on_tunnel_client, NULL) < 0 ||
        loop_fd_start(l, &t->upstream_fd, fd, LISTEN, on_tunnel_upstream, NULL) < 0) {
        end_tunnel(t, "out of resources", true);
        return;
    }
    set_tunnel_timer(t);
    move_tunnel_bytes(t, MOVE_IN);
    if (t->phase == PHASE_FIRST) {
        inspect_first_bytes(t);
        begin_flow(t);
    }
    update_tunnel_interest(t);
}

/* Checks all addresses while dialling, since any may be next, then the one in use. */
static void on_tunnel_reconsider(struct egress_open *o)
{
    struct tcp_tunnel *t = container_of(o, struct tcp_tunnel, open);
    bool dialling = t->phase == PHASE_DIAL;

    if (!authorize_again(t->lease, dialling ? 0 : t->at, dialling ? t->lease->decision.n : 1))
        end_tunnel(t, "policy changed", true);
}

void relay_tcp(const struct relay_start *s)
{
    struct tcp_tunnel *t = new0(sizeof *t);
    struct tunnel_setup *setup = new0(sizeof *setup);

    *t = (struct tcp_tunnel){ .open = { .reconsider = on_tunnel_reconsider,
                                        .close = on_tunnel_close },
                              .box = s->box,
                              .client = s->client,
                              .upstream = -1,
                              .started = clock_mono(),
                              .setup = setup,
                              .lease = s->lease };
    flow_init(&t->out);
    flow_init(&t->in);
    setup->read = BUF_INIT(EGRESS_READ_MAX);
    setup->greeting = BUF_INIT(EGRESS_HEAD_MAX);
    if (buf_add(&setup->read, s->read) < 0 || buf_add(&setup->greeting, s->greeting) < 0)
        abort(); /* adapters never read more */
    egress_open_join(s->box, &t->open);
    setup->tunnel = t;
    dial_start(&setup->dial, t->lease, on_tunnel_dialled);
}
