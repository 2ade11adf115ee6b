/* SPDX-License-Identifier: Apache-2.0 */
#include "serving.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

#include "base/own.h"
#include "harness/tap.h"

static void run_script(struct serving *s, struct str message)
{
    struct dns_query q;
    enum dns_rcode refuse;
    struct err e;

    CHECK_OK(dns_parse_query(message, &q, &refuse, &e), e);
    CHECK(q.recursion_desired);
    s->script(s, &q);
}

static void on_datagram(struct loop_fd *fd, unsigned events)
{
    struct serving *s = container_of(fd, struct serving, udp);
    socklen_t size = sizeof s->from;
    char message[1024];
    ssize_t n = recvfrom(fd->fd, message, sizeof message, 0, (struct sockaddr *)&s->from, &size);

    CHECK(n >= 12);
    if (s->asked < COUNT_OF(s->ids)) {
        s->ids[s->asked] = (uint16_t)((uint8_t)message[0] << 8 | (uint8_t)message[1]);
        s->ports[s->asked] = ntohs(s->from.sin_port);
    }
    s->asked++;
    s->is_tcp = false;
    s->fd = fd->fd;
    run_script(s, (struct str){ message, (size_t)n });
}

static void drop_connection(struct serving_connection *c)
{
    loop_fd_stop(&c->fd);
    drop_fd(&c->fd.fd);
    buf_done(&c->in);
}

static void on_stream(struct loop_fd *fd, unsigned events)
{
    struct serving_connection *c = container_of(fd, struct serving_connection, fd);
    char piece[512];
    ssize_t n = recv(fd->fd, piece, sizeof piece, MSG_DONTWAIT);

    if (n <= 0) {
        drop_connection(c);
        return;
    }
    buf_add(&c->in, (struct str){ piece, (size_t)n });
    if (c->in.n < 2 || c->in.n < 2u + (uint8_t)c->in.p[1])
        return;
    c->serving->asked_tcp++;
    c->serving->is_tcp = true;
    c->serving->fd = fd->fd;
    run_script(c->serving, (struct str){ c->in.p + 2, c->in.n - 2 });
}

static void on_connection(struct loop_fd *fd, unsigned events)
{
    struct serving *s = container_of(fd, struct serving, listener);
    struct serving_connection *c = &s->connections[s->n++];
    int accepted = accept(fd->fd, NULL, NULL);
    struct err e;

    CHECK(accepted >= 0 && s->n < SERVING_CONNECTIONS);
    c->serving = s;
    buf_init(&c->in, 1024);
    CHECK_OK(loop_fd_start(s->loop, &c->fd, accepted, LOOP_READ, on_stream, &e), e);
}

static int bound(int type, uint16_t *port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(*port) };
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0), one = 1;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    CHECK(bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&at, &size) == 0);
    *port = ntohs(at.sin_port);
    return fd;
}

void serving_start(struct serving *s, struct loop *l, serving_fn *script)
{
    uint16_t port = 0;
    int listener, udp;
    struct err e;

    *s = (struct serving){ .loop = l, .script = script };
    listener = bound(SOCK_STREAM, &port);
    udp = bound(SOCK_DGRAM, &port);
    CHECK(listen(listener, 8) == 0);
    s->at = (struct dns_server){ { .bytes = { 127, 0, 0, 1 } }, port };
    CHECK_OK(loop_fd_start(l, &s->listener, listener, LOOP_READ, on_connection, &e), e);
    CHECK_OK(loop_fd_start(l, &s->udp, udp, LOOP_READ, on_datagram, &e), e);
}

void serving_stop(struct serving *s)
{
    for (size_t i = 0; i < s->n; i++)
        drop_connection(&s->connections[i]);
    loop_fd_stop(&s->listener);
    loop_fd_stop(&s->udp);
    drop_fd(&s->listener.fd);
    drop_fd(&s->udp.fd);
}

void serving_send_raw(struct serving *s, const void *bytes, size_t n)
{
    ssize_t sent;

    if (s->is_tcp) {
        sent = send(s->fd, bytes, n, MSG_NOSIGNAL);
        CHECK(sent == (ssize_t)n || errno == EPIPE || errno == ECONNRESET); /* cancelled */
    } else {
        sent = sendto(s->fd, bytes, n, 0, (struct sockaddr *)&s->from, sizeof s->from);
        CHECK(sent == (ssize_t)n);
    }
}

void serving_send(struct serving *s, const void *message, size_t n)
{
    uint8_t head[2] = { (uint8_t)(n >> 8), (uint8_t)n };

    if (s->is_tcp)
        serving_send_raw(s, head, sizeof head);
    serving_send_raw(s, message, n);
}

size_t serving_make(const struct dns_query *q, uint8_t out[static DNS_UDP_MIN])
{
    static const struct address both[] = {
        { .bytes = { 192, 0, 2, 1 } },
        { .v6 = true, .bytes = { 0x20, 1, 0x0d, 0xb8, [15] = 1 } },
    };

    return dns_build_answer(q, DNS_NOERROR, both, COUNT_OF(both), 30, out, DNS_UDP_MIN);
}

void serving_answer(struct serving *s, const struct dns_query *q, enum dns_rcode rcode)
{
    uint8_t out[DNS_UDP_MIN];
    size_t n = rcode == DNS_NOERROR ? serving_make(q, out)
                                    : dns_build_answer(q, rcode, NULL, 0, 0, out, sizeof out);

    serving_send(s, out, n);
}
