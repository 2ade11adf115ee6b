/* SPDX-License-Identifier: Apache-2.0 */
/* relay_forward(): the proxy port's requests for whole addresses. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/own.h"
#include "engine/egress/audit.h"
#include "harness/tap.h"
#include "unit/engine/egress/relays/world.h"

#define RULES     "protocol: rest, rules: [{ allow: { method: GET, path: /ok/** } }]"
#define GET(path) "GET http://{}" path " HTTP/1.1\r\nHost: {}\r\n\r\n"
#define OK        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

static struct world w;

static void begin(const char *rules, const char *read)
{
    world_start(&w, rules);
    world_forward(&w, world_text(&w, read));
}

static void say(const char *text)
{
    world_say(&w, world_text(&w, text));
}

static void check_seen(const char *text)
{
    CHECK_STR(buf_str(&w.seen), world_text(&w, text).p);
}

static size_t audited(const char *text)
{
    struct str all = world_audit(&w);

    return world_count(&(struct buf){ .p = (char *)(uintptr_t)all.p, .n = all.n }, text);
}

TEST(forward_requests_go_up_in_origin_form)
{
    begin(RULES, "GET http://{}/ok/a?b HTTP/1.1\r\nHost: {}\r\nProxy-Connection: keep-alive\r\n"
                 "Proxy-Authorization: Basic eA==\r\nAccept: x\r\n\r\n");
    check_seen("GET /ok/a?b HTTP/1.1\r\nHost: {}\r\nAccept: x\r\n\r\n");
    world_answer(&w, STR(OK));
    CHECK_STR(buf_str(&w.heard), OK);
    for (int i = 0; i < 3; i++) {
        world_forget(&w);
        say(GET("/ok/b"));
        check_seen("GET /ok/b HTTP/1.1\r\nHost: {}\r\n\r\n");
        world_answer(&w, STR(OK));
        CHECK_STR(buf_str(&w.heard), OK);
    }
    CHECK_INT(w.accepted, 1);
    CHECK_INT(w.egress.decisions, 1); /* of the same authority and policy: asked once */
    world_stop(&w);
}

#define GONE "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

/* The number that follows the n-th of `text` in the record, in quotes. */
static unsigned long uid_of(const char *text, unsigned n)
{
    static const char key[] = "\"correlation_uid\":\"";
    struct str all = world_audit(&w);
    const char *at = all.p, *end = all.p + all.n;

    for (unsigned i = 0; i <= n; i++) {
        at = memmem(at, (size_t)(end - at), text, strlen(text));
        CHECK(at);
        at++;
    }
    at = memmem(at, (size_t)(end - at), key, sizeof key - 1);
    CHECK(at);
    return strtoul(at + sizeof key - 1, NULL, 10);
}

/* An origin that closes is dialled again, and that is another connection: of the policy's uses, and
 * in the record. */
TEST(each_dial_takes_a_use_and_has_an_open_and_a_close)
{
    enum { USES = 5 };

    world_start(&w, "tls: skip");
    w.entry = "    uses: 5\n";
    world_policy(&w, "tls: skip");
    world_forward(&w, world_text(&w, GET("/0")));
    for (unsigned i = 1; i <= USES; i++) {
        CHECK_INT(w.accepted, i);
        world_answer(&w, STR(GONE));
        world_end_origin(&w);
        CHECK_INT(world_status(&w), 200);
        world_forget(&w);
        say(GET("/again"));
    }
    CHECK_INT(world_status(&w), 403);
    CHECK(world_has(&w.heard, "uses_spent"));
    CHECK_INT(w.accepted, USES);
    CHECK_INT(audited("\"Open\""), USES);
    CHECK_INT(audited("\"Close\""), USES);
    for (unsigned i = 0; i < USES; i++) {
        CHECK_INT(uid_of("\"Open\"", i), uid_of("\"Close\"", i));
        CHECK(i == 0 || uid_of("\"Open\"", i) != uid_of("\"Open\"", i - 1));
    }
    world_stop(&w);
}

/* A use is a connection's where requests are not inspected, however many they are. */
TEST(requests_over_one_connection_take_one_use)
{
    world_start(&w, "tls: skip");
    w.entry = "    uses: 1\n";
    world_policy(&w, "tls: skip");
    world_forward(&w, world_text(&w, GET("/0")));
    for (int i = 0; i < 5; i++) {
        world_answer(&w, STR(OK));
        CHECK_INT(world_status(&w), 200);
        world_forget(&w);
        say(GET("/again"));
    }
    CHECK_INT(w.accepted, 1);
    CHECK_INT(audited("\"Open\""), 1);
    world_stop(&w);
}

/* The Open is written before what is asked over the connection. */
TEST(an_open_comes_before_its_requests)
{
    struct str all;

    begin(RULES, GET("/ok/a"));
    all = world_audit(&w);
    CHECK_INT(audited("\"Open\""), 1);
    CHECK_INT(audited("HTTP Activity: Get"), 1);
    CHECK((char *)memmem(all.p, all.n, "\"Open\"", 6) <
          (char *)memmem(all.p, all.n, "HTTP Activity: Get", 18));
    world_stop(&w);
}

TEST(an_origin_that_cannot_be_reached_has_an_open_and_a_close)
{
    world_start(&w, RULES);
    CHECK_INT(shutdown(w.listener, SHUT_RDWR), 0);
    world_forward(&w, world_text(&w, GET("/ok/")));
    CHECK_INT(audited("\"Open\""), 1);
    CHECK_INT(audited("\"Close\""), 1);
    CHECK_INT(audited("\"status_detail\":\"unreachable\""), 1);
    world_stop(&w);
}

/* On a connected upstream, and on one that must be dialled first. */
TEST(what_cannot_be_recorded_is_not_forwarded)
{
    for (int kept = 0; kept < 2; kept++) {
        begin(RULES, GET("/ok/a"));
        world_answer(&w, kept ? STR(OK) : STR("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"));
        world_forget(&w);
        audit_set_fd(w.box.audit, open("/dev/full", O_WRONLY | O_CLOEXEC));
        say(GET("/ok/b"));
        CHECK_INT(world_status(&w), 503);
        CHECK(world_has(&w.heard, "audit_unavailable"));
        CHECK_INT(w.seen.n, 0);
        CHECK_INT(w.accepted, 1);
        CHECK(w.client_ended);
        world_stop(&w);
    }
}

TEST(the_rules_of_an_endpoint_hold_here_too)
{
    static const char *const denied[] = {
        GET("/secret"),
        GET("/ok/../secret"),
        "GET http://{} HTTP/1.1\r\nHost: {}\r\n\r\n",
        "GET http://{}?/ok/ HTTP/1.1\r\nHost: {}\r\n\r\n",
        "POST http://{}/ok/ HTTP/1.1\r\nHost: {}\r\nContent-Length: 1\r\n\r\nx",
    };

    for (size_t i = 0; i < COUNT_OF(denied); i++) {
        begin(RULES, denied[i]);
        CHECK_INT(world_status(&w), 403);
        CHECK_INT(w.accepted, 0);
        CHECK_INT(audited("\"Open\""), 0); /* nothing is dialled */
        CHECK(w.client_ended);
        world_stop(&w);
    }
}

TEST(each_request_is_for_its_own_authority)
{
    begin(RULES, GET("/ok/1"));
    world_answer(&w, STR(OK));
    world_forget(&w);
    say("GET http://93.184.216.34:1/ok/2 HTTP/1.1\r\nHost: 93.184.216.34:1\r\n\r\n");
    CHECK_INT(world_status(&w), 403);
    CHECK(world_has(&w.heard, "\"port\":1,"));
    CHECK_INT(w.seen.n, 0);
    CHECK(w.origin_ended);
    world_stop(&w);
}

TEST(what_is_not_inspected_passes_as_it_is)
{
    begin("tls: skip", "PUT http://{}/a/%2F/..;x/b?_method=y HTTP/1.1\r\nHost: {}\r\n"
                       "X-HTTP-Method-Override: DELETE\r\nUpgrade: h2c\r\nContent-Length: 1\r\n"
                       "\r\nx");
    check_seen("PUT /a/%2F/..;x/b?_method=y HTTP/1.1\r\nHost: {}\r\n"
               "X-HTTP-Method-Override: DELETE\r\nContent-Length: 1\r\n\r\nx");
    world_answer(&w, STR(OK));
    CHECK_STR(buf_str(&w.heard), OK);
    CHECK_INT(world_count(&(struct buf){ .p = (char *)(uintptr_t)world_audit(&w).p,
                                         .n = world_audit(&w).n },
                          "_method="),
              0);
    world_stop(&w);
}

TEST(an_address_without_a_path_is_the_root)
{
    begin("protocol: rest, access: full", "GET http://{} HTTP/1.1\r\nHost: {}\r\n\r\n");
    check_seen("GET / HTTP/1.1\r\nHost: {}\r\n\r\n");
    world_answer(&w, STR(OK));
    world_forget(&w);
    say("GET http://{}?a=/b HTTP/1.1\r\nHost: {}\r\n\r\n");
    check_seen("GET /?a=/b HTTP/1.1\r\nHost: {}\r\n\r\n");
    world_stop(&w);
}

TEST(what_is_no_forward_request_is_refused)
{
    static const struct {
        const char *request;
        unsigned status;
    } rows[] = {
        { "GET / HTTP/1.1\r\nHost: {}\r\n\r\n", 400 },
        { "OPTIONS * HTTP/1.1\r\nHost: {}\r\n\r\n", 400 },
        { "GET https://{}/ok/ HTTP/1.1\r\nHost: {}\r\n\r\n", 400 },
        { "GET ftp://{}/ok/ HTTP/1.1\r\nHost: {}\r\n\r\n", 400 },
        { "GET ws://{}/ok/ HTTP/1.1\r\nHost: {}\r\n\r\n", 400 },
        { "GET HTTP://{}/ok/ HTTP/1.1\r\nHost: {}\r\n\r\n", 400 },
        { "GET Http://{}/ok/ HTTP/1.1\r\nHost: {}\r\n\r\n", 400 },
        { "GET file:/etc/passwd HTTP/1.1\r\nHost: {}\r\n\r\n", 400 },
        { "GET file:///etc/passwd HTTP/1.1\r\nHost: {}\r\n\r\n", 400 },
        { "GET http://{}/ok/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", 400 },
        { "GET http://{}/ok/ HTTP/1.1\r\nHost: 93.184.216.34\r\n\r\n", 400 },
        { "TRACE http://{}/ok/ HTTP/1.1\r\nHost: {}\r\n\r\n", 403 },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(RULES, rows[i].request);
        CHECK_INT(world_status(&w), rows[i].status);
        CHECK_INT(w.accepted, 0);
        CHECK(w.client_ended);
        world_stop(&w);
    }
}

#define CONNECT   "CONNECT {} HTTP/1.1\r\nHost: {}\r\n\r\n"
#define CONNECTED "HTTP/1.1 200 Connection established\r\n\r\n"

/* RFC 9110, 9.3.6: it is decided like one that comes first. */
TEST(a_connect_behind_other_requests_opens_a_tunnel)
{
    static const char *const ends[] = { OK, "HTTP/1.1 200 OK\r\nConnection: close\r\n"
                                            "Content-Length: 2\r\n\r\nhi" };

    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        begin("tls: skip", GET("/a"));
        world_answer(&w, str_from(ends[i]));
        world_forget(&w);
        say(CONNECT);
        CHECK_STR(buf_str(&w.heard), CONNECTED);
        CHECK_INT(w.accepted, 2); /* a connection of its own */
        world_forget(&w);
        say("bytes");
        check_seen("bytes");
        CHECK_INT(w.egress.decisions, 2);
        world_stop(&w);
    }
}

/* All of it is the tunnel's from the CONNECT on: nothing behind it is a request to the proxy. */
TEST(what_is_pipelined_behind_a_connect_is_the_tunnels)
{
    begin("tls: skip", GET("/a") CONNECT GET("/b"));
    world_answer(&w, STR(OK));
    CHECK(world_has(&w.heard, "hi" CONNECTED));
    CHECK(world_has(&w.seen, world_text(&w, GET("/b")).p)); /* as it is */
    world_stop(&w);
    begin(RULES, GET("/ok/a") CONNECT "GET /secret HTTP/1.1\r\nHost: {}\r\n\r\n");
    world_answer(&w, STR(OK));
    CHECK(world_has(&w.heard, "hi" CONNECTED "HTTP/1.1 403"));
    CHECK(!world_has(&w.seen, "secret"));
    world_stop(&w);
}

TEST(behind_a_connect_that_is_refused_nothing_is_read)
{
    static const char *const rows[] = {
        "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
        "CONNECT {} HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
        "CONNECT {} HTTP/1.1\r\nHost: {}\r\nContent-Length: 3\r\n\r\nabc",
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(RULES, GET("/ok/a"));
        world_answer(&w, STR(OK));
        world_forget(&w);
        world_say(&w, world_text(&w, rows[i]));
        say(GET("/ok/b"));
        CHECK_INT(world_status(&w), i == 0 ? 403 : 400);
        CHECK(w.client_ended);
        CHECK_INT(w.seen.n, 0);
        world_stop(&w);
    }
}

TEST(a_destination_that_does_not_listen_is_a_bad_gateway)
{
    world_start(&w, RULES);
    CHECK_INT(shutdown(w.listener, SHUT_RDWR), 0);
    world_forward(&w, world_text(&w, GET("/ok/")));
    CHECK_INT(world_status(&w), 502);
    CHECK(world_has(&w.heard, "upstream_unreachable"));
    world_stop(&w);
}

TEST(a_policy_that_comes_in_between_decides)
{
    begin(RULES, GET("/ok/1"));
    world_answer(&w, STR(OK));
    world_policy(&w, RULES);
    world_turn(&w);
    CHECK(!w.client_ended && w.origin_ended);
    world_forget(&w);
    say(GET("/ok/2"));
    world_answer(&w, STR(OK));
    CHECK_STR(buf_str(&w.heard), OK);
    CHECK_INT(w.accepted, 2);
    world_policy(&w, NULL);
    world_turn(&w);
    /* still a proxy connection: the next request may have another destination */
    CHECK(!w.client_ended);
    world_forget(&w);
    say(GET("/ok/3"));
    CHECK_INT(world_status(&w), 403);
    CHECK_INT(w.seen.n, 0);
    world_stop(&w);
}

/* The policy changes at every moment between the first byte and the answer. */
TEST(a_policy_that_comes_while_it_is_decided_or_dialled_is_asked_anew)
{
    struct err e;

    for (int batches = 0; batches < 6; batches++)
        for (int allowed = 0; allowed < 2; allowed++) {
            world_start(&w, RULES);
            world_forward(&w, STR(""));
            CHECK(send(w.client, world_text(&w, GET("/ok/x")).p, world_text(&w, GET("/ok/x")).n,
                       0) > 0);
            for (int i = 0; i < batches; i++)
                CHECK(loop_run_once(&w.loop, 0, &e) >= 0);
            world_policy(&w, allowed ? RULES : NULL);
            world_turn(&w);
            if (allowed) {
                CHECK_INT(world_count(&w.seen, "GET /ok/x "), 1);
                world_answer(&w, STR(OK));
                CHECK_STR(buf_str(&w.heard), OK);
            } else {
                CHECK(w.client_ended);
                CHECK(w.seen.n == 0 || batches > 0);
            }
            world_stop(&w);
        }
}
