/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp_workspace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/id.h"
#include "base/own.h"
#include "cli/agent/agent.h"
#include "cli/body.h"

/* As in edge/tools/workspace.h. */
#define WORKSPACE_FIELD "Sandboxer-Workspace"
/* A working day; a session in use extends it, and an unused one finds its sandbox paused. */
#define SESSION_TTL "8h"

enum { ENDING_MS = 100, ENDING_LOOKS = 50 };

/* --- the grant --- */

/* DIR, DIR:ro or DIR:rw. */
static int read_grant_directory(struct mcp_grant *g, const struct api_call *c)
{
    struct str text = str_from(g->o->dir);
    bool given = str_ends(text, STR(":ro")) || str_ends(text, STR(":rw"));
    char path[PATH_MAX];

    g->read_only = str_ends(text, STR(":ro"));
    if (given)
        text.n -= 3;
    if (!text.n || !str_copy(text, path, sizeof path))
        return verb_misused(c->verb, "--workspace %s: must be DIR, DIR:ro or DIR:rw", g->o->dir);
    if (!realpath(path, g->dir))
        return verb_misused(c->verb, "--workspace %s: %s", path, strerror(errno));
    return 0;
}

/* Sessions with --name share a sandbox; others have one of their own. */
static int choose_grant_name(struct mcp_grant *g, const struct api_call *c)
{
    char id[ID_MAX];
    struct err e;

    if (g->o->name)
        return str_copy(str_from(g->o->name), g->name, sizeof g->name)
                   ? 0
                   : verb_misused(c->verb, "--name: longer than %d characters",
                                  SANDBOX_NAME_MAX - 1);
    if (id_make("mcp-", id, &e) < 0)
        return api_call_failed(c, &e);
    snprintf(g->name, sizeof g->name, "%s", id);
    return 0;
}

static void write_grant(const struct mcp_grant *g, struct json_writer *w)
{
    json_begin_object(w);
    body_text(w, "name", g->name);
    body_text(w, "profile", g->o->profile ? g->o->profile : AGENT_DEFAULT_PROFILE);
    body_text(w, "ttl", g->o->profile ? NULL : SESSION_TTL);
    body_text(w, "on_timeout", "pause");
    body_text(w, "workdir", g->o->profile ? AGENT_WORKSPACE : NULL);
    json_field_begin_object(w, "workspace");
    json_field_cstr(w, "access", g->read_only ? "ro" : "rw");
    if (!g->read_only) /* changes come back by a sync that is asked for */
        json_field_cstr(w, "at_end", "keep");
    json_end_object(w);
    json_field_begin_object(w, "inputs");
    json_field_cstr(w, "repo", g->dir);
    json_end_object(w);
    network_options_write(&g->o->network, w);
    json_end_object(w);
}

int mcp_grant_add(struct mcp_grant *g, const struct mcp_workspace_options *o, struct api_call *c)
{
    struct json_writer w;
    int status;

    *g = (struct mcp_grant){ .o = o };
    buf_init(&g->text, MCP_GRANT_MAX);
    status = read_grant_directory(g, c);
    if (status == 0)
        status = choose_grant_name(g, c);
    if (status == 0)
        status = api_call_pass_dir(c, g->dir, !g->read_only);
    if (status)
        return status;
    json_writer_init(&w, &g->text, JSON_COMPACT);
    write_grant(g, &w);
    if (json_writer_finish(&w, NULL) < 0 || buf_add(&g->text, (struct str){ "", 1 }) < 0)
        return verb_misused(c->verb,
                            "the options of the workspace need more than %d bytes: name "
                            "fewer hosts, or put them in a profile",
                            MCP_GRANT_MAX);
    api_call_field(c, WORKSPACE_FIELD, g->text.p);
    return 0;
}

void mcp_grant_done(struct mcp_grant *g)
{
    buf_done(&g->text);
}

/* --- the end --- */

/* The state of the sandbox: "" if there is none. False: the daemon does not answer. */
static bool look_at_sandbox(const struct mcp_grant *g, const struct api_call *session,
                            char ret_state[static 16], char ret_id[static ID_MAX])
{
    AUTO(api_call_done) struct api_call c;
    struct err e;

    ret_state[0] = ret_id[0] = '\0';
    api_call_init(&c, session->verb, session->common, "GET");
    c.start = CONTACT_ONLY;
    api_call_path(&c, "/v1/sandboxes/%s", g->name);
    if (!api_call_answers(&c, &e))
        return e.code == ERR_UPSTREAM;
    str_copy(show_string(c.answer, "state"), ret_state, 16);
    str_copy(show_string(c.answer, "sandbox_id"), ret_id, ID_MAX);
    return true;
}

static void report_kept_sandbox(const struct mcp_grant *g, const char *id)
{
    cli_report("the sandbox %s is kept, stopped, with changes that %s lacks", id, g->dir);
    cli_report("look at changes:   sandboxer resume %s; sandboxer sync --interactive %s", id, id);
    cli_report("bring back, end:   sandboxer destroy %s   (--discard loses the changes)", id);
}

void mcp_grant_report(const struct mcp_grant *g, const struct api_call *c)
{
    char state[16] = "", id[ID_MAX] = "";

    for (int i = 0; i < ENDING_LOOKS; i++) {
        if (!look_at_sandbox(g, c, state, id)) {
            cli_report("if the session has used its sandbox, it is '%s', and has its files when "
                       "the daemon runs again: sandboxer get %s",
                       g->name, g->name);
            return;
        }
        if (!state[0] || strcmp(state, "destroyed") == 0)
            return;
        if (strcmp(state, "paused") == 0) {
            report_kept_sandbox(g, id);
            return;
        }
        usleep(ENDING_MS * 1000);
    }
    cli_report("the sandbox %s still runs: another session uses it, or its changes are still being "
               "compared with %s; see: sandboxer get %s",
               id, g->dir, id);
}
