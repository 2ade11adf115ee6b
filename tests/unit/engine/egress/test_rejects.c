/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/adapters/rejects.h"

#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/egress/audit.h"
#include "harness/tap.h"
#include "unit/engine/egress/records.h"

static struct err e;

/* Only the kernel sends NFLOG messages; those of other senders are ignored. */
TEST(only_the_kernel_is_believed)
{
    static struct records records;
    struct loop loop;
    struct egress_state g = { .loop = &loop };
    struct egress_box b = { .egress = &g };
    struct rejects *r;
    char lie[512] = { 0 };
    int ends[2];

    CHECK_OK(loop_init(&loop, &e), e);
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    listeners_init(&b.listeners);
    b.listeners.fd[LISTENER_REJECTS] = ends[0];
    b.audit = audit_new(&loop, "sbx_test", records_open(&records));
    CHECK_OK(rejects_new(&b, &r, &e), e);
    CHECK(send(ends[1], lie, sizeof lie, 0) == sizeof lie);
    CHECK(loop_run_once(&loop, NS_PER_S, &e) >= 0);
    CHECK_INT(b.counters.denied, 0);
    rejects_free(r);
    audit_free(b.audit);
    listeners_done(&b.listeners);
    close(ends[1]);
    loop_done(&loop);
}

TEST(without_the_socket_there_is_nothing_to_do)
{
    struct loop loop;
    struct egress_state g = { .loop = &loop };
    struct egress_box b = { .egress = &g };
    struct rejects *r;

    CHECK_OK(loop_init(&loop, &e), e);
    listeners_init(&b.listeners);
    CHECK_OK(rejects_new(&b, &r, &e), e);
    rejects_free(r);
    rejects_free(NULL);
    loop_done(&loop);
}
