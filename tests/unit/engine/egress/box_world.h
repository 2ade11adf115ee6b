/* SPDX-License-Identifier: Apache-2.0 */
/* A box on the test's own loop, a DNS server that answers from a table, and a server to connect to:
 * in a network namespace of the test's own, which has a public address. */
#ifndef TESTS_EGRESS_BOX_WORLD_H
#define TESTS_EGRESS_BOX_WORLD_H

#include "unit/lib/dns/serving.h"
#include "engine/egress/lease.h"

#define WORLD_PUBLIC "93.184.216.34"

enum { WORLD_NAMES_MAX = 8, WORLD_ADDRESSES_MAX = 20 };

struct box_world {
    struct loop loop;
    struct egress_state egress;
    struct egress_box *box;
    struct serving dns;
    int audit; /* read end of the box's audit */
    struct {
        const char *name; /* NULL: end */
        const char *addresses[WORLD_ADDRESSES_MAX];
    } names[WORLD_NAMES_MAX];
    uint32_t ttl; /* of what the server answers */
    uint64_t generation;
};

/* A box with this policy (YAML below network_policies; NULL: none) and without listeners. There is
 * one world a test. */
struct box_world *world_start(const char *policy);
void world_policy(const char *policy); /* another, newer one; NULL: none */
void world_end(void);

/* Runs the loop until *done, or fails. */
void world_run(const bool *done);
void world_turn(void); /* handles ready events, and those of a short time after */

/* How often the text occurs in the audit record so far. */
size_t world_audited(const char *text);

struct address world_address(const char *text);
struct egress_intent world_intent(const char *authority);
/* A lease for an intent, decided by authorize_start(). */
struct lease *world_decide(const struct egress_intent *i);
/* An intent for that port of WORLD_PUBLIC as api.example.com, allowed by a policy that it sets. */
struct egress_intent world_allow(uint16_t port);

int world_listen(uint16_t *ret_port); /* on WORLD_PUBLIC, non-blocking */
/* blocks until a connection arrives; returns a non-blocking descriptor */
int world_accept(int listener);
/* Reads n bytes while the loop runs. */
void world_read(int fd, void *to, size_t n);
/* 0: the end of the stream; -1: a reset; else a byte came. Waits. */
int world_end_of(int fd);
/* Two ends of a TCP connection; `ours` is non-blocking. */
void world_pair(int *ret_client, int *ret_ours);

#endif
