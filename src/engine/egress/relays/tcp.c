#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/own.h"
#include "egress/dial.h"
#include "egress/refuse.h"
#include "egress/relays/flow.h"
#include "egress/relays/relays.h"
#include "loop/fd.h"
#include "loop/timer.h"
#include "tls/hello.h"

/* A tunnel of which one half is closed and the other silent is mostly one whose end nobody told. */
#define HALF_CLOSED_NS (600 * NS_PER_S)

enum phase {
    PHASE_DIAL,
    PHASE_FIRST, /* the client's first bytes are not known yet */
    PHASE_HELLO, /* they are of a TLS hello that is not complete */
    PHASE_FLOW,
    PHASE_OVER,
};

/* What only a tunnel that is being made has. */
struct setup {
    struct tunnel *tunnel;
    struct dial dial;
    struct buf read, greeting;
};

struct tunnel {
    struct egress_open open;
    struct egress_box *box;
    enum phase phase;
    bool half; /* one direction has ended */
    int client, upstream;
    struct loop_fd client_fd, upstream_fd;
    struct loop_timer timer;
    int64_t started, last; /* CLOCK_MONOTONIC ns */
    struct flow out, in;
    struct setup *setup;
    size_t at; /* of the decision's addresses, the one in use */
    struct lease *lease;
    struct loop_later later;
};

/* ---- the end ---- */

static void tunnel_free(struct loop_later *l)
{
    struct tunnel *t = container_of(l, struct tunnel, later);

    lease_free(t->lease);
    free(t);
}

static void setup_free(struct setup *s)
{
    if (!s)
        return;
    dial_cancel(&s->dial);
    buf_done(&s->read);
    buf_done(&s->greeting);
    free(s);
}

/* Stops everything and leaves the box; the descriptors that are still there are reset, so that no
 * byte of what was not allowed to be finished is sent, or closed. */
static void end(struct tunnel *t, const char *how, bool reset)
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
    setup_free(take_ptr(t->setup));
    flow_done(&t->out);
    flow_done(&t->in);
    egress_open_leave(t->box, &t->open);
    loop_later(t->box->egress->loop, &t->later, tunnel_free, NULL);
}

static void on_close(struct egress_open *o, const char *how)
{
    end(container_of(o, struct tunnel, open), how, true);
}

/* A denial after the connection stood: on record, and a reset for both sides. */
static void deny(struct tunnel *t, const char *code, const char *text)
{
    const struct egress_intent *i = &t->lease->intent;

    lease_refuse(t->lease, 403, code, "Let TLS name the host that the connection was asked for.",
                 "%s (%s:%u)", text, i->host.name, i->port);
    end(t, code, true);
}

/* ---- time ---- */

static int64_t patience(const struct tunnel *t)
{
    int64_t idle = t->box->egress->idle_ns;

    if (t->phase == PHASE_HELLO)
        return EGRESS_HELLO_NS;
    if (t->half)
        return HALF_CLOSED_NS;
    return idle ? idle : EGRESS_IDLE_NS;
}

static int64_t last_moment(const struct tunnel *t)
{
    int64_t total = t->box->egress->total_ns;

    return t->started + (total ? total : EGRESS_TOTAL_NS);
}

static int64_t due_at(const struct tunnel *t)
{
    int64_t idle = t->last + patience(t), last = last_moment(t);

    return idle < last ? idle : last;
}

/* Not started again for every byte: it looks how long ago the last one was. */
static void on_time(struct loop_timer *timer)
{
    struct tunnel *t = container_of(timer, struct tunnel, timer);
    int64_t now = clock_mono();

    if (due_at(t) > now)
        loop_timer_start(timer->loop, timer, due_at(t), on_time, NULL);
    else if (last_moment(t) <= now)
        end(t, "total time", true);
    else
        end(t, t->phase == PHASE_HELLO ? "hello timeout" : "idle", true);
}

static void set_time(struct tunnel *t)
{
    loop_timer_stop(&t->timer);
    t->last = clock_mono();
    loop_timer_start(t->box->egress->loop, &t->timer, due_at(t), on_time, NULL);
}

/* ---- bytes ---- */

enum { LISTEN = LOOP_READ | LOOP_HALF };

static void settle(struct tunnel *t)
{
    bool held = t->phase == PHASE_HELLO || t->phase == PHASE_FIRST;
    unsigned client = 0, upstream = 0;

    if (t->phase == PHASE_OVER)
        return;
    if (t->out.passed && t->in.passed) {
        end(t, "closed", false);
        return;
    }
    if (!t->half && (t->out.ended || t->in.ended)) {
        t->half = true;
        set_time(t);
    }
    client |= held || flow_wants_read(&t->out) ? LISTEN : 0;
    client |= flow_wants_write(&t->in) ? LOOP_WRITE : 0;
    upstream |= flow_wants_read(&t->in) ? LISTEN : 0;
    upstream |= !held && flow_wants_write(&t->out) ? LOOP_WRITE : 0;
    if (loop_fd_want(&t->client_fd, client, NULL) < 0 ||
        loop_fd_want(&t->upstream_fd, upstream, NULL) < 0)
        end(t, "out of resources", true);
}

/* Counts what moved since there were `out` and `in`. */
static void count(struct tunnel *t, uint64_t out, uint64_t in)
{
    struct egress_counters *c = &t->box->counters;

    if (t->out.bytes == out && t->in.bytes == in)
        return;
    c->bytes_out += t->out.bytes - out;
    c->bytes_in += t->in.bytes - in;
    c->last_ns = t->last = clock_mono();
}

/* Moves one direction, or both where one event is about both. */
static void move(struct tunnel *t, bool out, bool out_read, bool in, bool in_read)
{
    uint64_t out_bytes = t->out.bytes, in_bytes = t->in.bytes;
    enum flow_result r = FLOW_WAIT;

    /* No byte goes up under a policy that is not in force. Policies are changed by reconsider(), so
     * this is a promise kept twice. */
    if (!egress_decision_current(&t->lease->decision, t->box)) {
        end(t, "policy changed", true);
        return;
    }
    t->out.last = t->in.passed;
    t->in.last = t->out.passed;
    if (out)
        r = flow_move(&t->out, t->client, t->upstream, out_read);
    if (r == FLOW_WAIT && in)
        r = flow_move(&t->in, t->upstream, t->client, in_read);
    count(t, out_bytes, in_bytes);
    if (r == FLOW_BROKEN)
        end(t, "reset", true);
}

/* ---- the client's first bytes ---- */

static bool names_host(const struct tunnel *t, const struct tls_hello *h)
{
    struct host named;

    return host_parse(str_from(h->sni), false, &named, NULL) >= 0 && !named.is_address &&
           (strcmp(named.name, t->lease->intent.host.name) == 0 ||
            host_calls_loopback(&named, &t->lease->intent.host));
}

/* A literal address has no name that TLS could say; it is then the address that was allowed. */
static bool check_hello(struct tunnel *t, const struct tls_hello *h)
{
    if (h->ech)
        deny(t, "sni_unverifiable", "The TLS hello hides the name of its server");
    else if (!h->has_sni && !t->lease->intent.host.is_address)
        deny(t, "sni_missing", "The TLS hello names no server");
    else if (h->has_sni && (h->sni_odd || !names_host(t, h)))
        deny(t, "sni_mismatch", "The TLS hello names another server");
    else
        return true;
    return false;
}

enum { RECORD_FIRST = 0x14, RECORD_LAST = 0x18 }; /* types of TLS records */

/* What a TLS server might take for a hello without a name, or otherwise than we do: a hello in the
 * form of SSL 2, a handshake record that our reader calls none, and any other record, such as a
 * warning, behind which some servers still take a hello. */
static bool is_odd_tls(struct str first)
{
    const unsigned char *p = (const unsigned char *)first.p;
    bool old =
        (p[0] & 0x80) && (first.n < 3 || p[2] == 1) && (first.n < 4 || p[3] == 0 || p[3] == 3);
    bool record = p[0] >= RECORD_FIRST && p[0] <= RECORD_LAST && (first.n < 2 || p[1] == 3);

    return old || record;
}

enum { ODD_BYTES = 5 /* tell it apart */ };

static void wait_for_more(struct tunnel *t)
{
    if (t->out.ended) {
        deny(t, "tls_malformed", "The TLS hello has no end");
    } else if (t->phase == PHASE_FIRST) {
        t->phase = PHASE_HELLO;
        set_time(t);
    }
}

static void look_at_tls(struct tunnel *t, struct str first)
{
    struct tls_hello hello;
    int r = tls_hello_parse(first, &hello, NULL);

    if (r < 0)
        deny(t, "tls_malformed", "What begins like TLS is none");
    else if (r == 0)
        wait_for_more(t);
    else if (check_hello(t, &hello))
        t->phase = PHASE_FLOW;
}

static void look(struct tunnel *t)
{
    struct str first = buf_str(&t->out.held);

    if (first.n == 0 && !t->out.ended)
        return;
    if (first.n > 0 && tls_looks_like(first))
        look_at_tls(t, first);
    else if (first.n == 0 || !is_odd_tls(first))
        t->phase = PHASE_FLOW;
    else if (first.n < ODD_BYTES && !t->out.ended)
        wait_for_more(t);
    else
        deny(t, "tls_malformed", "What begins like TLS is none");
}

static void read_first(struct tunnel *t)
{
    size_t had = t->out.held.n, most = TLS_HELLO_BYTES;
    char room[4096];
    ssize_t n;

    if (most - had < sizeof room)
        most -= had;
    else
        most = sizeof room;
    n = recv(t->client, room, most, MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        end(t, "reset", true);
        return;
    }
    if (n < 0)
        return;
    if (n == 0)
        t->out.ended = true;
    else
        flow_put(&t->out, (struct str){ room, (size_t)n });
    look(t);
}

static void begin_flow(struct tunnel *t)
{
    if (t->phase == PHASE_FLOW)
        move(t, true, false, false, false);
}

/* ---- events ---- */

enum { READABLE = LOOP_READ | LOOP_HUP | LOOP_ERROR };

static void on_client(struct loop_fd *s, unsigned events)
{
    struct tunnel *t = container_of(s, struct tunnel, client_fd);

    if (t->phase != PHASE_FLOW && (events & READABLE)) {
        read_first(t);
        begin_flow(t);
    } else {
        t->out.ending = events & LOOP_HALF;
        move(t, events & READABLE, true, events & (LOOP_WRITE | LOOP_HUP | LOOP_ERROR), false);
    }
    settle(t);
}

static void on_upstream(struct loop_fd *s, unsigned events)
{
    struct tunnel *t = container_of(s, struct tunnel, upstream_fd);
    bool writable = (events & (LOOP_WRITE | LOOP_HUP | LOOP_ERROR)) && t->phase == PHASE_FLOW;

    t->in.ending = events & LOOP_HALF;
    move(t, writable, false, events & READABLE, true);
    settle(t);
}

/* ---- beginning ---- */

static void refuse_client(struct tunnel *t, int status, const struct egress_reason *why)
{
    int client = take_fd(&t->client);

    if (t->setup->greeting.n > 0)
        refuse_http(t->box, client, status, &t->lease->intent, &t->lease->decision, why);
    else
        refuse_reset(client);
}

static void dial_failed(struct tunnel *t, const struct err *e)
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
    end(t, late ? "timeout" : "unreachable", true);
}

static int watch(struct tunnel *t, struct err *e)
{
    struct loop *l = t->box->egress->loop;
    int r = loop_fd_start(l, &t->client_fd, t->client, LISTEN, on_client, e);

    return r < 0 ? r : loop_fd_start(l, &t->upstream_fd, t->upstream, LISTEN, on_upstream, e);
}

static void on_dialled(struct dial *d, int fd, const struct err *e)
{
    struct setup *s = container_of(d, struct setup, dial);
    struct tunnel *t = s->tunnel;

    if (fd < 0) {
        dial_failed(t, e);
        return;
    }
    t->upstream = fd;
    t->at = d->at;
    t->phase = PHASE_FIRST;
    t->box->counters.connections++;
    flow_put(&t->in, buf_str(&s->greeting));
    flow_put(&t->out, buf_str(&s->read));
    setup_free(take_ptr(t->setup));
    if (watch(t, NULL) < 0) {
        end(t, "out of resources", true);
        return;
    }
    set_time(t);
    move(t, false, false, true, false);
    if (t->phase == PHASE_FIRST) {
        look(t);
        begin_flow(t);
    }
    settle(t);
}

/* All addresses while dialling, since any may be next; then the one in use. */
static void on_reconsider(struct egress_open *o)
{
    struct tunnel *t = container_of(o, struct tunnel, open);
    bool dialling = t->phase == PHASE_DIAL;

    if (!authorize_again(t->lease, dialling ? 0 : t->at, dialling ? t->lease->decision.n : 1))
        end(t, "policy changed", true);
}

void relay_tcp(const struct relay_start *s)
{
    struct tunnel *t = calloc(1, sizeof *t);
    struct setup *setup = calloc(1, sizeof *setup);

    if (!t || !setup)
        abort();
    *t = (struct tunnel){ .open = { .reconsider = on_reconsider, .close = on_close },
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
        abort(); /* an adapter reads no more */
    egress_open_join(s->box, &t->open);
    setup->tunnel = t;
    dial_start(&setup->dial, t->lease, on_dialled);
}
