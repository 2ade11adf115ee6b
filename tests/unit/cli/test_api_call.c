/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api_call.h"

#include <string.h>

#include "base/own.h"
#include "fake.h"
#include "harness/tap.h"

static void check_problem(const char *status, const char *body, int want, const char *says)
{
    struct fake_reply reply = fake_json(status, body);

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("get", "sbx_1"), want);
    CHECK_STR(buf_str(&fake_err), says);
    CHECK_STR(buf_str(&fake_out), "");
    fake_requests();
}

TEST(problems_become_words_and_statuses)
{
    check_problem("404 Not Found", "{\"code\":\"not_found\",\"detail\":\"no sandbox sbx_1\"}", 3,
                  "sandboxer: get: no sandbox sbx_1 (not_found)\n");
    check_problem("409 Conflict",
                  "{\"code\":\"conflict\",\"detail\":\"it "
                  "failed\",\"sandbox_id\":\"sbx_1\",\"step\":\"mounts\"}",
                  4, "sandboxer: get: sbx_1: step mounts: it failed (conflict)\n");
    check_problem("500 Internal Server Error", "{\"title\":\"Oh\",\"code\":\"bug\"}", 1,
                  "sandboxer: get: Oh (bug)\n");
    check_problem("502 Bad Gateway", "<html>", 1, "sandboxer: get: Bad Gateway (HTTP 502)\n");
    check_problem("403 Forbidden", "{\"code\":\"denied\",\"detail\":\"\\u001b[31mno\"}", 5,
                  "sandboxer: get: \\x1b[31mno (denied)\n");
}

TEST(busy_says_when_to_try_again)
{
    struct fake_reply reply = { .bytes = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\n"
                                         "Content-Length: 31\r\n\r\n"
                                         "{\"code\":\"busy\",\"detail\":\"full\"} " };

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("get", "sbx_1"), 6);
    CHECK_STR(buf_str(&fake_err), "sandboxer: get: full (busy); try again in 7 s\n");
    fake_requests();
}

static void check_broken(const char *bytes)
{
    struct fake_reply reply = { .bytes = bytes };

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("get", "sbx_1"), EXIT_TOOL_FAILED);
    CHECK(str_starts(buf_str(&fake_err), STR("sandboxer: get: ")));
    fake_requests();
}

TEST(broken_answers_are_our_failure)
{
    check_broken("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"sandbox_id\":");
    check_broken("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{oops");
    check_broken("SSH-2.0-OpenSSH\r\n\r\n");
    check_broken("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
}

TEST(pieces_of_paths_and_queries_are_encoded)
{
    struct fake_reply replies[] = { fake_json("404 Not Found", "{}"), fake_json("200 OK", "{}") };
    const char *asked;

    fake_serve(replies, 2);
    fake_run("get", "a/../b?c");
    CHECK_INT(fake_run("list", "--label", "k=v&w x", "--state", "ready", "--state", "failed"), 0);
    asked = fake_requests();
    CHECK(strstr(asked, "GET /v1/sandboxes/a%2F..%2Fb%3Fc?usage=true HTTP/1.1\r\n") != NULL);
    CHECK(strstr(asked,
                 "GET /v1/sandboxes?state=ready&state=failed&label=k%3Dv%26w%20x&limit=1000 ") !=
          NULL);
}

TEST(values_that_cannot_be_sent)
{
    fake_serve(NULL, 0);
    CHECK_INT(fake_run("create", "--label", "k=\xff"), EXIT_USAGE);
    fake_requests();
}
