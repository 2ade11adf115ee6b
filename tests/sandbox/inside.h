/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs of `inside` that live in files of their own. */
#ifndef TESTS_SANDBOX_INSIDE_H
#define TESTS_SANDBOX_INSIDE_H

/* inside_network.c; each prints one line per thing tried, a number below zero for an errno. */
int net_ask(char **argv);      /* tcp|udp ADDRESS PORT SOURCE: sends "ask", prints the answer */
int net_send(char **argv);     /* ADDRESS PORT: one datagram; says whether that took long */
int net_sockets(char **argv);  /* what kinds of socket can be made */
int net_loopback(char **argv); /* TCP and UDP with oneself, on every loopback address */
int net_take(char **argv);     /* the ports of the listeners */
int net_change(char **argv);   /* routes, links, addresses, rules, logs */

/* inside_hold.c: WAY N. Says the inode number of a socket and holds it until its stdin ends. */
int hold(char **argv);

#endif
