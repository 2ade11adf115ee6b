/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/adapters/rejects.h"

#include <linux/netlink.h>
#include <stdlib.h>

#include "base/own.h"
#include "engine/egress/adapters/nflog.h"
#include "engine/egress/audit.h"
#include "lib/loop/fd.h"

enum {
    READS_A_BATCH = 16,
    DATAGRAM_MAX = 16 << 10, /* room for several packets: the kernel may batch them */
};

struct rejects {
    struct egress_box *box;
    struct loop_fd source;
};

static void record_rejected_packets(struct rejects *r, struct str datagram)
{
    struct nflog_packet p;

    while (nflog_next(&datagram, &p)) {
        r->box->counters.denied++;
        audit_reject(r->box->audit, p.protocol, &p.from, p.from_port, &p.to, p.to_port);
    }
}

static void on_rejects_readable(struct loop_fd *s, unsigned events)
{
    struct rejects *r = container_of(s, struct rejects, source);
    char datagram[DATAGRAM_MAX];

    for (int i = 0; i < READS_A_BATCH; i++) {
        struct sockaddr_nl from = { 0 };
        socklen_t from_n = sizeof from;
        ssize_t n =
            recvfrom(s->fd, datagram, sizeof datagram, 0, (struct sockaddr *)&from, &from_n);

        if (n < 0 && errno != ENOBUFS && errno != EINTR)
            return;
        if (n > 0 && from.nl_family == AF_NETLINK && from.nl_pid == 0) /* the kernel */
            record_rejected_packets(r, (struct str){ datagram, (size_t)n });
    }
}

int rejects_new(struct egress_box *b, struct rejects **ret, struct err *e)
{
    int fd = b->listeners.fd[LISTENER_REJECTS];
    struct rejects *r = new0(sizeof *r);
    int got = 0;

    r->box = b;
    if (fd >= 0)
        got = loop_fd_start(b->egress->loop, &r->source, fd, LOOP_READ, on_rejects_readable, e);
    if (got < 0) {
        free(r);
        return got;
    }
    *ret = r;
    return 0;
}

void rejects_free(struct rejects *r)
{
    if (!r)
        return;
    loop_fd_stop(&r->source);
    free(r);
}
