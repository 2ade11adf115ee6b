/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "box_world.h"
#include "engine/egress/refuse.h"
#include "harness/tap.h"
#include "lib/http/h1.h"
#include "lib/json/reader.h"

static struct str body_of(const char *answer, size_t n, int *ret_status)
{
    struct h1_limits limits = H1_LIMITS;
    static struct h1_response p;
    struct h1_scan scan = { 0 };
    struct err e;
    int head = h1_parse_response(&scan, (struct str){ answer, n }, &limits, H1_GET, &p, &e);

    CHECK_OK(head, e);
    CHECK_INT(p.head.length, n - (size_t)head);
    *ret_status = p.status;
    return (struct str){ answer + head, n - (size_t)head };
}

TEST(whatever_is_refused_the_answer_is_one_of_http_and_json)
{
    struct egress_intent i = { .port = 443, .host.name = "a.example" };
    struct egress_decision d = { .who = { .known = true, .binary = "/bin/\"x\"\n\xff" } };
    struct egress_reason why;
    char out[REFUSE_MAX], path[10000];
    struct arena arena = ARENA_INIT(1 << 20);
    const struct json *v;
    struct str body;
    struct err e;
    size_t n;
    int status;

    memset(path, 1, sizeof path);
    refuse_reason(&why, "policy_denied", "do \"this\"", "%.255s", path);
    n = refuse_render(403, &i, &d, &why, STR("GET"), (struct str){ path, sizeof path }, out,
                      sizeof out);
    CHECK(n > 0);
    body = body_of(out, n, &status);
    CHECK_INT(status, 403);
    CHECK_OK(
        json_read(body, (struct json_limits){ .bytes = REFUSE_MAX, .depth = 4 }, &arena, &v, &e),
        e);
    CHECK(!memchr(body.p, '\n', body.n));
    n = refuse_render(400, NULL, NULL, &why, STR(""), STR(""), out, sizeof out);
    body_of(out, n, &status);
    CHECK_INT(status, 400);
    CHECK_INT(refuse_render(403, &i, &d, &why, STR("GET"), STR("/"), out, 100), 0);
    n = refuse_render(403, &i, &d, &why, STR("HEAD"), STR("/"), out, sizeof out);
    CHECK(memcmp(out + n - 4, "\r\n\r\n", 4) == 0);
    arena_done(&arena);
}

TEST(last_words_are_heard_by_a_client_that_goes_on_talking)
{
    struct box_world *w = world_start(NULL);
    struct egress_reason why;
    char noise[50000] = { 0 }, got[4096];
    int client, ours, status;
    ssize_t n;

    world_pair(&client, &ours);
    CHECK(send(client, noise, sizeof noise, 0) == sizeof noise);
    refuse_reason(&why, "policy_denied", "", "no");
    refuse_http(w->box, ours, 403, NULL, NULL, &why);
    CHECK_INT(w->box->rank.count, 1);
    CHECK(send(client, noise, sizeof noise, MSG_NOSIGNAL) > 0);
    world_turn();
    n = recv(client, got, sizeof got, 0);
    CHECK(n > 0);
    body_of(got, (size_t)n, &status);
    CHECK_INT(recv(client, got, sizeof got, 0), 0);
    close(client);
    world_turn();
    CHECK_INT(w->box->rank.count, 0);
    world_end();
}

TEST(a_box_that_ends_closes_what_is_parting)
{
    struct box_world *w = world_start(NULL);
    int client, ours;

    world_pair(&client, &ours);
    refuse_send(w->box, ours, STR("HTTP/1.1 400 No\r\n\r\n"));
    CHECK_INT(w->box->rank.count, 1);
    world_end();
    close(client);
}

TEST(a_reset_is_one)
{
    int client, ours;

    world_start(NULL);
    world_pair(&client, &ours);
    refuse_reset(ours);
    CHECK_INT(world_end_of(client), -1);
    close(client);
    world_end();
}
