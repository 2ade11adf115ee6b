/* SPDX-License-Identifier: Apache-2.0 */
/* Whole verbs against a daemon that knows its lines. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/verb.h"
#include "unit/cli/fake.h"
#include "harness/tap.h"
#include "lib/tar/pack.h"

#define SANDBOX                                                                                    \
    "{\"sandbox_id\":\"sbx_1\",\"state\":\"ready\",\"profile\":\"profile.x\",\"host\":\"local\","  \
    "\"labels\":{\"a\":\"b\"}}"

static bool asked_for(const char *what)
{
    return strstr(fake_requests(), what) != NULL;
}

TEST(create_sends_what_was_given)
{
    struct fake_reply reply = fake_json("201 Created", SANDBOX);

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("create", "-p", "profile.x", "--ttl", "2h", "--label", "a=b", "--access",
                       "ro", "--input", "repo=/usr", "--actor", "agt", "--idempotency-key", "K",
                       "--no-wait"),
              0);
    CHECK_STR(buf_str(&fake_out), "ID:         sbx_1\n"
                                  "NEXT:       sandboxer exec sbx_1 -- COMMAND\n");
    CHECK(asked_for("POST /v1/sandboxes HTTP/1.1\r\n"));
}

TEST(create_writes_the_documented_request)
{
    struct fake_reply reply = fake_json("201 Created", SANDBOX);
    const char *asked;

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("create", "-q", "-p", "profile.x", "--ttl", "2h", "--label", "a=b",
                       "--label", "a=c", "--access", "ro", "--actor", "agt", "--idempotency-key",
                       "K", "--no-wait"),
              0);
    CHECK_STR(buf_str(&fake_out), "sbx_1\n");
    asked = fake_requests();
    CHECK(strstr(asked, "Idempotency-Key: K\r\n") != NULL);
    CHECK(strstr(asked, "Prefer: respond-async\r\n") != NULL);
    CHECK(strstr(asked,
                 "\r\n\r\n{\"profile\":\"profile.x\",\"workspace\":{\"access\":\"ro\"},"
                 "\"ttl\":\"2h\",\"labels\":{\"a\":\"c\"},\"consumer\":{\"actor\":\"agt\"}}") !=
          NULL);
}

TEST(list_joins_pages)
{
    struct fake_reply replies[] = {
        fake_json("200 OK", "{\"sandboxes\":[" SANDBOX "],\"next\":\"c 1\"}"),
        fake_json("200 OK", "{\"sandboxes\":[{\"sandbox_id\":\"sbx_2\"}],\"next\":null}"),
    };

    fake_serve(replies, 2);
    CHECK_INT(fake_run("list", "-o", "json"), 0);
    CHECK(strstr(fake_out.p, "{\n  \"sandboxes\": [\n    {\n      \"sandbox_id\": \"sbx_1\"") !=
          NULL);
    CHECK(strstr(fake_out.p, "sbx_2") != NULL);
    CHECK(asked_for("&cursor=c%201 "));
}

TEST(destroy_tries_all)
{
    struct fake_reply replies[] = {
        fake_json("404 Not Found", "{\"code\":\"not_found\",\"detail\":\"no sandbox\"}"),
        { .bytes = "HTTP/1.1 204 No Content\r\n\r\n" },
    };

    fake_serve(replies, 2);
    CHECK_INT(fake_run("destroy", "sbx_1", "sbx_2", "--no-sync"), EXIT_MISSING);
    CHECK_STR(buf_str(&fake_out), "sbx_2 destroyed\n");
    CHECK(asked_for("DELETE /v1/sandboxes/sbx_2?sync=no&unsynced=refuse "));
}

TEST(events_go_on_where_they_ended)
{
    struct fake_reply replies[] = {
        fake_json("200 OK", "{\"events\":[{\"seq\":7,\"type\":\"sandbox.ready\"}],\"next\":7}"),
        fake_json("200 OK", "{\"events\":[],\"next\":7}"),
    };
    const char *asked;

    fake_serve(replies, 2);
    CHECK_INT(fake_run("events", "--after", "5", "-o", "json"), 0);
    CHECK_STR(buf_str(&fake_out), "{\"seq\":7,\"type\":\"sandbox.ready\"}\n");
    asked = fake_requests();
    CHECK(strstr(asked, "GET /v1/events?after=5&limit=1000 ") != NULL);
    CHECK(strstr(asked, "GET /v1/events?after=7&limit=1000 ") != NULL);
}

TEST(events_are_followed_as_a_stream)
{
    struct fake_reply reply = fake_json(
        "200 OK",
        ":\n\nid: 7\nevent: sandbox.ready\ndata: {\"seq\":7,\"type\":\"sandbox.ready\"}\n\n"
        "id: 7.5\nevent: egress.denied\ndata: {\"type\":\"egress.denied\"}\n\n");

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("events", "-f", "--after", "5", "--kind", "lifecycle,denied", "-o", "json"),
              0);
    CHECK_STR(buf_str(&fake_out), "{\"seq\":7,\"type\":\"sandbox.ready\"}\n"
                                  "{\"type\":\"egress.denied\"}\n");
    CHECK(asked_for("GET /v1/events?after=5&kind=lifecycle%2Cdenied "));
    CHECK(asked_for("Accept: text/event-stream"));
}

TEST(token_create_prints_the_secret_alone)
{
    struct fake_reply reply = fake_json("201 Created", "{\"id\":\"tok_1\",\"token\":\"sbt_x\"}");

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("token", "create", "-q", "ci", "--verb", "read"), 0);
    CHECK_STR(buf_str(&fake_out), "sbt_x\n");
    CHECK(asked_for("{\"name\":\"ci\",\"verbs\":[\"read\"]}"));
}

TEST(logs_are_what_was_written)
{
    struct fake_reply replies[] = {
        fake_json("200 OK", "{\"process\":1,\"stream\":\"stdout\",\"line\":\"\\u001b[1mhi\"}\n"
                            "{\"process\":1,\"stream\":\"stderr\",\"line_b64\":\"//8=\"}\n"),
        fake_json("200 OK", "{\"processes\":[]}"),
    };

    fake_serve(replies, 2);
    CHECK_INT(fake_run("logs", "sbx_1", "--tail", "5"), 0);
    CHECK_STR(buf_str(&fake_out), "\033[1mhi\n"); /* no terminal: as it is */
    CHECK_STR(buf_str(&fake_err), "\xff\xff\n");
    CHECK(asked_for("/logs?tail=5 "));
}

/* Two victims, one that ended well while others were killed, and one that was killed by a
 * signal. */
#define ENDS                                                                                       \
    "{\"processes\":["                                                                             \
    "{\"process\":1,\"signal\":\"KILL\",\"exit_code\":null,\"oom_kills\":1,"                       \
    "\"memory_limit\":67108864},"                                                                  \
    "{\"process\":2,\"signal\":\"\",\"exit_code\":137,\"oom_kills\":2},"                           \
    "{\"process\":3,\"signal\":\"\",\"exit_code\":0,\"oom_kills\":2},"                             \
    "{\"process\":4,\"signal\":\"KILL\",\"exit_code\":null}]}"

TEST(logs_name_the_processes_that_memory_ended)
{
    struct fake_reply replies[] = { fake_json("200 OK", "{\"process\":2}"), fake_json("200 OK", ""),
                                    fake_json("200 OK", ENDS) };

    fake_serve(replies + 1, 2);
    CHECK_INT(fake_run("logs", "sbx_1"), 0);
    CHECK_STR(buf_str(&fake_err), "sandboxer: process 1 was killed: out of memory (limit 64M)\n"
                                  "sandboxer: process 2 was killed: out of memory\n");
    fake_serve(replies, 3);
    CHECK_INT(fake_run("logs", "sbx_1", "-p", "2"), 0);
    CHECK_STR(buf_str(&fake_err), "sandboxer: process 2 was killed: out of memory\n");
}

TEST(validate_reports)
{
    struct fake_reply reply = fake_json(
        "200 OK",
        "{\"valid\":false,\"problems\":[{\"line\":3,\"field\":\"ttl\",\"message\":\"no\"}]}");

    fake_serve(&reply, 1);
    CHECK_INT(fake_run_with("a: b\n", "profiles", "validate", "-"), EXIT_REPORTED);
    CHECK_STR(buf_str(&fake_out), "LINE  FIELD  PROBLEM\n3     ttl    no\n");
    CHECK(asked_for("\r\n\r\na: b\n"));
}

TEST(exec_in_the_background_prints_its_number)
{
    struct fake_reply reply = fake_json("201 Created", "{\"process\":7,\"pid\":12}");

    fake_serve(&reply, 1);
    CHECK_INT(fake_run("exec", "-d", "-e", "A=b", "sbx_1", "--", "sleep", "1"), 0);
    CHECK_STR(buf_str(&fake_out), "7\n");
    CHECK(asked_for("{\"argv\":[\"sleep\",\"1\"],\"env\":{\"A\":\"b\"},\"background\":true}"));
}

TEST(version_needs_no_daemon)
{
    setenv("SANDBOXER_SOCKET", "/nonexistent/socket", 1);
    CHECK_INT(fake_run("version"), 0);
    CHECK_STR(buf_str(&fake_out), "sandboxer:   " SANDBOXER_VERSION "\n");
}

TEST(verbs_without_a_daemon)
{
    setenv("SANDBOXER_SOCKET", "/nonexistent/socket", 1);
    setenv("SANDBOXER_NO_DAEMON", "1", 1);
    CHECK_INT(fake_run("list"), EXIT_TOOL_FAILED);
    CHECK(strstr(fake_err.p, "/nonexistent/socket") != NULL);
    CHECK_INT(fake_run("doctor", "-o", "json") <= 1, 1);
    CHECK(strstr(fake_out.p, "\"check\": \"kernel\"") != NULL);
}

TEST(usage_and_help)
{
    CHECK_INT(fake_run("frobnicate"), EXIT_USAGE);
    CHECK_INT(fake_run("hosts"), EXIT_USAGE);
    CHECK(strstr(fake_err.p, "list, add, remove") != NULL);
    CHECK_INT(fake_run("exec"), EXIT_TOOL_FAILED);
    CHECK_INT(fake_run("help", "hosts", "add"), 0);
    CHECK(strstr(fake_out.p, "Usage: sandboxer hosts add") != NULL);
    for (size_t i = 0; cli_verbs[i]; i++) {
        char word[32];
        const char *second = strchr(cli_verbs[i]->name, ' ');

        snprintf(word, sizeof word, "%.*s", (int)strcspn(cli_verbs[i]->name, " "),
                 cli_verbs[i]->name);
        CHECK_INT(second ? fake_run(word, second + 1, "--help") : fake_run(word, "--help"), 0);
        CHECK(strstr(fake_out.p, cli_verbs[i]->summary) != NULL);
    }
}

/* --- cp --- */

static char directory[] = "/tmp/sandboxer-test-XXXXXX";

static void remove_directory(void)
{
    char command[64];

    snprintf(command, sizeof command, "rm -rf %s", directory);
    if (system(command) != 0)
        return;
}

static void make_directory(void)
{
    CHECK(mkdtemp(directory) != NULL);
    atexit(remove_directory);
    CHECK(chdir(directory) == 0);
    CHECK(system("mkdir -p src/sub && echo hello >src/sub/file && ln -s /etc src/link") == 0);
}

/* An answer whose body is the tree `name` as a tar archive. */
static struct fake_reply tar_of(const char *name)
{
    static char bytes[1 << 20];
    AUTO_CLOSE int root = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int ends[2];
    size_t n =
        (size_t)snprintf(bytes, sizeof bytes, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    struct tree_pack_options o = { 0 };
    struct tree_report report;
    ssize_t got;
    struct err e;

    CHECK(pipe(ends) == 0);
    CHECK_OK(tree_pack(ends[1], root, name, &o, &report, &e), e);
    close(ends[1]);
    while ((got = read(ends[0], bytes + n, sizeof bytes - n)) > 0)
        n += (size_t)got;
    close(ends[0]);
    return (struct fake_reply){ .bytes = bytes, .n = n };
}

TEST(cp_sends_a_tree)
{
    struct fake_reply replies[] = { fake_json("200 OK", "{\"kind\":\"dir\"}"),
                                    fake_json("200 OK", "{}") };
    const char *asked;

    make_directory();
    fake_serve(replies, 2);
    CHECK_INT(fake_run("cp", "src", "sbx_1:/work"), 0);
    asked = fake_requests();
    CHECK(strstr(asked, "GET /v1/sandboxes/sbx_1/files/stat?path=%2Fwork ") != NULL);
    CHECK(strstr(asked, "PUT /v1/sandboxes/sbx_1/files/tar?path=%2Fwork ") != NULL);
}

TEST(cp_takes_a_tree)
{
    struct fake_reply replies[] = { fake_json("200 OK", "{\"kind\":\"dir\"}"),
                                    { 0 },
                                    fake_json("200 OK", "{\"kind\":\"dir\"}"),
                                    { 0 } };

    make_directory();
    replies[1] = replies[3] = tar_of("src");
    CHECK(mkdir("into", 0755) == 0);
    fake_serve(replies, 4);
    CHECK_INT(fake_run("cp", "sbx_1:/x/src", "into"), 0);
    CHECK_STR(buf_str(&fake_err), "");
    CHECK(access("into/src/sub/file", F_OK) == 0);
    CHECK_INT(fake_run("cp", "sbx_1:/x/src", "fresh"), 0);
    CHECK(access("fresh/sub/file", F_OK) == 0);
    CHECK(system("test -L fresh/link") == 0);
    fake_requests();
}

TEST(cp_takes_a_file_and_refuses_nonsense)
{
    struct fake_reply replies[] = { fake_json("200 OK", "{\"kind\":\"file\"}"), { 0 } };

    make_directory();
    CHECK(system("echo old >target; echo new >source") == 0);
    replies[1] = tar_of("source");
    fake_serve(replies, 2);
    CHECK_INT(fake_run("cp", "sbx_1:/x/source", "target"), 0);
    CHECK(system("test \"$(cat target)\" = new") == 0);
    CHECK_INT(fake_run("cp", "a", "b"), EXIT_USAGE);
    CHECK_INT(fake_run("cp", "s:/a", "s:/b"), EXIT_USAGE);
    CHECK_INT(fake_run("cp", "-", "src", "s:/b"), EXIT_USAGE);
    CHECK_INT(fake_run("cp", "nothing-there", "s:/b"), EXIT_TOOL_FAILED);
    fake_requests();
}

TEST(cp_that_is_cut_fails)
{
    struct fake_reply replies[] = { fake_json("200 OK", "{\"kind\":\"dir\"}"),
                                    { .bytes =
                                          "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\nxx" } };

    make_directory();
    fake_serve(replies, 2);
    CHECK_INT(fake_run("cp", "sbx_1:/x", "fresh"), EXIT_TOOL_FAILED);
    CHECK(access("fresh", F_OK) < 0);
    fake_requests();
}

TEST(backup_is_whole_or_not_there)
{
    struct fake_reply replies[] = {
        { .bytes = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf" },
        { .bytes = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole" },
    };

    make_directory();
    fake_serve(replies, 2);
    CHECK_INT(fake_run("backup", "copy.db"), EXIT_TOOL_FAILED);
    CHECK(system("test -z \"$(ls | grep copy)\"") == 0);
    CHECK_INT(fake_run("backup", "copy.db"), 0);
    CHECK(system("test \"$(cat copy.db)\" = whole") == 0);
    fake_requests();
}
