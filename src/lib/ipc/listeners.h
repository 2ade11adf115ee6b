/* The network boundary of a sandbox with egress (PLAN_EGRESS), as both its ends see it.
 *
 * A sandbox's network namespace has loopback and nothing else. The launcher makes every address
 * deliverable there (`local default dev lo`), loads one nftables table (runtime/rules.h), and opens
 * these sockets inside, before PID 1 runs. There is no packet path to the host: bytes leave only
 * because an egress worker reads them from an accepted socket and dials out itself. Which socket
 * something arrived on is the sandbox's identity; nothing the workload says can forge it.
 *
 * Who holds them. PID 1 does, close-on-exec, for exactly as long as the sandbox lives: so nobody
 * inside can take the ports when a worker dies, and a new worker, or a new daemon after a crash,
 * gets them with CONTROL_LISTENERS (ipc/control.h) over any control connection. The launcher keeps
 * none. With no worker the network is dead: connections wait in the backlog.
 *
 * What a worker must know of each:
 *
 *   PROXY     TCP on 127.0.0.1:3128 and [::1]:3128, meant to be reached by HTTP_PROXY and the like.
 *   CAPTURE   Every TCP connection to an address that is not loopback (and no port 53) arrives
 *             here, whatever its port: getsockname() of the accepted socket is the destination the
 *             program asked for, in both families. The socket's own address (127.0.0.1 or ::1,
 *             port 3129) as a destination is a connection straight to the listener: the rules reset
 *             those, and a worker that sees one all the same must refuse it. The same holds for
 *             ports of 127.0.0.1 and ::1 that are the host's (struct listeners_taken).
 *   DNS       UDP and TCP port 53 of every address, loopback included. A UDP answer must leave from
 *             the address that was asked: recvmsg() gives it as control data (IP_PKTINFO,
 *             IPV6_PKTINFO are on), and sendmsg() with the very same control data is all it takes.
 *             For TCP getsockname() names the server asked.
 *   REJECTS   NFLOG group 1: the first bytes of packets that the rules refused (UDP to other ports,
 *             ICMP, SCTP, anything), at most 10 a second. What was not read in time is lost, and
 *             recv() says so with ENOBUFS: go on reading.
 *   SOCKETS   sock_diag, to find the inode and uid of a connection's other end.
 *
 * None of them blocks; accepted sockets inherit the congestion control that is cheap on loopback.
 * The descriptors are shared, not copied: two workers reading one listener share its connections.
 * Sending on the netlink ones changes nothing in the namespace: the kernel asks for a capability of
 * the sender over it, which neither a worker nor PID 1 has.
 */
#ifndef IPC_LISTENERS_H
#define IPC_LISTENERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ipc/channel.h"

/* Addresses inside, for environment variables and /etc/resolv.conf. */
#define LISTENERS_PROXY_URL "http://127.0.0.1:3128"
#define LISTENERS_NO_PROXY  "localhost,127.0.0.1,::1"
#define LISTENERS_RESOLVER  "127.0.0.1"

enum {
    LISTENERS_PROXY_PORT = 3128,
    LISTENERS_CAPTURE_PORT = 3129,
    LISTENERS_DNS_PORT = 53,
    LISTENERS_LOG_GROUP = 1,
    LISTENERS_LOG_BYTES = 128, /* of each rejected packet: its headers */
};

/* Slots, in the order in which descriptors travel. A message that carries them has a mask of those
 * that are there: the IPv6 ones are not where the kernel has no IPv6, SOCKETS not where it has no
 * sock_diag; the others always are. */
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
    int fd[LISTENER_COUNT_]; /* -1: not there */
};

/* Ports of the sandbox's loopback that lead to the loopback of the host, by family: programs inside
 * connect to 127.0.0.1 and reach what the policy grants there. A list ends with a 0 or is full. */
enum { LISTENERS_TAKEN_MAX = 8 };
struct listeners_taken {
    uint16_t v4[LISTENERS_TAKEN_MAX], v6[LISTENERS_TAKEN_MAX];
};

/* Adds a port, once. Those of the listeners themselves stay the sandbox's, and so does what does
 * not fit: such a port is reached by the proxy alone, or by the host's name. */
void listeners_take_port(struct listeners_taken *t, bool v6, uint16_t port);
/* Whether no port is among them that cannot be taken. */
bool listeners_taken_valid(const struct listeners_taken *t);

void listeners_init(struct listeners *l);
void listeners_done(struct listeners *l);
struct listeners take_listeners(struct listeners *l); /* l has none any more */

/* For sending: the descriptors that are there, in order, and their mask. They stay l's. */
size_t listeners_pack(const struct listeners *l, int ret_fds[static LISTENER_COUNT_],
                      uint32_t *ret_slots);

/* Takes over all descriptors that came with a message, and checks that each is the kind of socket
 * its slot asks for and that the necessary ones are there. On failure `fds` has them still. */
int listeners_take(struct ipc_fds *fds, uint32_t slots, struct listeners *ret, struct err *e);

#endif
