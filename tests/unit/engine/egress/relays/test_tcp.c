/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../box_world.h"
#include "base/own.h"
#include "engine/egress/relays/relays.h"
#include "harness/tap.h"

static struct box_world *w;
static struct egress_intent intent;
static int listener, client, origin;
static int64_t idle_ns, total_ns; /* 0: as usual */

#define GREETING "HTTP/1.1 200 ok\r\n\r\n"

/* A tunnel whose relay has begun: `client` and, once it is accepted, `origin` are its ends. */
static void start(struct str read, struct str greeting)
{
    struct relay_start s = { .read = read, .greeting = greeting };
    uint16_t port;

    w = world_start(NULL);
    w->box->egress->idle_ns = idle_ns;
    w->box->egress->total_ns = total_ns;
    listener = world_listen(&port);
    intent = world_allow(port);
    s.lease = world_decide(&intent);
    CHECK_INT(s.lease->decision.verdict, EGRESS_ALLOWED);
    world_pair(&client, &s.client);
    s.box = w->box;
    relay_tcp(&s);
}

static void start_connected(void)
{
    start(STR(""), STR(""));
    origin = world_accept(listener);
}

static void finish(void)
{
    close(client);
    close(origin);
    close(listener);
    world_end();
}

static void say(int fd, struct str s)
{
    CHECK(send(fd, s.p, s.n, MSG_NOSIGNAL) == (ssize_t)s.n);
}

static void hear(int fd, struct str want)
{
    char got[256];

    CHECK(want.n <= sizeof got);
    world_read(fd, got, want.n);
    CHECK(memcmp(got, want.p, want.n) == 0);
}

static bool silent(int fd)
{
    char byte;

    world_turn();
    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

TEST(bytes_pass_both_ways_and_are_counted)
{
    start_connected();
    say(client, STR("hello"));
    hear(origin, STR("hello"));
    say(origin, STR("hi"));
    hear(client, STR("hi"));
    CHECK(w->box->counters.bytes_out == 5 && w->box->counters.bytes_in == 2);
    CHECK(w->box->counters.last_ns > 0 && w->box->counters.connections == 1);
    finish();
}

TEST(the_greeting_is_first_and_early_bytes_go_up)
{
    start(STR("early"), STR(GREETING));
    origin = world_accept(listener);
    hear(client, STR(GREETING));
    hear(origin, STR("early"));
    say(origin, STR("x"));
    hear(client, STR("x"));
    finish();
}

TEST(each_half_closes_alone_and_then_it_is_over)
{
    start_connected();
    say(client, STR("all"));
    shutdown(client, SHUT_WR);
    hear(origin, STR("all"));
    CHECK_INT(world_end_of(origin), 0);
    CHECK_INT(w->box->rank.count, 1);
    say(origin, STR("late"));
    hear(client, STR("late"));
    shutdown(origin, SHUT_WR);
    CHECK_INT(world_end_of(client), 0);
    world_turn();
    CHECK_INT(w->box->rank.count, 0);
    finish();
}

TEST(a_client_that_ends_without_a_word_ends_the_server)
{
    start_connected();
    shutdown(client, SHUT_WR);
    CHECK_INT(world_end_of(origin), 0);
    finish();
}

TEST(a_reset_of_one_is_one_of_the_other)
{
    struct linger now = { 1, 0 };

    start_connected();
    say(client, STR("x"));
    hear(origin, STR("x"));
    setsockopt(origin, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(origin);
    origin = -1;
    CHECK_INT(world_end_of(client), -1);
    world_turn();
    CHECK_INT(w->box->rank.count, 0);
    finish();
}

enum { MUCH = 24 << 20 };

/* Sends and reads at the same time, `lazy` with pauses of the reader. */
static void stream(int from, int to, bool lazy)
{
    char *sent = malloc(MUCH), *got = malloc(MUCH);
    size_t out = 0, in = 0;

    CHECK(sent && got);
    for (size_t i = 0; i < MUCH; i++)
        sent[i] = (char)(i * 2654435761u >> 13);
    for (unsigned round = 0; in < MUCH; round++) {
        ssize_t n =
            out < MUCH ? send(from, sent + out, MUCH - out, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

        out += n > 0 ? (size_t)n : 0;
        loop_run_once(&w->loop, 0, NULL);
        n = lazy && round % 8 ? 0 : recv(to, got + in, MUCH - in, MSG_DONTWAIT);
        CHECK(n >= 0 || errno == EAGAIN);
        in += n > 0 ? (size_t)n : 0;
    }
    CHECK(memcmp(sent, got, MUCH) == 0);
    free(sent);
    free(got);
}

TEST(bulk_arrives_whole_and_in_order)
{
    start_connected();
    stream(client, origin, false);
    stream(origin, client, true);
    CHECK(w->box->counters.bytes_out == MUCH && w->box->counters.bytes_in == MUCH);
    say(client, STR("and small"));
    hear(origin, STR("and small"));
    finish();
}

TEST(the_end_of_bulk_is_told_behind_it)
{
    char waste[65536] = { 0 };
    size_t sent = 0, got = 0;

    start_connected();
    for (ssize_t n; (n = send(client, waste, sizeof waste, MSG_DONTWAIT)) > 0; sent += (size_t)n)
        loop_run_once(&w->loop, 0, NULL);
    shutdown(client, SHUT_WR);
    for (ssize_t n; (n = recv(origin, waste, sizeof waste, MSG_DONTWAIT)) != 0;) {
        CHECK(n > 0 || errno == EAGAIN);
        got += n > 0 ? (size_t)n : 0;
        loop_run_once(&w->loop, NS_PER_MS, NULL);
    }
    CHECK_INT(got, sent);
    finish();
}

/* ---- TLS ---- */

/* A ClientHello with this name; NULL: without one. */
static struct str make_hello(const char *name, bool ech)
{
    static char h[512];
    size_t names = name ? strlen(name) : 0, backend = name ? names + 9 : 0, body, n = 0;
    unsigned char fixed[] = { 22, 3, 1, 0, 0, 1, 0, 0, 0, 3, 3 };

    if (ech)
        backend += 4;
    body = 2 + 32 + 1 + 2 + 2 + 2 + 2 + backend;
    fixed[3] = (unsigned char)((body + 4) >> 8);
    fixed[4] = (unsigned char)(body + 4);
    fixed[7] = (unsigned char)(body >> 8);
    fixed[8] = (unsigned char)body;
    memset(h, 0, sizeof h);
    memcpy(h, fixed, sizeof fixed);
    n = sizeof fixed + 32 + 1; /* random, no session */
    memcpy(h + n, "\0\2\x13\1\1\0", 6);
    n += 6;
    h[n++] = (char)(backend >> 8);
    h[n++] = (char)backend;
    if (name) {
        h[n + 3] = (char)(names + 5);
        h[n + 5] = (char)(names + 3);
        h[n + 8] = (char)names;
        memcpy(h + n + 9, name, names);
        n += 9 + names;
    }
    if (ech) {
        memcpy(h + n, "\xfe\x0d\0\0", 4);
        n += 4;
    }
    return (struct str){ h, n };
}

TEST(a_hello_that_names_the_host_passes_in_any_pieces)
{
    struct str hello;

    start_connected();
    hello = make_hello("api.example.com", false);
    for (size_t i = 0; i < hello.n; i++) {
        say(client, (struct str){ hello.p + i, 1 });
        loop_run_once(&w->loop, NS_PER_MS, NULL);
        CHECK(i + 1 == hello.n || silent(origin));
    }
    hear(origin, hello);
    say(client, STR("\x16 and anything"));
    hear(origin, STR("\x16 and anything"));
    finish();
}

static void refused(struct str first, const char *code)
{
    char event[64];

    start_connected();
    say(client, first);
    CHECK_INT(world_end_of(client), -1);
    CHECK(world_end_of(origin) <= 0); /* not a byte */
    snprintf(event, sizeof event, "%s", code);
    if (world_audited(event) == 0)
        FAIL("%s is not on record", code);
    CHECK(w->box->counters.bytes_out == 0 && w->box->counters.denied == 1);
    finish();
}

TEST(a_hello_that_names_another_is_refused)
{
    refused(make_hello("other.example.com", false), "sni_mismatch");
}

TEST(a_hello_that_names_an_address_is_refused)
{
    refused(make_hello(WORLD_PUBLIC, false), "sni_mismatch");
}

TEST(a_hello_with_a_dot_at_its_end_is_refused)
{
    refused(make_hello("api.example.com.", false), "sni_mismatch");
}

TEST(a_hello_without_a_name_is_refused)
{
    refused(make_hello(NULL, false), "sni_missing");
}

TEST(a_hello_that_hides_its_name_is_refused)
{
    refused(make_hello("api.example.com", true), "sni_unverifiable");
}

TEST(a_record_that_is_no_hello_is_refused)
{
    refused(STR("\x16\3\1\0\4\2\0\0\0"), "tls_malformed");
}

TEST(a_record_of_impossible_length_is_refused)
{
    refused(STR("\x16\3\1\xff\xff\1\0\0\0"), "tls_malformed");
}

TEST(a_hello_of_ssl_2_is_refused)
{
    refused(STR("\x80\x2e\1\3\1\0\x15\0\0\0\x10"), "tls_malformed");
}

TEST(a_warning_before_a_hello_is_refused)
{
    refused(STR("\x15\3\1\0\2\1\x5a\x16\3\1\0\4\1\0\0\0"), "tls_malformed");
}

TEST(other_records_before_a_hello_are_refused)
{
    refused(STR("\x14\3\3\0\1\1\x16\3\1\0\4\1\0\0\0"), "tls_malformed");
}

TEST(a_hello_that_ends_early_is_refused)
{
    struct str hello;

    start_connected();
    hello = make_hello("api.example.com", false);
    say(client, (struct str){ hello.p, hello.n - 1 });
    shutdown(client, SHUT_WR);
    CHECK(world_end_of(origin) <= 0);
    CHECK(world_audited("tls_malformed") > 0);
    finish();
}

TEST(a_name_in_other_letters_is_the_same)
{
    struct str hello;

    start_connected();
    hello = make_hello("API.example.COM", false);
    say(client, hello);
    hear(origin, hello);
    finish();
}

TEST(what_is_not_tls_passes)
{
    static const char *const first[] = { "SSH-2.0-x\r\n", "\x16\2ab", "GET / HTTP/1.1\r\n\r\n",
                                         "\x80\x01\x02\x03\x04", "*1\r\n" };

    start_connected();
    for (size_t i = 0; i < COUNT_OF(first); i++) {
        say(client, str_from(first[i]));
        hear(origin, str_from(first[i]));
    }
    finish();
}

TEST(a_server_that_speaks_first_is_heard_while_the_hello_is_held)
{
    start_connected();
    say(origin, STR("220 hi"));
    hear(client, STR("220 hi"));
    say(client, STR("\x16"));
    say(origin, STR("more"));
    hear(client, STR("more"));
    CHECK(silent(origin));
    finish();
}

/* ---- policies ---- */

TEST(a_policy_that_says_the_same_lets_it_go_on)
{
    start_connected();
    say(client, STR("one"));
    hear(origin, STR("one"));
    world_allow(intent.port);
    say(client, STR("two"));
    hear(origin, STR("two"));
    finish();
}

TEST(a_policy_that_does_not_ends_it_before_another_byte)
{
    start_connected();
    say(client, STR("one"));
    hear(origin, STR("one"));
    say(client, STR("two"));
    world_allow(1);
    CHECK_INT(w->box->rank.count, 0);
    CHECK_INT(world_end_of(client), -1);
    CHECK(world_end_of(origin) <= 0);
    finish();
}

TEST(no_policy_ends_it_while_it_dials)
{
    start(STR(""), STR(GREETING));
    origin = -1;
    world_policy(NULL);
    CHECK_INT(w->box->rank.count, 0);
    CHECK_INT(world_end_of(client), -1);
    finish();
}

TEST(a_tunnel_that_carries_nothing_ends)
{
    idle_ns = 200 * NS_PER_MS;
    start_connected();
    CHECK_INT(world_end_of(client), -1);
    CHECK_INT(w->box->rank.count, 0);
    finish();
}

TEST(a_tunnel_that_carries_something_ends_in_its_time)
{
    total_ns = 500 * NS_PER_MS;
    start_connected();
    say(client, STR("one"));
    hear(origin, STR("one"));
    CHECK_INT(world_end_of(client), -1);
    CHECK_INT(w->box->rank.count, 0);
    finish();
}

/* A new policy that still allows it leaves the connection what it is: nothing is opened again. */
TEST(a_connection_keeps_its_uid_under_a_new_policy)
{
    char uid[64];

    start_connected();
    snprintf(uid, sizeof uid, "\"correlation_uid\":\"%llu\"",
             (unsigned long long)w->egress.decisions);
    for (int i = 0; i < 3; i++)
        world_allow(intent.port);
    say(client, STR("x"));
    hear(origin, STR("x"));
    CHECK_INT(world_audited("\"Open\""), 1);
    CHECK_INT(world_audited(uid), 1);
    world_policy(NULL);
    CHECK_INT(world_end_of(client), -1);
    world_turn();
    CHECK_INT(world_audited("\"Open\""), 1);
    CHECK_INT(world_audited("\"Refuse\""), 1);
    CHECK_INT(world_audited("\"Close\""), 1);
    CHECK_INT(world_audited(uid), 3); /* all three */
    finish();
}

TEST(the_end_of_the_box_ends_it)
{
    start_connected();
    say(client, STR("x"));
    hear(origin, STR("x"));
    world_end();
    CHECK(recv(client, (char[1]){ 0 }, 1, 0) < 0 && errno == ECONNRESET);
    close(client);
    close(origin);
    close(listener);
}

TEST(who_cannot_be_reached_is_said_where_http_can_carry_it)
{
    struct relay_start s = { .greeting = STR(GREETING) };
    uint16_t port;

    w = world_start(NULL);
    close(world_listen(&port)); /* nothing listens there afterwards */
    origin = listener = -1;
    intent = world_allow(port);
    s.lease = world_decide(&intent);
    world_pair(&client, &s.client);
    s.box = w->box;
    relay_tcp(&s);
    hear(client, STR("HTTP/1.1 502 Bad Gateway\r\n"));
    finish();
}

TEST(who_cannot_be_reached_is_a_reset_elsewhere)
{
    struct relay_start s = { .client = -1 };
    uint16_t port;

    w = world_start(NULL);
    close(world_listen(&port));
    origin = listener = -1;
    intent = world_allow(port);
    s.lease = world_decide(&intent);
    world_pair(&client, &s.client);
    s.box = w->box;
    relay_tcp(&s);
    CHECK_INT(world_end_of(client), -1);
    finish();
}
