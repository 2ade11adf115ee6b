/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "box_world.h"
#include "engine/egress/dial.h"
#include "harness/tap.h"

static bool done;
static int dialled;
static struct err why;

static void on_done(struct dial *d, int fd, const struct err *e)
{
    dialled = fd;
    if (e)
        why = *e;
    done = true;
}

static struct lease *decide(uint16_t port)
{
    struct egress_intent i = world_allow(port);

    return world_decide(&i);
}

static void start(struct dial *d, struct lease *l)
{
    *d = (struct dial){ 0 };
    done = false;
    dialled = -1;
    why = (struct err){ 0 };
    dial_start(d, l, on_done);
    CHECK(!done);
}

TEST(connects_to_the_decided_address)
{
    uint16_t port;
    int listener;
    struct lease *l;
    struct dial d;

    world_start(NULL);
    listener = world_listen(&port);
    l = decide(port);
    CHECK_INT(l->decision.verdict, EGRESS_ALLOWED);
    start(&d, l);
    world_run(&done);
    CHECK(dialled >= 0);
    CHECK(send(dialled, "x", 1, 0) == 1);
    close(dialled);
    close(world_accept(listener));
    close(listener);
    lease_free(l);
    world_end();
}

static struct lease *lease_two(uint16_t port)
{
    struct lease *l = decide(port);

    l->decision.addresses[1] = l->decision.addresses[0];
    l->decision.addresses[0] = world_address("127.0.0.1"); /* nothing listens there */
    l->decision.n = 2;
    return l;
}

TEST(tries_the_next_address_and_says_why_none_answered)
{
    uint16_t port;
    int listener;
    struct lease *l;
    struct dial d;

    world_start(NULL);
    listener = world_listen(&port);
    l = lease_two(port);
    start(&d, l);
    world_run(&done);
    CHECK(dialled >= 0);
    CHECK_INT(d.at, 1);
    close(dialled);
    close(listener);
    lease_free(l);
    l = lease_two(port);
    start(&d, l);
    world_run(&done);
    CHECK_INT(dialled, -1);
    CHECK_INT(why.code, ERR_SYS);
    CHECK_INT(why.sys, ECONNREFUSED);
    lease_free(l);
    world_end();
}

TEST(a_decision_that_is_old_or_no_is_not_dialled)
{
    uint16_t port;
    int listener;
    struct lease *l;
    struct dial d;

    world_start(NULL);
    listener = world_listen(&port);
    l = decide(port);
    world_policy(NULL);
    start(&d, l);
    world_run(&done);
    CHECK_INT(dialled, -1);
    CHECK_INT(why.code, ERR_DENIED);
    lease_free(l);
    l = decide(port);
    l->decision.verdict = EGRESS_DENIED;
    start(&d, l);
    world_run(&done);
    CHECK_INT(dialled, -1);
    lease_free(l);
    CHECK(accept(listener, NULL, NULL) < 0);
    close(listener);
    world_end();
}

/* The record has one Open and one Close of each lease that was dialled, and a lease is dialled
 * once. */
TEST(a_lease_is_dialled_once)
{
    uint16_t port;
    int listener;
    struct lease *l;
    struct dial d;

    world_start(NULL);
    listener = world_listen(&port);
    l = decide(port);
    start(&d, l);
    world_run(&done);
    CHECK(dialled >= 0);
    close(dialled);
    start(&d, l);
    world_run(&done);
    CHECK_INT(dialled, -1);
    lease_close(l, 1, 2, "closed");
    lease_close(l, 1, 2, "closed");
    start(&d, l);
    world_run(&done);
    CHECK_INT(dialled, -1);
    lease_free(l);
    world_turn();
    CHECK_INT(world_audited("\"Open\""), 1);
    CHECK_INT(world_audited("\"Close\""), 1);
    close(world_accept(listener));
    CHECK(accept(listener, NULL, NULL) < 0);
    close(listener);
    world_end();
}

TEST(a_cancelled_dial_is_never_heard_of)
{
    struct box_world *w = world_start(NULL);
    uint16_t port;
    int listener = world_listen(&port);
    struct lease *l = decide(port);
    struct dial d = { 0 };

    dial_cancel(&d);
    start(&d, l);
    dial_cancel(&d);
    lease_free(l);
    l = decide(port);
    start(&d, l);
    loop_run_once(&w->loop, 0, NULL);
    dial_cancel(&d);
    world_turn();
    CHECK(!done || dialled >= 0);
    lease_free(l);
    world_end();
    close(listener);
}

/* ---- through another proxy ---- */

struct line {
    const char *hears; /* the request that we must send */
    size_t hears_n;
    const char *says;
    size_t says_n;
};
#define LINE(h, s)                                                                                 \
    {                                                                                              \
        h, sizeof(h) - 1, s, sizeof(s) - 1                                                         \
    }

/* Plays a proxy; `pieces`: it says everything one byte after the other. */
static void play(struct box_world *w, enum upstream_kind kind, const struct line *lines, size_t n,
                 bool pieces)
{
    uint16_t port;
    AUTO_CLOSE int listener = world_listen(&port), fd = -1;
    struct lease *l = decide(7);
    char heard[256];
    struct dial d;

    w->egress.upstream =
        (struct upstream){ .kind = kind, .address = world_address(WORLD_PUBLIC), .port = port };
    start(&d, l);
    world_turn();
    fd = world_accept(listener);
    for (size_t i = 0; i < n; i++) {
        world_read(fd, heard, lines[i].hears_n);
        if (memcmp(heard, lines[i].hears, lines[i].hears_n) != 0)
            FAIL("line %zu", i);
        /* The proxy closes after the expected request. */
        for (size_t k = 0; pieces && !(done && dialled < 0) && k < lines[i].says_n; k++) {
            CHECK(send(fd, lines[i].says + k, 1, MSG_NOSIGNAL) == 1);
            loop_run_once(&w->loop, NS_PER_MS, NULL);
        }
        if (!pieces)
            CHECK(send(fd, lines[i].says, lines[i].says_n, MSG_NOSIGNAL) ==
                  (ssize_t)lines[i].says_n);
    }
    shutdown(fd, SHUT_WR);
    world_run(&done);
    lease_free(l);
}

#define ASKED "CONNECT " WORLD_PUBLIC ":7 HTTP/1.1\r\nHost: " WORLD_PUBLIC ":7\r\n\r\n"

TEST(asks_an_http_proxy_for_the_checked_address)
{
    static const struct line good[] = { LINE(ASKED, "HTTP/1.1 200 OK\r\nX: y\r\n\r\nfirst") },
                             bad[] = { LINE(ASKED, "HTTP/1.1 403 No\r\n\r\n") },
                             odd[] = { LINE(ASKED, "SSH-2.0-x\r\n\r\n") },
                             cut[] = { LINE(ASKED, "HTTP/1.1 200 O") };
    struct box_world *w = world_start(NULL);
    char first[5];

    for (int pieces = 0; pieces < 2; pieces++) {
        play(w, UPSTREAM_CONNECT, good, 1, pieces);
        CHECK(dialled >= 0);
        world_read(dialled, first, 5); /* nothing of the far end's is lost */
        CHECK(memcmp(first, "first", 5) == 0);
        close(dialled);
        play(w, UPSTREAM_CONNECT, bad, 1, pieces);
        CHECK(dialled < 0 && strstr(why.msg, "403"));
        play(w, UPSTREAM_CONNECT, cut, 1, pieces);
        CHECK(dialled < 0);
    }
    play(w, UPSTREAM_CONNECT, odd, 1, false);
    CHECK(dialled < 0);
    world_end();
}

#define PLACE "\5\1\0\1\x5d\xb8\xd8\x22\0\7"

TEST(asks_a_socks_proxy_for_the_checked_address)
{
    static const struct line
        good[] = { LINE("\5\1\0", "\5\0"), LINE(PLACE, "\5\0\0\1\1\2\3\4\0\7first") },
        six[] = { LINE("\5\1\0", "\5\0"), LINE(PLACE, "\5\0\0\4AAAAAAAAAAAAAAAA\0\7first") },
        named[] = { LINE("\5\1\0", "\5\0"), LINE(PLACE, "\5\0\0\3\4host\0\7first") },
        refused[] = { LINE("\5\1\0", "\5\0"), LINE(PLACE, "\5\2\0\1\0\0\0\0\0\0") },
        secret[] = { LINE("\5\1\0", "\5\xff") },
        odd[] = { LINE("\5\1\0", "\5\0"), LINE(PLACE, "\5\0\0\7\0\0\0\0\0\0") },
        old[] = { LINE("\5\1\0", "\4\0") };
    const struct line *const works[] = { good, six, named };
    struct box_world *w = world_start(NULL);
    char first[5];

    for (int pieces = 0; pieces < 2; pieces++) {
        for (size_t i = 0; i < COUNT_OF(works); i++) {
            play(w, UPSTREAM_SOCKS5, works[i], 2, pieces);
            CHECK(dialled >= 0);
            world_read(dialled, first, 5);
            CHECK(memcmp(first, "first", 5) == 0);
            close(dialled);
        }
        play(w, UPSTREAM_SOCKS5, refused, 2, pieces);
        CHECK(dialled < 0 && strstr(why.msg, "code 2"));
    }
    play(w, UPSTREAM_SOCKS5, odd, 2, false);
    CHECK(dialled < 0);
    play(w, UPSTREAM_SOCKS5, secret, 1, false);
    CHECK(dialled < 0);
    play(w, UPSTREAM_SOCKS5, old, 1, false);
    CHECK(dialled < 0);
    world_end();
}
