/* SPDX-License-Identifier: Apache-2.0 */
/* Network settings of Daytona's clients: everything is blocked except the listed hosts. */
#ifndef EDGE_DAYTONA_NETWORK_H
#define EDGE_DAYTONA_NETWORK_H

#include "edge/core/call.h"
#include "edge/core/egress_settings.h"

struct daytona_network {
    bool block_all;
    const char *addresses, *domains; /* comma-separated */
};

enum { DAYTONA_LIST_MAX = 16 << 10 };

#define DAYTONA_NETWORK_FIELDS(type, member)                                                       \
    { "networkBlockAll", JSON_KIND_BOOL, JSON_AT(type, member.block_all) },                        \
        { "networkAllowList", JSON_KIND_STR, JSON_AT(type, member.addresses),                      \
          .max = DAYTONA_LIST_MAX },                                                               \
    {                                                                                              \
        "domainAllowList", JSON_KIND_STR, JSON_AT(type, member.domains), .max = DAYTONA_LIST_MAX   \
    }

/* Fills a request for a new sandbox, whose profile must be set. */
int daytona_network_fill(struct call *c, const struct daytona_network *n,
                         struct create_request *ret, struct err *e);
/* Converts the settings; lists are on the call's arena. */
int daytona_network_read(struct call *c, const struct daytona_network *n,
                         struct egress_settings *ret, struct err *e);

#endif
