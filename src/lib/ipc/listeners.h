/* SPDX-License-Identifier: Apache-2.0 */
/* The network boundary of a sandbox with egress (PLAN_EGRESS): the sockets between the sandbox and
 * its egress worker.
 *
 * A sandbox's network namespace has only a loopback device. The launcher makes every address
 * deliverable there (`local default dev lo`), loads one nftables table (engine/runtime/rules.h),
 * and opens these sockets inside, before PID 1 runs. There is no packet path to the host: bytes
 * leave only because an egress worker reads them from an accepted socket and dials out itself. The
 * listener on which a connection arrives identifies the sandbox; a workload cannot forge it.
 *
 * Ownership. PID 1 holds the sockets, close-on-exec, for the lifetime of the sandbox: so no process
 * inside can bind the ports when a worker dies, and a new worker, or a new daemon after a crash,
 * gets them with CONTROL_LISTENERS (lib/ipc/control.h) over any control connection. The launcher
 * closes its copies. Without a worker there is no network: connections wait in the backlog.
 *
 * The listeners:
 *
 *   PROXY     TCP on 127.0.0.1:3128 and [::1]:3128, for HTTP_PROXY and similar variables.
 *   CAPTURE   Every TCP connection to an address that is not loopback (except to port 53) arrives
 *             here, with any port: getsockname() of the accepted socket is the program's
 *             destination, in both families. The listener's own address (127.0.0.1 or ::1, port
 *             3129) as a destination is a direct connection to the listener: the rules reset these,
 *             and a worker that sees one must refuse it. The same applies to ports of 127.0.0.1 and
 *             ::1 that lead to the host (struct listeners_taken).
 *   DNS       UDP and TCP port 53 of every address, loopback included. A UDP answer must have the
 *             queried address as its source: recvmsg() returns it as control data (IP_PKTINFO,
 *             IPV6_PKTINFO are on), and sendmsg() with the same control data sets it. For TCP,
 *             getsockname() returns the queried server.
 *   REJECTS   NFLOG group 1: the first bytes of packets that the rules rejected (UDP to other
 *             ports, ICMP, SCTP, and so on), at most 10 per second. Packets that are not read in
 *             time are lost; recv() then fails once with ENOBUFS, and reading can continue.
 *   SOCKETS   sock_diag, to find the inode and uid of a connection's other end.
 *
 * All are non-blocking; accepted sockets inherit a congestion control that is cheap on loopback.
 * The descriptors are shared, not copied: two workers that read one listener share its connections.
 * Sending on the netlink sockets changes nothing in the namespace: the kernel requires a capability
 * over the namespace, which neither a worker nor PID 1 has. */
#ifndef LIB_IPC_LISTENERS_H
#define LIB_IPC_LISTENERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "lib/ipc/channel.h"

/* Addresses inside, for environment variables and /etc/resolv.conf. */
#define LISTENERS_PROXY_URL "http://127.0.0.1:3128"
#define LISTENERS_NO_PROXY  "localhost,127.0.0.1,::1"
#define LISTENERS_RESOLVER  "127.0.0.1"

enum {
    LISTENERS_PROXY_PORT = 3128,
    LISTENERS_CAPTURE_PORT = 3129,
    LISTENERS_DNS_PORT = 53,
    LISTENERS_LOG_GROUP = 1,
    LISTENERS_LOG_BYTES = 128, /* of each rejected packet, enough for its headers */
};

/* Slots, in the order of the descriptors in a message, which has a mask of the slots present: the
 * IPv6 ones are absent if the kernel has no IPv6, SOCKETS is absent if it has no sock_diag; the
 * others are always present. */
enum listener_slot {
    LISTENER_PROXY4,
    LISTENER_PROXY6,
    LISTENER_CAPTURE4,
    LISTENER_CAPTURE6,
    LISTENER_DNS_UDP4,
    LISTENER_DNS_UDP6,
    LISTENER_DNS_TCP4,
    LISTENER_DNS_TCP6,
    LISTENER_REJECTS,
    LISTENER_SOCKETS,
    LISTENER_COUNT_,
};

struct listeners {
    int fd[LISTENER_COUNT_]; /* -1: absent */
};

/* Ports of the sandbox's loopback that lead to the loopback of the host, by family: programs inside
 * connect to 127.0.0.1 and reach the services that the policy allows there. A list ends with a 0 or
 * is full. */
enum { LISTENERS_TAKEN_MAX = 8 };
struct listeners_taken {
    uint16_t v4[LISTENERS_TAKEN_MAX], v6[LISTENERS_TAKEN_MAX];
};

/* Adds a port, unless it is in the list, is a listener's own port, or the list is full. A host's
 * service on another port is reachable only through the proxy, or by the host's name. */
void listeners_take_port(struct listeners_taken *t, bool v6, uint16_t port);
/* False if a list contains a port of a listener. */
bool listeners_taken_valid(const struct listeners_taken *t);

void listeners_init(struct listeners *l);
void listeners_done(struct listeners *l);
struct listeners take_listeners(struct listeners *l); /* l is empty afterwards */

/* For sending: returns the number of descriptors in ret_fds, in order, and their mask. l keeps
 * them. */
size_t listeners_pack(const struct listeners *l, int ret_fds[static LISTENER_COUNT_],
                      uint32_t *ret_slots);

/* Takes ownership of all descriptors of a message. Checks that each is of its slot's kind, and that
 * the required ones are present. On failure `fds` keeps them. */
int listeners_take(struct ipc_fds *fds, uint32_t slots, struct listeners *ret, struct err *e);

#endif
