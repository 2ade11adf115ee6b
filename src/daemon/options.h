/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of sandboxerd. */
#ifndef DAEMON_OPTIONS_H
#define DAEMON_OPTIONS_H

#include <stdbool.h>

struct daemon_options {
    bool foreground, check_config, show_config, default_config, agents, on_demand;
    const char *listen; /* NULL: as configured */
    bool listen_unencrypted;
    const char *config; /* NULL: the usual files */
    int ready_fd;       /* gets one byte when we serve, or a message; -1: none */
};

/* True: continue. False: exit with *ret_status. */
bool daemon_options_read(int argc, char **argv, struct daemon_options *ret, int *ret_status);

#endif
