/* SPDX-License-Identifier: Apache-2.0 */
/* The packet rules of a sandbox with egress: one table, loaded as one transaction.
 *
 *     table inet sandboxer {
 *         chain capture {
 *             type filter hook prerouting priority mangle; policy accept;
 *             ip daddr 127.0.0.1 tcp dport PORT tproxy to :3129       each port of the host
 *             ip6 daddr ::1 tcp dport PORT tproxy to :3129
 *             ip daddr 127.0.0.0/8 return
 *             ip6 daddr ::1 return
 *             tcp dport 53 return
 *             meta l4proto tcp tproxy to :3129
 *         }
 *         chain guard {
 *             type filter hook output priority filter; policy drop;
 *             ip daddr 127.0.0.1 tcp dport 3129 reject with tcp reset
 *             ip6 daddr ::1 tcp dport 3129 reject with tcp reset
 *             ip daddr 127.0.0.0/8 accept
 *             ip6 daddr ::1 accept
 *             meta l4proto tcp accept
 *             udp dport 53 accept
 *             udp sport 53 accept
 *             limit rate 10/second burst 20 packets log prefix "egress" group 1 snaplen 128
 *         }
 *     }
 *
 * Every packet of a program passes `guard` first. A dropped packet fails in the call that sent it
 * (EPERM), immediately and for every protocol, without an answer on the wire. TCP continues to
 * `capture`, which directs packets of no connection to the capture listener: without address
 * translation and without connection tracking, which would cost time for each packet of the
 * sandbox's own loopback traffic, and unaccounted kernel memory. Port 53 needs no capture: the DNS
 * listeners are bound to it on every address. Programs cannot send from it: it is a privileged port
 * of a namespace that the sandbox does not own. */
#ifndef ENGINE_RUNTIME_RULES_H
#define ENGINE_RUNTIME_RULES_H

#include "base/err.h"
#include "lib/ipc/listeners.h"
#include "engine/runtime/netlink.h"

/* taken NULL: no loopback port belongs to the host. */
void rules_build(struct netlink *m, const struct listeners_taken *taken);
/* Loads the rules into the current network namespace. -ERR_UNSUPPORTED if the kernel lacks a part
 * of nf_tables. */
int rules_load(const struct listeners_taken *taken, struct err *e);

#endif
