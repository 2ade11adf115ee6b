/* What Daytona's clients say of a sandbox's network: all of it is closed but what lists name. */
#ifndef API_DAYTONA_NETWORK_H
#define API_DAYTONA_NETWORK_H

#include "api/call.h"
#include "api/e2b/network.h"

struct daytona_network {
    bool block_all;
    const char *addresses, *domains; /* separated by commas */
};

enum { DAYTONA_LIST_MAX = 16 << 10 };

#define DAYTONA_NETWORK_FIELDS(type, member)                                                       \
    { "networkBlockAll", JSON_KIND_BOOL, JSON_AT(type, member.block_all) },                        \
        { "networkAllowList", JSON_KIND_STR, JSON_AT(type, member.addresses),                      \
          .max = DAYTONA_LIST_MAX },                                                               \
    {                                                                                              \
        "domainAllowList", JSON_KIND_STR, JSON_AT(type, member.domains), .max = DAYTONA_LIST_MAX   \
    }

/* Into a request for a new sandbox, which has its profile. */
int daytona_network_fill(struct call *c, const struct daytona_network *n,
                         struct create_request *ret, struct err *e);
/* As E2B's clients would say it; lists are on the call's arena. */
int daytona_network_read(struct call *c, const struct daytona_network *n, struct e2b_network *ret,
                         struct err *e);

#endif
