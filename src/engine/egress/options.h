/* The command line of sandboxer-egress. */
#ifndef EGRESS_OPTIONS_H
#define EGRESS_OPTIONS_H

#include "egress/egress.h"

struct egress_options {
    bool standalone;
    int worker; /* -1, or the control plane's socket */
    struct address listen;
    uint16_t port;
    bool anywhere;              /* may listen on an address that others can reach */
    const char *policy, *audit; /* files; NULL: none */
    bool retain;                /* a policy that cannot be read leaves the old one in force */
    struct dns_server servers[DNS_SERVERS_MAX];
    bool verify_log;                                   /* the log on stdin is checked */
    const char *check, *explain;                       /* a policy to try; NULL: serve */
    const char *to, *method, *path, *upgrade, *binary; /* what to explain; NULL: not said */
    size_t n_servers;                                  /* 0: those of /etc/resolv.conf */
    struct upstream upstream;
};

/* False: exit with *ret_status; help and complaints are printed. */
bool options_read(int argc, char **argv, struct egress_options *ret, int *ret_status);

/* Fills in the resolver and the way out. Reads /etc/resolv.conf if no server is named. */
int options_apply(const struct egress_options *o, struct loop *l, struct egress *ret,
                  struct err *e);

#endif
