/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane as a process: loop, control, interface, signals, an end in good order. */
#ifndef DAEMON_SERVE_H
#define DAEMON_SERVE_H

#include <sys/types.h>

#include "domain/config/config.h"
#include "control/control.h"
#include "daemon/listen.h"
#include "edge/api.h"
#include "engine/runtime/launcher.h"

struct serve_setup {
    const struct config *config;
    struct str chain, key; /* the domain's certificate, in PEM; empty: none */
    struct doors *doors;
    int state;                        /* the state directory */
    int monitor;                      /* socket to the monitor */
    int ready_fd;                     /* -1: no process waits */
    uid_t owner;                      /* the user who started the daemon */
    struct launcher_options launcher; /* as the monitor starts them */
    struct json_strs profiles;        /* directories */
    struct control_storage storage;   /* where sandboxes write to */
    struct keyring *keys;             /* of secrets in the store */
    enum daemon_starter starter;
    const char *listen_option; /* of the command line; NULL: none */
    const char *log;           /* file that stderr is; NULL: none */
};

/* Serves until a signal ends it: the exit status. */
int serve_run(const struct serve_setup *s);

/* Reports to the waiting parent or service manager that the daemon serves (message NULL), or why it
 * cannot. */
void serve_report(int ready_fd, const char *message);

#endif
