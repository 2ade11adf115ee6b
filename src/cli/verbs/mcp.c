/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/io.h"
#include "base/own.h"
#include "cli/agent/agent.h"
#include "cli/mcp_workspace.h"
#include "cli/stream.h"
#include "cli/verbs/verbs.h"

/* As in edge/mcp/line.h: the protocol, and that nothing more comes. */
#define PROTOCOL "sandboxer-mcp"
#define END      "\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/sandboxer/end\"}\n"

#define SESSION_PREFIX "ses_"

enum { SWITCHED = 101 };

struct mcp_options {
    struct common common;
    const char *session;
    struct mcp_workspace_options workspace;
    bool checkpoint;
};

#define AT(member) .at = offsetof(struct mcp_options, member)

static const struct option_spec options[] = {
    { "session", 0, "FILE", "reconnect to the previous session's sandboxes, within trust.grace",
      AT(session) },
    { "workspace", 0, "DIR[:ro|rw]",
      "give the tools a sandbox with a copy of DIR, whose changes only sandbox_sync brings back "
      "(default: rw; ro: nothing is brought back)",
      AT(workspace.dir), .complete = COMPLETE_FILE },
    { "name", 0, "NAME", "use the sandbox of that name again, if it exists", AT(workspace.name) },
    { "profile", 'p', "PROFILE", "its profile (default: " AGENT_DEFAULT_PROFILE ")",
      AT(workspace.profile), .complete = COMPLETE_PROFILE },
    NETWORK_OPTION_ROWS(struct mcp_options, workspace.network),
    { "checkpoint", 0, NULL, "take a checkpoint for 'undo' before each call that can change files",
      AT(checkpoint) },
};

/* --- the session: a secret in a file, by which a later process is the same client --- */

static int read_session_key(const char *path, char ret[static ID_MAX], struct err *e)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return err_sys(e, "%s", path);
    if (fstat(fd, &st) < 0)
        return err_sys(e, "%s", path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return err_set(e, ERR_DENIED, "%s: must be a file that only you may read (chmod 600)",
                       path);
    n = read(fd, ret, ID_MAX - 1);
    if (n < 0)
        return err_sys(e, "%s", path);
    ret[n] = 0;
    if (!id_valid(SESSION_PREFIX, str_from(ret)))
        return err_set(e, ERR_INVALID,
                       "%s: does not contain a session key; remove the file, or name another one",
                       path);
    return 0;
}

/* Links a complete file into place, so that concurrent processes all find the same key. */
static int make_session_key(const char *path, struct err *e)
{
    char key[ID_MAX], made[PATH_MAX];
    AUTO_CLOSE int fd = -1;
    int r = id_make(SESSION_PREFIX, key, e);

    if (r < 0)
        return r;
    if (snprintf(made, sizeof made, "%s.XXXXXX", path) >= (int)sizeof made)
        return err_set(e, ERR_TOO_BIG, "%.80s…: the path has more than %zu bytes", path,
                       sizeof made - 8);
    fd = mkostemp(made, O_CLOEXEC); /* 0600 */
    if (fd < 0)
        return err_sys(e, "%s", path);
    r = write_all(fd, str_from(key), e);
    if (r >= 0 && link(made, path) < 0 && errno != EEXIST)
        r = err_sys(e, "%s", path);
    unlink(made);
    return r;
}

/* --- the connection --- */

/* Requests a stream of lines in both directions: 0, or the exit status. */
static int open_lines(struct api_call *c, const struct mcp_options *o)
{
    char key[ID_MAX];
    struct err e;
    int status, r = o->session ? read_session_key(o->session, key, &e) : 0;

    if (r == -(int)ERR_SYS && e.sys == ENOENT) {
        r = make_session_key(o->session, &e);
        if (r >= 0)
            r = read_session_key(o->session, key, &e);
    }
    if (r < 0)
        return api_call_failed(c, &e);
    api_call_field(c, "Sandboxer-Session", o->session ? key : NULL);
    api_call_field(c, "Sandboxer-Checkpoint", o->checkpoint ? "calls" : NULL);
    api_call_path(c, "/mcp");
    api_call_field(c, "Connection", "Upgrade");
    api_call_field(c, "Upgrade", PROTOCOL);
    api_call_field(c, "Sandbox-Provider", getenv("SANDBOX_PROVIDER"));
    status = api_call_open(c);
    if (status || c->head->status == SWITCHED)
        return status;
    return verb_failed(c->verb, "the daemon does not support MCP; it may be an older version");
}

/* Each stream closes its own copy of the connection. */
static int copy_of(const struct api_call *c)
{
    return fcntl(c->client.fd, F_DUPFD_CLOEXEC, 3);
}

/* Our last words, as if stdin had them. */
static void send_mcp_end(struct api_call *c, struct stream *in, char *room)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    stream_init(in, ends[0], copy_of(c), true, room);
    if (write(ends[1], END, sizeof END - 1) < 0)
        stream_close(in);
    close(ends[1]);
}

/* Copies both ways until the daemon closes. When the client has closed, the daemon gets an end
 * message and may still answer. */
static int relay_mcp(struct api_call *c)
{
    static char in_room[STREAM_BUFFER], out_room[STREAM_BUFFER];
    struct stream in, out;
    struct pollfd waits[2];
    bool left = false, cut = false;
    int error = 0;

    fcntl(c->client.fd, F_SETFL, fcntl(c->client.fd, F_GETFL) | O_NONBLOCK);
    stream_init(&in, STDIN_FILENO, copy_of(c), false, in_room);
    stream_init(&out, copy_of(c), STDOUT_FILENO, true, out_room);
    while (stream_open(&out)) {
        stream_poll(&in, &waits[0]);
        stream_poll(&out, &waits[1]);
        if (poll(waits, 2, -1) < 0 && errno != EINTR)
            break;
        if (waits[0].revents)
            stream_move(&in);
        if (waits[1].revents)
            stream_move(&out);
        if (!left && !stream_open(&in)) {
            left = true;
            error = in.error;
            cut = in.cut;
            send_mcp_end(c, &in, in_room);
        }
    }
    stream_close(&in);
    stream_close(&out);
    if (left && !error && !cut)
        return 0;
    return verb_failed(c->verb, "the daemon has closed the connection");
}

static int check_mcp_options(const struct verb *v, struct mcp_options *o)
{
    struct mcp_workspace_options *w = &o->workspace;
    struct err e;

    if (!w->dir && (w->name || w->profile || network_touched(&w->network)))
        return verb_misused(v, "--name, --profile and the network's options are about the sandbox "
                               "of --workspace DIR");
    if (w->dir && o->session)
        return verb_misused(v, "--session excludes --workspace: use --name NAME, which continues "
                               "in the sandbox of an earlier session");
    return network_options_read(&w->network, &e) < 0 ? verb_misused(v, "%s", e.msg) : 0;
}

static int run_mcp(struct api_call *c, void *options_, int argc, char **argv)
{
    AUTO(mcp_grant_done) struct mcp_grant grant = { 0 };
    struct mcp_options *o = options_;
    int status = check_mcp_options(c->verb, o);

    if (status == 0 && o->workspace.dir)
        status = mcp_grant_add(&grant, &o->workspace, c);
    if (status)
        return status;
    signal(SIGPIPE, SIG_IGN);
    status = open_lines(c, o);
    if (status)
        return status;
    status = relay_mcp(c);
    if (o->workspace.dir)
        mcp_grant_report(&grant, c);
    return status;
}

const struct verb verb_mcp = {
    .name = "mcp",
    .summary = "serve the Model Context Protocol on stdin and stdout",
    .text = "For the configuration of an MCP client: the tools create sandboxes, run commands in\n"
            "them, and read and write their files. The sandboxes are destroyed when the client\n"
            "closes stdin; with --session FILE they are kept for trust.grace, and a client with\n"
            "the same file reconnects to them. $SANDBOX_PROVIDER chooses the backend, if it\n"
            "matters.\n"
            "\n"
            "--workspace DIR adds one sandbox with a copy of DIR, which the tools use where the\n"
            "model names none. It is made with the first call that needs it. sandbox_diff lists\n"
            "its changes and sandbox_sync brings them back; conflicts and files that this machine\n"
            "runs by itself are left to you. At the end of the session a sandbox with other\n"
            "changes is stopped and kept, and named on stderr. The model cannot widen any of it.\n"
            "\n"
            "The copy is made once: what you or the client's own tools change in DIR later does\n"
            "not reach the sandbox, whose commands then see the older files. The answer of\n"
            "sandbox_exec says so and names the files. DIR:ro shows DIR itself, and follows it,\n"
            "with a daemon of your own that is not root's.\n"
            "\n"
            "  { \"mcpServers\": { \"sandboxer\": { \"command\": \"sandboxer\", \"args\": "
            "[\"mcp\"] } } }\n"
            "  sandboxer mcp --workspace . --allow-packages\n"
            "  sandboxer mcp --workspace ~/proj:ro --allow api.example.com\n",
    OPTIONS(options, struct mcp_options),
    .defaults = &(const struct mcp_options){ .workspace.network = NETWORK_OPTIONS_NONE },
    .run = run_mcp,
    .flags = VERB_REMOTE,
};
