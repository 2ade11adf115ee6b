/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of sandboxer-egress. */
#ifndef ENGINE_EGRESS_OPTIONS_H
#define ENGINE_EGRESS_OPTIONS_H

#include "engine/egress/egress.h"

struct egress_options {
    bool standalone;
    int worker; /* -1, or the control plane's socket */
    struct address listen;
    uint16_t port;
    bool anywhere;              /* may listen on an address that other machines can reach */
    const char *policy, *audit; /* files; NULL: none */
    bool retain;                /* an invalid new policy leaves the old one in force */
    struct dns_server servers[DNS_SERVERS_MAX];
    bool verify_log;             /* verify the log on stdin */
    bool learn;                  /* propose a policy from the log on stdin */
    const char *check, *explain; /* policy to check or explain; NULL: serve */
    /* the question to explain; NULL: not given */
    const char *to, *method, *path, *upgrade, *binary;
    size_t n_servers; /* 0: those of /etc/resolv.conf */
    struct upstream upstream;
};

/* Returns false to exit with *ret_status; help or the error has been printed. */
bool options_read(int argc, char **argv, struct egress_options *ret, int *ret_status);

/* Sets the resolver and the upstream proxy. Reads /etc/resolv.conf if no server is given. */
int options_apply(const struct egress_options *o, struct loop *l, struct egress_state *ret,
                  struct err *e);

#endif
