/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/clients/clients.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "cli/clients/toml_edit.h"
#include "lib/json/writer.h"

#define SERVER "sandboxer"

const char *const client_scopes[CLIENT_SCOPES] = { "project", "user" };

/* clang-format off */
const struct client_program clients[] = {
    { .name = "claude-code", .title = "Claude Code", .program = "claude",
      .files = { ".mcp.json", ".claude.json" },
      .home_variable = "CLAUDE_CONFIG_DIR", .home_file = ".claude.json",
      .servers = "mcpServers", .type = "stdio", .workspace = { ".", "." },
      .next = "start claude in the project and approve the server; 'claude mcp list' shows it" },
    { .name = "cursor", .title = "Cursor", .program = "cursor",
      .files = { ".cursor/mcp.json", ".cursor/mcp.json" },
      .servers = "mcpServers", .dialect = { .comments = true, .trailing_commas = true },
      .workspace = { "${workspaceFolder}", NULL },
      .next = "open the project in Cursor and turn the server on in its MCP settings" },
    { .name = "codex", .title = "Codex", .program = "codex", .usual = CLIENT_USER,
      .files = { ".codex/config.toml", ".codex/config.toml" },
      .home_variable = "CODEX_HOME", .home_file = "config.toml",
      .servers = "mcp_servers", .toml = true, .workspace = { ".", "." },
      .next = "start codex in the project; 'codex mcp list' shows the server" },
    { .name = "gemini", .title = "Gemini CLI", .program = "gemini",
      .files = { ".gemini/settings.json", ".gemini/settings.json" },
      .servers = "mcpServers", .dialect = { .comments = true }, .workspace = { ".", "." },
      .next = "start gemini in the project, a trusted folder; 'gemini mcp list' shows the server" },
    { .name = "vscode", .title = "VS Code", .program = "code",
      .files = { ".vscode/mcp.json", ".config/Code/User/mcp.json" },
      .home_variable = "XDG_CONFIG_HOME", .home_file = "Code/User/mcp.json",
      .servers = "servers", .type = "stdio",
      .dialect = { .comments = true, .trailing_commas = true },
      .workspace = { "${workspaceFolder}", "${workspaceFolder}" },
      .next = "open the project in VS Code and start the server with its command 'MCP: List Servers'" },
};
/* clang-format on */
const size_t client_count = COUNT_OF(clients);
const char client_names[] = "claude-code cursor codex gemini vscode";

const struct client_program *client_find(const char *name)
{
    for (size_t i = 0; i < client_count; i++)
        if (str_eq(str_from(clients[i].name), str_from(name)))
            return &clients[i];
    return NULL;
}

int client_path(const struct client_program *c, enum client_scope scope, char *out, size_t cap,
                struct err *e)
{
    const char *home = getenv("HOME"), *other = c->home_variable ? getenv(c->home_variable) : NULL;
    int n;

    if (scope == CLIENT_PROJECT)
        n = snprintf(out, cap, "%s", c->files[scope]);
    else if (other && other[0] == '/')
        n = snprintf(out, cap, "%s/%s", other, c->home_file);
    else if (home && home[0] == '/')
        n = snprintf(out, cap, "%s/%s", home[1] ? home : "", c->files[scope]);
    else
        return err_set(e, ERR_INVALID, "HOME is not set to an absolute path: use --project");
    return n < (int)cap
               ? 0
               : err_set(e, ERR_TOO_BIG,
                         "HOME leads to a path of more than %zu bytes: use --project", cap - 1);
}

/* --- JSON --- */

static struct json_path path_of(const struct client_program *c, const char *member)
{
    return (struct json_path){ { c->servers, SERVER, member }, member ? 3 : 2 };
}

/* The members of our entry. */
static size_t make_members(const struct client_program *c, const struct client_entry *entry,
                           struct json words[static CLIENT_ARGUMENTS_MAX],
                           struct json members[static 3])
{
    size_t n = 0;

    for (size_t i = 0; i < entry->n; i++)
        words[i] = (struct json){ .type = JSON_STR, .s = str_from(entry->arguments[i]) };
    if (c->type)
        members[n++] =
            (struct json){ .type = JSON_STR, .key = STR("type"), .s = str_from(c->type) };
    members[n++] =
        (struct json){ .type = JSON_STR, .key = STR("command"), .s = str_from(entry->command) };
    members[n++] =
        (struct json){ .type = JSON_ARRAY, .key = STR("args"), .list = { words, entry->n } };
    return n;
}

/* Whether the file has our entry, and that it is one of a program. */
static int look_at_entry(const struct client_program *c, struct str text, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(2 * JSON_EDIT_MAX);
    const struct json_path path = path_of(c, NULL);
    const struct json *now;
    int r = json_edit_get(text, c->dialect, &path, &a, &now, e);

    if (r <= 0)
        return r;
    if (now->type == JSON_OBJECT && json_get(now, STR("command")))
        return 1;
    return err_set(e, ERR_CONFLICT,
                   "the server '" SERVER "' there starts no program; remove it with --remove");
}

/* Sets one member after the other, each in the text that the one before made. */
static int set_members(const struct client_program *c, struct str text, const struct json *members,
                       size_t n, struct buf *out, struct err *e)
{
    AUTO(buf_done) struct buf a = BUF_INIT(JSON_EDIT_MAX), b = BUF_INIT(JSON_EDIT_MAX);
    struct buf *made[2] = { &a, &b };
    bool changed = false;

    for (size_t i = 0; i < n; i++) {
        const struct json_path path = path_of(c, members[i].key.p);
        struct buf *to = i + 1 == n ? out : made[i % 2];
        int r;

        buf_clear(to == out ? made[i % 2] : to);
        r = json_edit_set(text, c->dialect, &path, &members[i], to, e);
        if (r < 0)
            return r;
        changed |= r > 0;
        text = buf_str(to);
    }
    return changed;
}

static int add_json(const struct client_program *c, struct str text,
                    const struct client_entry *entry, struct buf *out, struct err *e)
{
    struct json words[CLIENT_ARGUMENTS_MAX], members[3];
    size_t n = make_members(c, entry, words, members);
    const struct json whole = { .type = JSON_OBJECT, .list = { members, n } };
    const struct json_path path = path_of(c, NULL);
    int r;

    if (!str_trim(text).n)
        text = STR("{}\n");
    r = look_at_entry(c, text, e);
    if (r < 0)
        return r;
    return r ? set_members(c, text, members, n, out, e)
             : json_edit_set(text, c->dialect, &path, &whole, out, e);
}

/* --- TOML --- */

static struct str put_toml_text(struct buf *room, const char *text)
{
    struct json_writer w;
    size_t from = room->n;

    json_writer_init(&w, room, JSON_COMPACT);
    json_put_str(&w, str_from(text));
    (void)json_writer_finish(&w, NULL);
    return (struct str){ room->p + from, room->n - from };
}

static int add_toml(const struct client_program *c, struct str text,
                    const struct client_entry *entry, struct buf *out, struct err *e)
{
    AUTO(buf_done) struct buf command = BUF_INIT(JSON_EDIT_MAX), args = BUF_INIT(JSON_EDIT_MAX);
    const struct toml_table table = { c->servers, SERVER };
    struct toml_pair pairs[2] = { { .key = "command" }, { .key = "args" } };
    int r = toml_edit_has(text, table, "url", e);

    if (r < 0)
        return r;
    if (r > 0)
        return err_set(e, ERR_CONFLICT,
                       "the server '" SERVER "' there starts no program; remove it with --remove");
    (void)buf_add_c(&args, '[');
    for (size_t i = 0; i < entry->n; i++) {
        (void)buf_add(&args, i ? STR(", ") : STR(""));
        (void)put_toml_text(&args, entry->arguments[i]);
    }
    if (buf_add_c(&args, ']') < 0)
        return err_set(e, ERR_TOO_BIG, "the arguments need more than %d MiB", JSON_EDIT_MAX >> 20);
    pairs[0].value = put_toml_text(&command, entry->command);
    pairs[1].value = buf_str(&args);
    return toml_edit_set(text, table, pairs, COUNT_OF(pairs), out, e);
}

/* --- both --- */

int client_add(const struct client_program *c, struct str text, const struct client_entry *entry,
               struct buf *out, struct err *e)
{
    return c->toml ? add_toml(c, text, entry, out, e) : add_json(c, text, entry, out, e);
}

int client_remove(const struct client_program *c, struct str text, struct buf *out, struct err *e)
{
    const struct json_path path = path_of(c, NULL);

    if (c->toml)
        return toml_edit_remove(text, (struct toml_table){ c->servers, SERVER }, out, e);
    if (!str_trim(text).n)
        return 0;
    return json_edit_remove(text, c->dialect, &path, out, e);
}
