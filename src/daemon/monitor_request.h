/* SPDX-License-Identifier: Apache-2.0 */
/* A request of the control plane to the monitor: one fixed layout, checked completely. */
#ifndef DAEMON_MONITOR_REQUEST_H
#define DAEMON_MONITOR_REQUEST_H

#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "lib/gate/gate.h"
#include "engine/runtime/launcher.h"

/* A request for a program comes with the socket that the program serves; the control plane uses the
 * other end at once. The answer is the result of the start. */
enum monitor_kind {
    MONITOR_LAUNCHER = 1, /* sandboxer-launch */
    MONITOR_HEADERS,      /* answered with the content of hub.headers_file, in a memfd */
    MONITOR_EGRESS,       /* an egress worker */
    MONITOR_SYNC,         /* not answered: the result goes to the report */
    MONITOR_END_EGRESS,   /* not answered: kills a worker */
    MONITOR_LAYER_WORKER, /* a layer worker of layers */
    MONITOR_CERTIFICATE,  /* answered with the domain's certificate and key, as a file in memory */
    MONITOR_GRANT,        /* grants host files to a sandbox; the client's socket comes with it */
    MONITOR_CHECK,        /* whether the granted directory can still be opened */
    MONITOR_REMOVE_GRANT, /* not answered: removes the grants of a sandbox */
    MONITOR_FETCH,        /* the fetch process */
    MONITOR_END_FETCH,    /* not answered: kills a fetch process */
    MONITOR_PLACES, /* replaces the addresses, not public, that an egress worker may connect to */
    MONITOR_MOUNTS, /* answered with the files of a sandbox's mounts, in a socket for a launcher
                       (engine/runtime/granted.h) */
    MONITOR_KIND_COUNT_,
};

/* Descriptors of MONITOR_SYNC, in this order; the bits of `has` list the optional ones behind
 * them. */
enum {
    MONITOR_FD_REPORT, /* a pipe, for frames of engine/sync/report.h */
    MONITOR_FD_TAR,
    MONITOR_FD_MANIFEST_OUT,
    MONITOR_FDS_LEAST,
};
enum ask_has {
    MONITOR_HAS_MANIFEST_IN = 1 << 0,
    MONITOR_HAS_CLIENT = 1 << 1, /* the connection of the client that accepts what is held back */
    MONITOR_HAS_ACCEPT =
        1 << 2, /* a file in memory: the paths that the client accepts, NUL-terminated */
    MONITOR_HAS_ALL_ = (1 << 3) - 1,
};
enum { MONITOR_FDS_MAX = MONITOR_FDS_LEAST + 3 };

enum ask_grant {
    MONITOR_GRANT_NAMED = 1, /* a path of a request; the descriptor is the client's connection */
    MONITOR_GRANT_HANDED,    /* the descriptor is what the client made with lib/ipc/handover.h */
};

struct monitor_request {
    uint64_t id; /* of the request; the answer has the same */
    uint32_t kind;
    uint32_t receive;     /* MIRROR: sandbox to host; GRANT: that it may be */
    uint32_t flags;       /* MIRROR: enum sync_flag */
    uint32_t has;         /* MIRROR: enum ask_has */
    uint32_t grant;       /* GRANT: enum ask_grant */
    uint32_t root;        /* GRANT: position of a configured root, from 1; 0: path is absolute */
    uint32_t dry;         /* GRANT: it is only checked, and nothing recorded */
    uint32_t workspace;   /* GRANT: it is about a workspace, … */
    uint32_t mounts;      /* … and about so many mounts; a client hands these over … */
    uint32_t writable;    /* … and a bit for each says that it may be written to */
    char sandbox[ID_MAX]; /* GRANT, CHECK, FORGET, MIRROR, MOUNTS */
    char path[1024];      /* GRANT */
    char top[64];         /* MIRROR */
    uint64_t worker;      /* END_EGRESS, END_FETCH, PLACES: the id of the request that started it */
};

struct monitor_answer {
    uint64_t id;
    int32_t r;
    struct err err;
    /* The process that worked on the request was given up and has not ended: another answer
     * follows when it has. */
    uint32_t lingers;
};

/* How long the monitor may work on a request before it gives it up. */
int64_t monitor_request_deadline_ns(void);

int monitor_request_check(const struct monitor_request *a, struct err *e);
/* The socket that a program is to serve. */
int monitor_request_check_socket(int fd, struct err *e);
/* The stream, the new manifest, and the old one unless it is -1: of the kinds that they must be. */
int monitor_request_check_fds(int tar, int manifest_out, int manifest_in, struct err *e);

/* PLACES comes with a sealed file in memory, which holds an array of struct gate_place. Reads it;
 * `ret` has room for GATE_PLACES_MAX. */
int monitor_request_read_places(int fd, struct gate_place *ret, size_t *ret_n, struct err *e);
int monitor_request_make_places(const struct gate_place *list, size_t n, int *ret, struct err *e);

/* Names a host directory as the monitor takes it. -ERR_DENIED if it is below no root. */
int monitor_request_name_dir(struct monitor_request *a, const struct launcher_options *o,
                             const char *path, struct err *e);

#endif
