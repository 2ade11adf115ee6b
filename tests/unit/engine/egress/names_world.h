/* SPDX-License-Identifier: Apache-2.0 */
/* A box with policy DNS on loopback, a client in front of it and a recording DNS server behind it,
 * all on one loop. */
#ifndef TESTS_EGRESS_NAMES_WORLD_H
#define TESTS_EGRESS_NAMES_WORLD_H

#include "engine/egress/adapters/adapters.h"
#include "unit/lib/dns/serving.h"
#include "unit/engine/egress/records.h"

/* The server's answer for a name. */
struct served {
    const char *name;
    enum dns_rcode rcode;
    uint32_t ttl;
    const char *addresses[4];
    const char *alias; /* the addresses are those of this name */
};

struct world {
    struct loop loop;
    struct egress_state egress;
    struct egress_box box;
    struct dns_adapter *dns;
    struct serving server; /* .asked: two questions a lookup, one a family */
    struct records records;
    const struct served *served; /* ends with a NULL name */
    bool silent;                 /* the server does not answer */
    uint16_t udp_port, tcp_port;
};
extern struct world world;

void world_start(const char *policy, const struct served *served);
/* The same with these listeners, which are taken over. */
void world_start_on(struct listeners *l, const char *policy, const struct served *served);
void world_stop(void);
void world_set_policy(const char *policy, uint64_t generation); /* NULL: none */
void world_run(int64_t ns);

struct reply {
    size_t n; /* 0: nothing came */
    uint8_t bytes[1024];
    enum dns_rcode rcode;
    size_t answers;
    struct address address; /* the first */
    uint32_t ttl;
};

/* A question as it goes over the wire; `name` may be in any case. */
size_t make_question(const char *name, uint16_t type, uint8_t out[static DNS_QUERY_MAX]);
struct reply read_reply(const void *bytes, size_t n);

int world_client(const char *to); /* a UDP socket that is connected to the box's DNS at `to` */
struct reply ask_with(int fd, const char *name, uint16_t type);
struct reply ask(const char *name, uint16_t type);

#endif
