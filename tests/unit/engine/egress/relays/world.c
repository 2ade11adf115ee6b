/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/engine/egress/relays/world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/egress/adapters/adapters.h"
#include "engine/egress/audit.h"
#include "engine/egress/relays/relays.h"
#include "harness/tap.h"
#include "domain/policy/egress_file.h"

enum { HEARD_MAX = 64 << 20 };

static struct err e;

static struct egress_snapshot *compile(struct world *w, const char *endpoint)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    struct egress_policy p;
    struct egress_snapshot *s;
    char text[4096];

    snprintf(text, sizeof(text),
             "version: 1\nnetwork_policies:\n  web:\n    endpoints:\n"
             "      - { host: 93.184.216.34, port: %u, %s }\n"
             "    binaries: [{ path: /** }]\n%s",
             endpoint ? (unsigned)w->port : 1u,
             endpoint ? endpoint : "protocol: rest, access: full", w->entry ? w->entry : "");
    CHECK_OK(egress_policy_read(str_from(text), &a, &p, &e), e);
    s = egress_compile(&p, ++w->generation, &e);
    if (!s)
        FAIL("%s", e.msg);
    return s;
}

void world_policy(struct world *w, const char *endpoint)
{
    struct egress_snapshot *s = compile(w, endpoint);

    egress_box_set_policy(&w->box, s);
    egress_snapshot_unref(s);
}

/* The policy grants no address of the machine to a name, and few tests want to be about that: so
 * the origin is at a public one, in a network that has nothing else. */
static void enter_network(void)
{
    static bool entered;
    struct ifreq lo = { .ifr_name = "lo" };
    struct sockaddr_in *sa = (struct sockaddr_in *)(void *)&lo.ifr_addr;
    AUTO_CLOSE int fd = -1;

    if (entered)
        return;
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        SKIP("no network namespace can be made here: %s", strerror(errno));
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    lo.ifr_flags = IFF_UP | IFF_RUNNING;
    CHECK_INT(ioctl(fd, SIOCSIFFLAGS, &lo), 0);
    lo = (struct ifreq){ .ifr_name = "lo:1" };
    *sa = (struct sockaddr_in){ .sin_family = AF_INET };
    CHECK_INT(inet_pton(AF_INET, "93.184.216.34", &sa->sin_addr), 1);
    CHECK_INT(ioctl(fd, SIOCSIFADDR, &lo), 0);
    entered = true;
}

static void start_listening(struct world *w)
{
    struct sockaddr_in sa = { .sin_family = AF_INET };
    socklen_t n = sizeof(sa);

    CHECK_INT(inet_pton(AF_INET, "93.184.216.34", &sa.sin_addr), 1);
    w->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(w->listener >= 0);
    CHECK_INT(bind(w->listener, (struct sockaddr *)&sa, n), 0);
    CHECK_INT(listen(w->listener, 16), 0);
    CHECK_INT(getsockname(w->listener, (struct sockaddr *)&sa, &n), 0);
    w->port = ntohs(sa.sin_port);
}

void world_start(struct world *w, const char *endpoint)
{
    struct dns_server nobody = { .address = { .bytes = { 127, 0, 0, 1 } }, .port = 1 };

    enter_network();
    *w = (struct world){ .client = -1, .origin = -1 };
    buf_init(&w->seen, HEARD_MAX);
    buf_init(&w->heard, HEARD_MAX);
    CHECK_OK(loop_init(&w->loop, &e), e);
    w->egress.loop = &w->loop;
    CHECK_OK(dns_resolver_init(&w->egress.resolver, &w->loop, &nobody, 1, &e), e);
    start_listening(w);
    w->audit = memfd_create("audit", MFD_CLOEXEC);
    CHECK(w->audit >= 0);
    w->box.egress = &w->egress;
    w->box.audit = audit_new(&w->loop, "sbx_test", dup(w->audit));
    world_policy(w, endpoint);
}

void world_stop(struct world *w)
{
    if (w->client >= 0)
        close(w->client);
    if (w->origin >= 0)
        close(w->origin);
    w->client = w->origin = -1;
    while (list_first(&w->box.open)) {
        struct egress_open *o = container_of(list_first(&w->box.open), struct egress_open, link);

        o->close(o, "sandbox ended");
    }
    CHECK_INT(w->box.rank.count, 0);
    world_turn(w);
    egress_box_set_policy(&w->box, NULL);
    audit_free(w->box.audit);
    dns_resolver_done(&w->egress.resolver);
    close(w->audit);
    close(w->listener);
    buf_done(&w->seen);
    buf_done(&w->heard);
    loop_done(&w->loop);
}

static int make_client(struct world *w)
{
    int fds[2];

    if (w->client >= 0)
        close(w->client);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    w->client = fds[1];
    w->client_ended = false;
    return fds[0];
}

static void decide(struct authorization *a)
{
    /* its lease has the decision */
}

void world_tunnel(struct world *w, struct str read, struct str greeting)
{
    struct egress_intent i = { .adapter = EGRESS_BY_CONNECT, .port = w->port };
    struct authorization a = { 0 };
    int fd = make_client(w);

    CHECK_OK(host_parse(STR("93.184.216.34"), false, &i.host, &e), e);
    authorize_start(&a, &w->box, &i, decide);
    world_turn(w);
    CHECK(a.lease->decision.verdict != EGRESS_DENIED);
    relay_http(&(struct relay_start){
        .box = &w->box, .client = fd, .lease = a.lease, .read = read, .greeting = greeting });
    world_turn(w);
}

void world_forward(struct world *w, struct str read)
{
    struct address from = { .bytes = { 10, 0, 0, 2 } };

    relay_forward(&w->box, make_client(w), &from, 40000, read, connect_accept);
    world_turn(w);
}

struct str world_fill(struct world *w, struct str text)
{
    static char out[4][70000];
    static unsigned turn;
    char *at = out[turn++ % 4], *start = at;

    CHECK(text.n < 60000);
    for (size_t i = 0; i < text.n; i++)
        if (i + 1 < text.n && memcmp(text.p + i, "{}", 2) == 0) {
            at += snprintf(at, 32, "93.184.216.34:%u", w->port);
            i++;
        } else {
            *at++ = text.p[i];
        }
    *at = '\0';
    return (struct str){ start, (size_t)(at - start) };
}

struct str world_text(struct world *w, const char *text)
{
    return world_fill(w, str_from(text));
}

/* How many bytes came; sets *ended at the end of the stream. */
static size_t drain(int fd, struct buf *into, bool *ended)
{
    size_t all = 0;
    char piece[65536];
    ssize_t n;

    while (fd >= 0 && !*ended && (n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT)) != -1) {
        CHECK(buf_add(into, (struct str){ piece, (size_t)n }) == 0);
        all += (size_t)n;
        *ended = n == 0;
    }
    if (fd >= 0 && !*ended && errno != EAGAIN)
        *ended = true;
    return all;
}

static void take_newest(struct world *w)
{
    int fd;

    while ((fd = accept(w->listener, NULL, NULL)) >= 0) {
        if (w->origin >= 0) {
            drain(w->origin, &w->seen, &w->origin_ended);
            close(w->origin);
        }
        CHECK_INT(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)), 0);
        w->origin = fd;
        w->origin_ended = false;
        w->accepted++;
    }
}

void world_turn(struct world *w)
{
    for (int quiet = 0; quiet < 5;) {
        int called = loop_run_once(&w->loop, quiet < 3 ? 0 : NS_PER_MS, &e);
        size_t moved;

        CHECK(called >= 0);
        take_newest(w);
        moved = drain(w->origin, &w->seen, &w->origin_ended) +
                drain(w->client, &w->heard, &w->client_ended);
        quiet = called > 0 || moved > 0 ? 0 : quiet + 1;
    }
}

static void put(struct world *w, int fd, struct str s)
{
    while (s.n > 0) {
        ssize_t n = send(fd, s.p, s.n, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0)
            s = (struct str){ s.p + n, s.n - (size_t)n };
        else if (errno != EAGAIN)
            break;
        if (s.n > 0)
            world_turn(w);
    }
    world_turn(w);
}

void world_say(struct world *w, struct str bytes)
{
    put(w, w->client, bytes);
}

void world_answer(struct world *w, struct str bytes)
{
    CHECK(w->origin >= 0);
    put(w, w->origin, bytes);
}

void world_end_origin(struct world *w)
{
    CHECK(w->origin >= 0);
    close(w->origin);
    w->origin = -1;
    world_turn(w);
}

void world_end_client(struct world *w)
{
    shutdown(w->client, SHUT_WR);
    world_turn(w);
}

void world_forget(struct world *w)
{
    buf_clear(&w->seen);
    buf_clear(&w->heard);
}

size_t world_count(const struct buf *b, const char *part)
{
    size_t n = 0;

    for (const char *at = b->p, *end = b->p + b->n; at;) {
        at = memmem(at, (size_t)(end - at), part, strlen(part));
        if (at) {
            n++;
            at++;
        }
    }
    return n;
}

bool world_has(const struct buf *b, const char *part)
{
    return world_count(b, part) > 0;
}

unsigned world_status(const struct world *w)
{
    if (w->heard.n < 12 || memcmp(w->heard.p, "HTTP/1.1 ", 9) != 0)
        return 0;
    return (unsigned)strtoul(w->heard.p + 9, NULL, 10);
}

struct str world_audit(struct world *w)
{
    static char text[1 << 20];
    ssize_t n = pread(w->audit, text, sizeof(text), 0);

    CHECK(n >= 0);
    return (struct str){ text, (size_t)n };
}
