/* SPDX-License-Identifier: Apache-2.0 */
/* A DNS server on loopback, on the test's own loop, that answers as a script says, also wrongly. */
#ifndef TESTS_DNS_SERVING_H
#define TESTS_DNS_SERVING_H

#include <netinet/in.h>

#include "base/buf.h"
#include "lib/dns/resolver.h"

struct serving;

/* Answers with serving_send(), any number of times. */
typedef void serving_fn(struct serving *s, const struct dns_query *q);

enum { SERVING_CONNECTIONS = 8 };

struct serving {
    struct loop *loop;
    serving_fn *script;
    struct dns_server at;
    unsigned asked, asked_tcp;
    uint16_t ids[16], ports[16]; /* of the questions over UDP */
    bool is_tcp;                 /* how the question at hand came */
    int fd;                      /* where it came */
    struct sockaddr_in from;

    struct loop_fd udp, listener;
    struct serving_connection {
        struct serving *serving;
        struct loop_fd fd;
        struct buf in;
    } connections[SERVING_CONNECTIONS];
    size_t n;
};

void serving_start(struct serving *s, struct loop *l, serving_fn *script);
void serving_stop(struct serving *s);

void serving_send(struct serving *s, const void *message, size_t n); /* over TCP with its length */
void serving_send_raw(struct serving *s, const void *bytes, size_t n);

/* An answer of rcode with one address of the family that was asked for. */
void serving_answer(struct serving *s, const struct dns_query *q, enum dns_rcode rcode);
size_t serving_make(const struct dns_query *q, uint8_t out[static DNS_UDP_MIN]);

#endif
