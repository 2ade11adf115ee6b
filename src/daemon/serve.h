/* The control plane as a process: loop, control, interface, signals, an end in good order. */
#ifndef DAEMON_SERVE_H
#define DAEMON_SERVE_H

#include <sys/types.h>

#include "config/config.h"
#include "control/control.h"
#include "daemon/listen.h"
#include "runtime/launcher.h"

struct serve_setup {
    const struct config *config;
    struct str chain, key; /* the domain's certificate, in PEM; empty: none */
    struct doors *doors;
    int state;                        /* the state directory */
    int warden;                       /* socket to the warden */
    int ready_fd;                     /* -1: nobody waits */
    uid_t owner;                      /* who started us */
    struct launcher_options launcher; /* as the warden starts them */
    struct json_strs profiles;        /* directories */
    struct control_storage storage;   /* where sandboxes write to */
    struct keyring *keys;             /* of secrets in the store */
};

/* Serves until it is asked to end: the exit status. */
int serve_run(const struct serve_setup *s);

/* Tells whoever waits for us that we serve (message NULL), or why not. */
void serve_tell(int ready_fd, const char *message);

#endif
