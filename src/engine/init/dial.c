/* SPDX-License-Identifier: Apache-2.0 */
/* Makes connections to the sandbox's own ports for clients outside. On loopback, connect() succeeds
 * or fails at once, or waits for a listener whose queue is full: PID 1 does not wait, but passes
 * the socket on as it is. */
#include "engine/init/init.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"

static int connect_loopback(int fd, const struct control_dial *asked)
{
    const struct sockaddr_in v4 = { .sin_family = AF_INET,
                                    .sin_port = htons(asked->port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
                                     .sin6_port = htons(asked->port),
                                     .sin6_addr = IN6ADDR_LOOPBACK_INIT };

    return asked->family == 4 ? connect(fd, (const struct sockaddr *)&v4, sizeof v4)
                              : connect(fd, (const struct sockaddr *)&v6, sizeof v6);
}

static int dial_loopback(const struct control_dial *asked, struct err *e)
{
    AUTO_CLOSE int fd = socket(asked->family == 4 ? AF_INET : AF_INET6,
                               SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return err_sys(e, "creating a socket in the sandbox");
    if (connect_loopback(fd, asked) < 0 && errno != EINPROGRESS)
        return err_sys(e, "connecting to port %u of the sandbox", asked->port);
    return take_fd(&fd);
}

static int send_dialled_socket(int conn, const struct control_one *packed)
{
    const struct control_dial asked = { .head = packed->head,
                                        .port = (uint16_t)packed->proc,
                                        .family = (uint16_t)(packed->proc >> 16) };
    struct control_head m;
    struct err e;
    AUTO_CLOSE int fd = dial_loopback(&asked, &e);

    if (fd < 0) {
        conns_fail(conn, asked.head.tag, "dial", &e);
        return 1;
    }
    control_fill(&m, CONTROL_DIALLED, asked.head.tag, sizeof m);
    return conns_send(conn, &m, sizeof m, &fd, 1);
}

void dial_serve(int conn, const struct control_dial *asked)
{
    /* the form in which a request waits for room in its connection's queue */
    const struct control_one packed = { .head = asked->head,
                                        .proc = asked->port | (uint32_t)asked->family << 16 };

    conns_answer_by(conn, send_dialled_socket, &packed);
}
