/* SPDX-License-Identifier: Apache-2.0 */
/* Network settings of E2B clients as JSON. */
#ifndef EDGE_E2B_NETWORK_H
#define EDGE_E2B_NETWORK_H

#include "edge/core/egress_settings.h"

struct json_writer;

struct e2b_network {
    struct egress_settings egress;
    const struct json *rules, *proxy, *mask, *https_ports;
    bool public_traffic;
};

enum { E2B_NETWORK_FIELD_COUNT = 8 };
extern const struct json_field e2b_network_fields[E2B_NETWORK_FIELD_COUNT];

/* Rejects settings that are not supported. */
int e2b_network_check(const struct e2b_network *n, struct err *e);
/* Writes the policy in force of a sandbox, as members of an object. */
void e2b_network_write(struct json_writer *w, const struct sandbox *s);

#endif
