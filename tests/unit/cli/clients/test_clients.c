/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/clients/clients.h"

#include <stdlib.h>

#include "base/own.h"
#include "harness/tap.h"

static const struct client_entry entry = { .command = "/s",
                                           .arguments = { "mcp", "a b\"" },
                                           .n = 2 };

static void check_add(const char *client, const char *before, const char *after)
{
    AUTO(buf_done) struct buf out = BUF_INIT(JSON_EDIT_MAX), again = BUF_INIT(JSON_EDIT_MAX);
    const struct client_program *c = client_find(client);
    struct err e;

    CHECK_OK(client_add(c, str_from(before), &entry, &out, &e), e);
    CHECK_STR(buf_str(&out), after);
    CHECK_INT(client_add(c, buf_str(&out), &entry, &again, &e), 0);
}

TEST(clients_have_files_everywhere)
{
    char path[PATH_MAX];
    struct err e;

    setenv("HOME", "/home/x", 1);
    unsetenv("XDG_CONFIG_HOME");
    for (size_t i = 0; i < client_count; i++)
        for (enum client_scope s = 0; s < CLIENT_SCOPES; s++) {
            CHECK_OK(client_path(&clients[i], s, path, sizeof path, &e), e);
            CHECK((path[0] == '/') == (s == CLIENT_USER));
        }
    setenv("CODEX_HOME", "/else", 1);
    CHECK_OK(client_path(client_find("codex"), CLIENT_USER, path, sizeof path, &e), e);
    CHECK_STR(str_from(path), "/else/config.toml");
    setenv("CODEX_HOME", "relative", 1);
    setenv("HOME", "", 1);
    CHECK_INT(client_path(client_find("codex"), CLIENT_USER, path, sizeof path, &e),
              -(int)ERR_INVALID);
    CHECK(client_find("emacs") == NULL);
}

TEST(clients_have_names)
{
    struct str rest = str_from(client_names), name;

    for (size_t i = 0; i < client_count; i++) {
        rest = str_cut(rest, ' ', &name);
        CHECK_STR(name, clients[i].name);
    }
    CHECK(rest.p == NULL);
}

TEST(clients_get_an_entry_in_their_form)
{
    check_add("codex", "",
              "[mcp_servers.sandboxer]\ncommand = \"/s\"\nargs = [\"mcp\", \"a b\\\"\"]\n");
    check_add(
        "vscode", "{\"servers\":{}, \"inputs\": []}",
        "{\"servers\":{\"sandboxer\":{\"type\":\"stdio\",\"command\":\"/s\",\"args\":[\"mcp\","
        "\"a b\\\"\"]}}, \"inputs\": []}");
    check_add("gemini", " \n",
              "{\n  \"mcpServers\": {\n    \"sandboxer\": {\n      \"command\": \"/s\",\n"
              "      \"args\": [\n        \"mcp\",\n        \"a b\\\"\"\n      ]\n    }\n  }\n}\n");
}

TEST(clients_keep_members_of_others_in_the_entry)
{
    check_add("cursor",
              "{\"mcpServers\": {\"sandboxer\": {\"env\": {\"A\": \"b\"}, \"command\": \"old\", "
              "/* x */ \"timeout\": 3}}}",
              "{\"mcpServers\": {\"sandboxer\": {\"env\": {\"A\": \"b\"}, \"command\": \"/s\", "
              "/* x */ \"timeout\": 3, \"args\": [\"mcp\", \"a b\\\"\"]}}}");
    check_add("claude-code",
              "{\"mcpServers\":{\"sandboxer\":{\"command\":\"/s\",\"args\":[\"mcp\"],"
              "\"type\":\"stdio\"}}}",
              "{\"mcpServers\":{\"sandboxer\":{\"command\":\"/s\",\"args\":[\"mcp\",\"a b\\\"\"],"
              "\"type\":\"stdio\"}}}");
}

static void check_conflict(const char *client, const char *text)
{
    AUTO(buf_done) struct buf out = BUF_INIT(JSON_EDIT_MAX);
    struct err e;

    CHECK_INT(client_add(client_find(client), str_from(text), &entry, &out, &e),
              -(int)ERR_CONFLICT);
    CHECK_INT(client_remove(client_find(client), str_from(text), &out, &e), 1);
}

TEST(clients_do_not_take_a_server_of_another_kind)
{
    check_conflict("gemini", "{\"mcpServers\": {\"sandboxer\": {\"httpUrl\": \"http://x\"}}}");
    check_conflict("codex", "[mcp_servers.sandboxer]\nurl = 'http://x'\n");
}
