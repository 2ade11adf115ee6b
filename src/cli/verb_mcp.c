#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/call.h"
#include "cli/stream.h"
#include "cli/verbs.h"

#define PROTOCOL "sandboxer-mcp" /* mcp/line.h */

enum { SWITCHED = 101 };

struct mcp_options {
    struct common common;
};

/* Asks for lines in both directions: 0, or what to exit with. */
static int open_lines(struct call *c)
{
    struct http_client_request q;
    struct err e;
    int status;

    call_path(c, "/mcp");
    call_field(c, "Connection", "Upgrade");
    call_field(c, "Upgrade", PROTOCOL);
    call_field(c, "Sandbox-Provider", getenv("SANDBOX_PROVIDER"));
    status = call_connect(c);
    if (!status)
        status = call_request(c, &q);
    if (status)
        return status;
    if (http_client_send(&c->client, &q, &e) < 0 || http_client_head(&c->client, &c->head, &e) < 0)
        return call_failed(c, &e);
    if (c->head->status == SWITCHED)
        return 0;
    if (c->head->status >= 400)
        return call_problem(c);
    (void)err_set(&e, ERR_UNSUPPORTED, "the daemon does not speak MCP; is it an older one?");
    return call_failed(c, &e);
}

static void set_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Each stream closes its own copy of the connection. */
static int copy_of(const struct call *c)
{
    return fcntl(c->client.fd, F_DUPFD_CLOEXEC, 3);
}

/* Both ways until the client is gone, which ends the session, or the daemon is. */
static int relay(struct call *c)
{
    static char in_room[STREAM_BUFFER], out_room[STREAM_BUFFER];
    struct stream in, out;
    struct pollfd waits[2];
    bool left;
    struct err e;

    set_nonblocking(c->client.fd);
    stream_init(&in, STDIN_FILENO, copy_of(c), false, in_room);
    stream_init(&out, copy_of(c), STDOUT_FILENO, true, out_room);
    while (stream_open(&in) && stream_open(&out)) {
        stream_poll(&in, &waits[0]);
        stream_poll(&out, &waits[1]);
        if (poll(waits, 2, -1) < 0 && errno != EINTR)
            break;
        if (waits[0].revents)
            stream_move(&in);
        if (waits[1].revents)
            stream_move(&out);
    }
    left = !stream_open(&in) && !in.error;
    stream_close(&in);
    stream_close(&out);
    if (left)
        return 0;
    (void)err_set(&e, ERR_UPSTREAM, "the daemon has closed the connection");
    return call_failed(c, &e);
}

static int serve(const struct verb *v, const struct common *common)
{
    AUTO(call_done) struct call c;
    int status;

    call_init(&c, v, common, "GET");
    status = open_lines(&c);
    return status ? status : relay(&c);
}

static int run(const struct verb *v, int argc, char **argv)
{
    struct mcp_options o = { 0 };
    int status;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    signal(SIGPIPE, SIG_IGN);
    return serve(v, &o.common);
}

const struct verb verb_mcp = {
    .name = "mcp",
    .arguments = "",
    .summary = "serve the Model Context Protocol on stdin and stdout",
    .text =
        "For the configuration of a program that speaks MCP: its tools make sandboxes, run\n"
        "commands in them, and read and write their files. What was made goes when the program\n"
        "closes our stdin. $SANDBOX_PROVIDER names who is to make sandboxes, if it matters.\n"
        "\n"
        "  { \"mcpServers\": { \"sandboxer\": { \"command\": \"sandboxer\", \"args\": [\"mcp\"] } "
        "} }\n",
    .run = run,
    .flags = VERB_REMOTE,
};
