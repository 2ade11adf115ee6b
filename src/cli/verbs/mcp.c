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
};

#define AT(member) .at = offsetof(struct mcp_options, member)

static const struct option_spec options[] = {
    { "session", 0, "FILE", "reconnect to the previous session's sandboxes, within trust.grace",
      AT(session) },
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

static int run_mcp(struct api_call *c, void *options_, int argc, char **argv)
{
    int status;

    signal(SIGPIPE, SIG_IGN);
    status = open_lines(c, options_);
    return status ? status : relay_mcp(c);
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
            "  { \"mcpServers\": { \"sandboxer\": { \"command\": \"sandboxer\", \"args\": "
            "[\"mcp\"] } } }\n",
    OPTIONS(options, struct mcp_options),
    .run = run_mcp,
    .flags = VERB_REMOTE,
};
