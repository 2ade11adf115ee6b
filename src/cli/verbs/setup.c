/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the configuration by which an MCP client starts `sandboxer mcp`. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/clients/clients.h"
#include "cli/clients/config_file.h"
#include "cli/daemon.h"
#include "cli/run/network_options.h"
#include "cli/verbs/verbs.h"

enum { CONFIG_FILE_MAX = JSON_EDIT_MAX / 2, WORKSPACE_MAX = PATH_MAX + 8 };

struct setup_options {
    struct common common;
    bool print, remove, project, user;
    const char *workspace, *profile, *name;
    struct network_options network;
};

#define AT(member) .at = offsetof(struct setup_options, member)

static const struct option_spec options[] = {
    { "project", 0, NULL, "for the project in this directory (default; for codex: --user)",
      AT(project) },
    { "user", 0, NULL, "for all projects of this user", AT(user) },
    { "print", 0, NULL, "print the configuration and its file, change nothing", AT(print) },
    { "remove", 0, NULL, "remove the server from the file", AT(remove) },
    { "workspace", 0, "DIR[:ro|rw]",
      "the directory that the sandbox gets (default: the project that the client has open)",
      AT(workspace), .complete = COMPLETE_FILE },
    { "profile", 'p', "NAME", "the sandbox's profile", AT(profile), .complete = COMPLETE_PROFILE },
    { "allow", 0, "HOST[:PORT]", "let it reach this host; can be repeated", .kind = OPTION_LIST,
      AT(network.allow) },
    { "allow-packages", 0, NULL,
      "let it reach the hosts that its package managers are configured for", AT(network.packages) },
    { "policy", 0, "FILE", "let it reach what this egress policy allows", AT(network.policy),
      .complete = COMPLETE_FILE },
    { "name", 0, "NAME", "use the sandbox with this name again", AT(name) },
};

static const struct setup_options defaults = { .network = NETWORK_OPTIONS_NONE };

/* One call of the verb. */
struct setup {
    const struct verb *verb;
    const struct setup_options *o;
    const struct client_program *client;
    enum client_scope scope;
    char command[PATH_MAX], workspace[WORKSPACE_MAX], policy[PATH_MAX];
    char file[PATH_MAX], backup[PATH_MAX];
    struct client_entry entry;
};

/* --- the entry --- */

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* This program, by its name in PATH if it has one there: an upgrade keeps that. */
static int find_own_program(char out[static PATH_MAX], struct err *e)
{
    ssize_t n;

    if (daemon_find_in_path("sandboxer", out, PATH_MAX) && is_same_file(out, "/proc/self/exe"))
        return 0;
    n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    if (n < 0)
        return err_sys(e, "/proc/self/exe");
    out[n] = '\0';
    return 0;
}

/* Splits DIR[:ro|rw]; *ret_access is "" or begins with the colon. */
static struct str workspace_dir(const char *value, const char **ret_access)
{
    struct str s = str_from(value);

    *ret_access = "";
    if (str_ends(s, STR(":ro")) || str_ends(s, STR(":rw"))) {
        s.n -= 3;
        *ret_access = value + s.n;
    }
    return s;
}

/* The client's own word for its project, or an absolute directory. */
static int find_workspace(struct setup *s, struct err *e)
{
    const char *access, *value = s->o->workspace, *usual = s->client->workspace[s->scope];
    struct str dir = workspace_dir(value ? value : "", &access);
    char given[PATH_MAX], real[PATH_MAX];
    struct stat st;

    if (!value && !usual)
        return err_set(e, ERR_INVALID,
                       "%s does not start the servers of this file in a project; name a directory "
                       "with --workspace DIR, or use --project",
                       s->client->title);
    if (!str_copy(dir, given, sizeof given))
        return err_set(e, ERR_TOO_BIG, "--workspace: the path is longer than %d bytes",
                       PATH_MAX - 1);
    if (usual && (!value || !dir.n || str_eq(dir, STR(".")) || str_eq(dir, str_from(usual)))) {
        snprintf(s->workspace, sizeof s->workspace, "%s%s", usual, access);
        return 0;
    }
    if (!realpath(given, real) || stat(real, &st) < 0)
        return err_sys(e, "--workspace: %s", given);
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_INVALID, "--workspace: %s: not a directory", given);
    snprintf(s->workspace, sizeof s->workspace, "%s%s", real, access);
    return 0;
}

static void add_argument(struct setup *s, const char *option, const char *value)
{
    if (option)
        s->entry.arguments[s->entry.n++] = option;
    if (value)
        s->entry.arguments[s->entry.n++] = value;
}

/* The texts go into files of others, and onto terminals. Most clients replace variables in them: only
 * our own word for the project may hold one. */
static int check_client_entry(const struct setup *s, struct err *e)
{
    const char *usual = s->client->workspace[s->scope];
    const struct client_entry *entry = &s->entry;

    for (size_t i = 0; i <= entry->n; i++) {
        const char *text = i < entry->n ? entry->arguments[i] : entry->command;
        bool ours = text == s->workspace && usual && str_starts(str_from(text), str_from(usual));

        if (!str_is_utf8(str_from(text)))
            return err_set(e, ERR_INVALID, "an argument is not UTF-8");
        for (const char *c = text; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7F)
                return err_set(e, ERR_INVALID, "an argument has a control character");
        if (strchr(text, '$') && !ours)
            return err_set(e, ERR_INVALID,
                           "'%.100s' has a '$', which clients replace by the value of a variable",
                           text);
    }
    return 0;
}

static int check_setup_options(const struct setup *s, struct err *e)
{
    struct network_options network = s->o->network;
    struct daemon_address at;
    int r = s->o->common.server ? place_find(s->o->common.server, &at, e) : 0;

    if (r >= 0 && s->o->common.server && at.tcp)
        r = err_set(e, ERR_INVALID,
                    "--server: a workspace needs the daemon's unix socket: name unix:PATH");
    if (r >= 0)
        r = network_options_read(&network, e);
    buf_done(&network.text);
    if (r >= 0 && s->o->name)
        r = err_wrap(e, sandbox_name_check(str_from(s->o->name), e), "--name");
    return r;
}

static int make_client_entry(struct setup *s, struct err *e)
{
    int r = find_own_program(s->command, e);

    if (r < 0)
        return r;
    r = find_workspace(s, e);
    if (r < 0)
        return r;
    r = check_setup_options(s, e);
    if (r < 0)
        return r;
    if (s->o->network.policy && !realpath(s->o->network.policy, s->policy))
        return err_sys(e, "--policy: %s", s->o->network.policy);
    s->entry.command = s->command;
    add_argument(s, "mcp", NULL);
    add_argument(s, "--workspace", s->workspace);
    if (s->o->common.server)
        add_argument(s, "--server", s->o->common.server);
    if (s->o->profile)
        add_argument(s, "--profile", s->o->profile);
    if (s->o->name)
        add_argument(s, "--name", s->o->name);
    for (size_t i = 0; i < s->o->network.allow.n; i++)
        add_argument(s, "--allow", s->o->network.allow.p[i]);
    if (s->o->network.packages)
        add_argument(s, "--allow-packages", NULL);
    if (s->o->network.policy)
        add_argument(s, "--policy", s->policy);
    return check_client_entry(s, e);
}

/* --- the answer --- */

/* Variables that lead this process to a daemon, and may be missing where the client starts its server. */
static void note_daemon_variables(const struct setup_options *o)
{
    static const char *const names[] = { "SANDBOXER_URL", "SANDBOXER_SOCKET", "SANDBOXER_STATE" };

    for (size_t i = 0; i < COUNT_OF(names) && !o->common.server; i++) {
        const char *value = getenv(names[i]);

        if (value && value[0])
            cli_report(
                "note: %s is set here; the server uses the same daemon only if the client has "
                "it in its environment, or with --server",
                names[i]);
    }
}

static struct json setup_member(struct str key, const char *text)
{
    return (struct json){ .type = JSON_STR, .key = key, .s = str_from(text) };
}

static int answer_setup(const struct api_call *c, const struct setup *s, const char *result)
{
    struct json members[] = { setup_member(STR("client"), s->client->name),
                              setup_member(STR("scope"), client_scopes[s->scope]),
                              setup_member(STR("file"), s->file),
                              setup_member(STR("backup"), s->backup),
                              setup_member(STR("result"), result) };
    const struct json tree = { .type = JSON_OBJECT, .list = { members, COUNT_OF(members) } };
    char found[PATH_MAX];
    int status;

    status = answer_done(c, &tree, "%s: %s%s%s", s->file, result,
                         s->backup[0] ? "; the old text is in " : "", s->backup);
    if (status || common_format(c->common) != FORMAT_TEXT || c->common->quiet || s->o->remove)
        return status;
    note_daemon_variables(s->o);
    if (!daemon_find_in_path(s->client->program, found, sizeof found))
        printf("%s ('%s') is not in PATH\n", s->client->title, s->client->program);
    printf("next: %s\n", s->client->next);
    printf("note: the tools work on a copy of the directory that is made once; what changes there "
           "later does not reach it (sandboxer help mcp)\n");
    return answer_flush(c);
}

/* --- the verb --- */

static int open_setup_file(struct setup *s, struct config_file *f, struct err *e)
{
    char path[PATH_MAX], here[PATH_MAX];
    int r = client_path(s->client, s->scope, path, sizeof path, e);

    if (r < 0)
        return r;
    if (s->scope == CLIENT_USER)
        r = config_file_open(f, path, CONFIG_FILE_MAX, e);
    else if (!getcwd(here, sizeof here))
        return err_sys(e, "the working directory");
    else
        r = config_file_open_below(f, here, path, CONFIG_FILE_MAX, e);
    memcpy(s->file, f->path, sizeof s->file);
    return r;
}

static int change_setup_file(struct setup *s, struct config_file *f, const char **ret_result,
                             struct err *e)
{
    AUTO(buf_done) struct buf out = BUF_INIT(JSON_EDIT_MAX);
    mode_t mode = s->scope == CLIENT_USER ? 0600 : 0644;
    int r = s->o->remove ? client_remove(s->client, buf_str(&f->text), &out, e)
                         : client_add(s->client, buf_str(&f->text), &s->entry, &out, e);

    if (r < 0)
        return err_wrap(e, r, "%s", f->path);
    *ret_result = s->o->remove ? "the server is not there" : "unchanged";
    if (r == 0)
        return 0;
    *ret_result = s->o->remove ? "removed" : "written";
    return config_file_replace(f, buf_str(&out), mode, s->backup, e);
}

static int print_setup(const struct api_call *c, struct setup *s)
{
    AUTO(buf_done) struct buf out = BUF_INIT(JSON_EDIT_MAX);
    struct json members[4];
    const struct json tree = { .type = JSON_OBJECT, .list = { members, COUNT_OF(members) } };
    struct err e;

    if (client_path(s->client, s->scope, s->file, sizeof s->file, &e) < 0 ||
        client_add(s->client, STR(""), &s->entry, &out, &e) < 0)
        return api_call_failed(c, &e);
    members[0] = setup_member(STR("client"), s->client->name);
    members[1] = setup_member(STR("scope"), client_scopes[s->scope]);
    members[2] = setup_member(STR("file"), s->file);
    members[3] = setup_member(STR("text"), out.p);
    if (common_format(c->common) != FORMAT_TEXT)
        return answer_done(c, &tree, "%s", "");
    cli_report("for %s:", s->file);
    fputs(out.p, stdout);
    return answer_flush(c);
}

static int status_of_setup(const struct verb *v, const struct err *e)
{
    verb_failed(v, "%s", e->msg);
    return e->code == ERR_CONFLICT  ? EXIT_CONFLICT
           : e->code == ERR_DENIED  ? EXIT_DENIED
           : e->code == ERR_INVALID ? EXIT_USAGE
                                    : EXIT_TOOL_FAILED;
}

static int run_setup_file(const struct api_call *c, struct setup *s)
{
    struct config_file f = { .dir = -1 };
    const char *result = "";
    struct err e;
    int r = open_setup_file(s, &f, &e);

    if (r >= 0)
        r = change_setup_file(s, &f, &result, &e);
    config_file_done(&f);
    return r < 0 ? status_of_setup(c->verb, &e) : answer_setup(c, s, result);
}

static int run_setup(struct api_call *c, void *options_, int argc, char **argv)
{
    struct setup_options *o = options_;
    struct setup s = { .verb = c->verb, .o = o, .client = client_find(argv[0]) };
    struct err e;

    if (!s.client)
        return verb_misused(c->verb, "'%s' is not one of: %s", argv[0], client_names);
    if (o->project && o->user)
        return verb_misused(c->verb, "--project and --user do not go together");
    if (o->print && o->remove)
        return verb_misused(c->verb, "--print and --remove do not go together");
    s.scope = o->project ? CLIENT_PROJECT : o->user ? CLIENT_USER : s.client->usual;
    if (!o->remove && make_client_entry(&s, &e) < 0)
        return verb_misused(c->verb, "%s", e.msg);
    return o->print ? print_setup(c, &s) : run_setup_file(c, &s);
}

const struct verb verb_setup = {
    .name = "setup",
    ARGUMENTS("CLIENT", 1, 1, COMPLETE_NOTHING),
    .summary = "write the configuration by which an MCP client starts 'sandboxer mcp'",
    .text = "CLIENT is claude-code, cursor, codex, gemini or vscode. The file of the project in\n"
            "this directory, or with --user the one of this user, gets a server 'sandboxer'\n"
            "that starts 'sandboxer mcp --workspace .' with the other options: they are what\n"
            "the person who runs this grants; the model cannot change them. All other text of\n"
            "the file stays as it is; a file that cannot be read as its format is not touched.\n"
            "The old text is kept beside it as FILE.bak-sandboxer (-2 and so on: older copies\n"
            "stay). Nothing is done if the file says the same.\n"
            "\n"
            "Exit status: 2 if the file is not in its format or an argument is wrong, 4 if the\n"
            "file was changed meanwhile or has another server of this name, 5 if it is a link\n"
            "that is not followed.\n"
            "\n"
            "  sandboxer setup claude-code --allow-packages\n"
            "  sandboxer setup codex --workspace ~/src/app:ro --print\n"
            "  sandboxer setup cursor --remove\n",
    OPTIONS(options, struct setup_options),
    .defaults = &defaults,
    .run = run_setup,
    .flags = VERB_ASKS,
};
