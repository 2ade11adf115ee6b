/* What a run may reach, as its options say it. */
#ifndef CLI_NETWORK_OPTIONS_H
#define CLI_NETWORK_OPTIONS_H

#include "cli/verb.h"

enum { NETWORK_RESOLVERS_MAX = 3 };

struct network_options {
    struct option_list allow;     /* HOST[:PORT] … */
    bool packages;                /* and the hosts of package managers */
    const char *policy;           /* a file, "-" is stdin; NULL: none */
    struct option_list resolvers; /* ADDRESS[:PORT]; none: the host's */
    const char *upstream;         /* a proxy to go through; NULL: none */
    const char *log;              /* a file for the audit events; NULL: none */
    char unknown[128];            /* package managers whose hosts are not known; "" if none */
};

/* Whether there is to be a network. */
bool network_wanted(const struct network_options *o);
/* Whether anything was said about it at all. */
bool network_touched(const struct network_options *o);

/* Adds the hosts of package managers, if asked to; root, whole and env as packages_find() has them.
 * 1, or 0 if there is to be no network; an error if the options do not go together. */
int network_options_complete(struct network_options *o, int root, bool whole,
                             const char *const *env, struct err *e);

#endif
