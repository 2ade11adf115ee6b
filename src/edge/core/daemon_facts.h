/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon that serves the API: what its process knows about itself, for GET /v1/daemon. */
#ifndef EDGE_CORE_DAEMON_FACTS_H
#define EDGE_CORE_DAEMON_FACTS_H

#include <sys/types.h>

#include "lib/json/bind.h"

/* Who started the daemon, which is also who ends it. */
enum daemon_starter {
    STARTED_BY_HAND,    /* a person or a program of theirs, with options that only they know */
    STARTED_ON_DEMAND,  /* the command line, for a request */
    STARTED_BY_SYSTEMD, /* a unit */
};

struct daemon_facts {
    enum daemon_starter starter;
    int64_t started_ns;         /* wall clock */
    pid_t supervisor;           /* the process that a signal ends it with */
    const char *state;          /* directory */
    const char *socket;         /* path; "": inherited */
    const char *log;            /* file; NULL: stderr goes elsewhere */
    const char *driver, *why;   /* of storage */
    const char *listen_option;  /* TCP address of its command line; NULL: none */
    struct json_strs listen;    /* "unix:/run/…", "http://127.0.0.1:7700" */
    int64_t idle_exit_ns;       /* after so long without use it ends; 0: it does not */
    void (*reload)(void *user); /* the files that a SIGHUP reads again, profiles and policy apart */
    void *user;
};

#endif
