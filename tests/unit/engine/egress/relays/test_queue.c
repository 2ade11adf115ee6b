/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/relays/queue.h"

#include <sys/socket.h>
#include <unistd.h>

#include "harness/tap.h"

static void pair(int fds[2])
{
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
}

TEST(a_queue_holds_nothing_when_all_is_sent)
{
    struct queue q;
    int fds[2];
    char in[8];

    pair(fds);
    q = (struct queue){ .bytes = BUF_INIT(100) };
    CHECK_INT(queue_send(&q, fds[0]), 0);
    CHECK_INT(buf_add(&q.bytes, STR("hello")), 0);
    CHECK_INT(queue_left(&q), 5);
    CHECK_INT(queue_send(&q, fds[0]), 5);
    CHECK_INT(queue_left(&q), 0);
    CHECK(!q.bytes.p);
    CHECK_INT(recv(fds[1], in, sizeof(in), 0), 5);
}

TEST(a_queue_keeps_what_the_socket_does_not_take)
{
    enum { ALL = 4 << 20 };
    struct queue q;
    size_t got = 0;
    int fds[2];
    char *at, piece[65536];

    pair(fds);
    q = (struct queue){ .bytes = BUF_INIT(ALL) };
    CHECK_INT(buf_room(&q.bytes, ALL, &at), 0);
    memset(at, 'x', ALL);
    buf_grew(&q.bytes, ALL);
    while (got < ALL) {
        ssize_t n;

        CHECK(queue_send(&q, fds[0]) >= 0);
        while ((n = recv(fds[1], piece, sizeof(piece), 0)) > 0)
            got += (size_t)n;
        CHECK(got + queue_left(&q) <= ALL);
    }
    CHECK_INT(got, ALL);
    CHECK_INT(queue_left(&q), 0);
}

TEST(a_queue_says_that_the_peer_is_gone)
{
    struct queue q;
    int fds[2];

    pair(fds);
    close(fds[1]);
    q = (struct queue){ .bytes = BUF_INIT(100) };
    CHECK_INT(buf_add(&q.bytes, STR("hello")), 0);
    CHECK_INT(queue_send(&q, fds[0]), -ERR_UPSTREAM);
    queue_done(&q);
    CHECK_INT(queue_left(&q), 0);
}
