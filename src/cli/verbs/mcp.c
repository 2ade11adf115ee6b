/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/api_call.h"
#include "cli/run/session_key.h"
#include "cli/stream.h"
#include "cli/verbs/verbs.h"

/* As in edge/mcp/line.h: the protocol, and that nothing more comes. */
#define PROTOCOL "sandboxer-mcp"
#define END      "\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/sandboxer/end\"}\n"

enum { SWITCHED = 101 };

struct mcp_options {
    struct common common;
    const char *session;
};

#define AT(member) .at = offsetof(struct mcp_options, member)

static const struct option_spec options[] = {
    { "session", 0, "FILE", "reconnect to the previous session's sandboxes, within trust.grace",
      .kind = OPTION_TEXT, AT(session) },
};

/* Requests a stream of lines in both directions: 0, or the exit status. */
static int open_lines(struct api_call *c, const struct mcp_options *o)
{
    struct http_client_request q;
    char key[ID_MAX];
    struct err e;
    int status;

    if (o->session && session_key_load(o->session, key, &e) < 0)
        return api_call_failed(c, &e);
    api_call_field(c, "Sandboxer-Session", o->session ? key : NULL);
    api_call_path(c, "/mcp");
    api_call_field(c, "Connection", "Upgrade");
    api_call_field(c, "Upgrade", PROTOCOL);
    api_call_field(c, "Sandbox-Provider", getenv("SANDBOX_PROVIDER"));
    status = api_call_connect(c);
    if (!status)
        status = api_call_request(c, &q);
    if (status)
        return status;
    if (http_client_send(&c->client, &q, &e) < 0 || http_client_head(&c->client, &c->head, &e) < 0)
        return api_call_failed(c, &e);
    if (c->head->status == SWITCHED)
        return 0;
    if (c->head->status >= 400)
        return api_call_problem(c);
    (void)err_set(&e, ERR_UNSUPPORTED,
                  "the daemon does not support MCP; it may be an older version");
    return api_call_failed(c, &e);
}

static void set_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
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
    struct err e;

    set_nonblocking(c->client.fd);
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
    (void)err_set(&e, ERR_UPSTREAM, "the daemon has closed the connection");
    return api_call_failed(c, &e);
}

static int serve_mcp(const struct verb *v, const struct mcp_options *o)
{
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, v, &o->common, "GET");
    status = open_lines(&c, o);
    return status ? status : relay_mcp(&c);
}

static int run_mcp(const struct verb *v, int argc, char **argv)
{
    struct mcp_options o = { 0 };
    int status;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    signal(SIGPIPE, SIG_IGN);
    return serve_mcp(v, &o);
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
    OPTIONS(options),
    .run = run_mcp,
    .flags = VERB_REMOTE,
};
