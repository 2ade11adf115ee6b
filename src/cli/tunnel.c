/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "base/own.h"
#include "cli/stream.h"
#include "base/io.h"

#define PORT_PROTOCOL "sandboxer-tcp" /* edge/rest/ports.c */

enum { SWITCHED = 101 };

/* One descriptor is a socket, for both directions; three are as those of a program. */
static int take_connection(struct tunnel *t)
{
    int fds[HTTP_CLIENT_FDS_MAX];
    struct err e;
    size_t n;

    if (http_client_await_fds(&t->call.client, &e) < 0)
        return api_call_failed(&t->call, &e);
    n = http_client_take_fds(&t->call.client, fds, COUNT_OF(fds));
    if (n != 1 && n != 3) {
        for (size_t i = 0; i < n; i++)
            close(fds[i]);
        return verb_failed(t->call.verb, "the daemon has not handed the connection over");
    }
    t->to = fds[0];
    t->from = n == 3 ? fds[1] : fcntl(fds[0], F_DUPFD_CLOEXEC, 3);
    t->said = n == 3 ? fds[2] : -1;
    t->direct = true;
    return 0;
}

int tunnel_upgrade(struct tunnel *t, const char *protocol)
{
    int status;

    t->to = t->from = t->said = -1;
    t->direct = false;
    api_call_field(&t->call, "Connection", "Upgrade");
    api_call_field(&t->call, "Upgrade", protocol);
    status = api_call_open(&t->call);
    if (status)
        return status;
    if (t->call.head->status != SWITCHED)
        return verb_failed(t->call.verb, "the daemon cannot do this; is it an older one?");
    if (!t->call.contact.place.tcp)
        return take_connection(t);
    t->to = fcntl(t->call.client.fd, F_DUPFD_CLOEXEC, 3);
    t->from = fcntl(t->call.client.fd, F_DUPFD_CLOEXEC, 3);
    return 0;
}

int tunnel_open(struct tunnel *t, const struct verb *v, const struct common *common,
                const char *sandbox, const char *port)
{
    api_call_init(&t->call, v, common, "GET");
    api_call_path(&t->call, "/v1/sandboxes/%s/ports/%s", sandbox, port);
    return tunnel_upgrade(t, PORT_PROTOCOL);
}

void tunnel_done(struct tunnel *t)
{
    drop_fd(&t->to);
    drop_fd(&t->from);
    drop_fd(&t->said);
    api_call_done(&t->call);
}

static int duplicate_nonblocking(int fd)
{
    if (fd < 0)
        return -1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

void tunnel_relay(struct tunnel *t, int from, int to)
{
    static char rooms[3][STREAM_BUFFER];
    enum { IN, OUT, SAID, N };
    struct stream streams[N];
    struct pollfd waits[N];
    struct str piece; /* that arrived with the response head, when the daemon copies */

    while (!t->direct && http_client_pending(&t->call.client) &&
           http_client_read(&t->call.client, &piece, NULL) > 0)
        (void)write_all(to, piece, NULL);
    stream_init(&streams[IN], from, duplicate_nonblocking(t->to), false, rooms[IN]);
    stream_init(&streams[OUT], duplicate_nonblocking(t->from), to, true, rooms[OUT]);
    stream_init(&streams[SAID], duplicate_nonblocking(t->said), STDERR_FILENO, true, rooms[SAID]);
    while (stream_open(&streams[OUT])) {
        for (int i = 0; i < N; i++)
            stream_poll(&streams[i], &waits[i]);
        if (poll(waits, N, -1) < 0 && errno != EINTR)
            break;
        for (int i = 0; i < N; i++)
            if (waits[i].revents)
                stream_move(&streams[i]);
        if (!stream_open(&streams[IN]) && t->direct && t->to >= 0) {
            /* Where the daemon copies, it would take an end of file for our end. */
            shutdown(t->to, SHUT_WR);
            drop_fd(&t->to);
        }
    }
    for (int i = 0; i < N; i++)
        stream_close(&streams[i]);
}
