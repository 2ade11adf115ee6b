#include "cli/tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "base/own.h"
#include "cli/stream.h"
#include "cli/write.h"

#define PROTOCOL "sandboxer-tcp" /* api/ports.c */

enum { SWITCHED = 101 };

static int take_connection(struct tunnel *t)
{
    int fds[HTTP_CLIENT_FDS_MAX];
    struct err e;
    size_t n;

    if (http_client_await_fds(&t->call.client, &e) < 0)
        return call_failed(&t->call, &e);
    n = http_client_take_fds(&t->call.client, fds, COUNT_OF(fds));
    for (size_t i = 1; i < n; i++)
        close(fds[i]);
    if (n == 0) {
        (void)err_set(&e, ERR_UPSTREAM, "the daemon has not handed the connection over");
        return call_failed(&t->call, &e);
    }
    t->fd = fds[0];
    t->direct = true;
    return 0;
}

int tunnel_open(struct tunnel *t, const struct verb *v, const struct common *common,
                const char *sandbox, const char *port)
{
    struct http_client_request q;
    struct err e;
    int status;

    t->fd = -1;
    t->direct = false;
    call_init(&t->call, v, common, "GET");
    call_path(&t->call, "/v1/sandboxes/%s/ports/%s", sandbox, port);
    call_field(&t->call, "Connection", "Upgrade");
    call_field(&t->call, "Upgrade", PROTOCOL);
    status = call_connect(&t->call);
    if (!status)
        status = call_request(&t->call, &q);
    if (status)
        return status;
    if (http_client_send(&t->call.client, &q, &e) < 0 ||
        http_client_head(&t->call.client, &t->call.head, &e) < 0)
        return call_failed(&t->call, &e);
    if (t->call.head->status >= 400)
        return call_problem(&t->call);
    if (t->call.head->status != SWITCHED) {
        (void)err_set(&e, ERR_UNSUPPORTED, "the daemon cannot do this; is it an older one?");
        return call_failed(&t->call, &e);
    }
    if (!t->call.contact.place.tcp)
        return take_connection(t);
    t->fd = fcntl(t->call.client.fd, F_DUPFD_CLOEXEC, 3);
    return 0;
}

void tunnel_done(struct tunnel *t)
{
    drop_fd(&t->fd);
    call_done(&t->call);
}

static int prepared(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* What came behind the head, when the daemon copies. */
static void write_rest(struct tunnel *t, int to)
{
    struct str piece;

    while (!t->direct && http_client_pending(&t->call.client) &&
           http_client_read(&t->call.client, &piece, NULL) > 0)
        (void)write_all(to, piece, NULL);
}

void tunnel_relay(struct tunnel *t, int from, int to)
{
    static char in_room[STREAM_BUFFER], out_room[STREAM_BUFFER];
    struct stream in, out;
    struct pollfd waits[2];
    bool told = false;

    write_rest(t, to);
    stream_init(&in, from, prepared(t->fd), false, in_room);
    stream_init(&out, prepared(t->fd), to, true, out_room);
    while (stream_open(&out)) {
        stream_poll(&in, &waits[0]);
        stream_poll(&out, &waits[1]);
        if (poll(waits, 2, -1) < 0 && errno != EINTR)
            break;
        if (waits[0].revents)
            stream_move(&in);
        if (waits[1].revents)
            stream_move(&out);
        if (!stream_open(&in) && !told) {
            told = true;
            if (t->direct)
                shutdown(t->fd, SHUT_WR);
        }
    }
    stream_close(&in);
    stream_close(&out);
}
