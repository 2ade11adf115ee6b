/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor, as the control plane calls it: the part of the daemon that has kept its rights
 * (daemon/monitor.h), behind a table of functions. */
#ifndef CONTROL_PLANE_SUPERVISOR_H
#define CONTROL_PLANE_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "lib/loop/list.h"

struct gate_place;

/* A workspace that a process copies with the rights of the user who granted its directory; the
 * caller keeps the descriptors. */
struct control_sync {
    const char *sandbox; /* whose grant is used */
    bool receive;        /* sandbox to host */
    unsigned flags;      /* enum sync_flag */
    const char *top;
    int tar, manifest_in, manifest_out; /* -1: none */
    int client; /* connection of the client that accepts sensitive names; -1: none */
    int accept; /* a memfd with the accepted paths, NUL-terminated; -1: none */
    int report; /* a pipe for its progress and result, or why it was not started */
};

/* A pending request to the supervisor. Embedded in its owner. `done` is called once, from the loop;
 * *fd, which may be -1, is closed afterwards unless it is taken. With `lingers`, the process that
 * worked on the request was given up and has not ended: `ended`, if it is set, is called when it
 * has, and the request stays until then. */
struct control_request;
typedef void control_request_fn(struct control_request *q, int r, const struct err *e, int *fd);
struct control_request {
    control_request_fn *done;
    void (*ended)(struct control_request *q); /* may be NULL */
    bool lingers;
    struct link link_;
    uint64_t id_;
    int64_t deadline_;
};

/* Files of the host that a client grants to a sandbox: the directory of its workspace, and mounts.
 * The supervisor asks the kernel who the client is: by its connection, or by the socket that it made
 * to hand the files over (lib/ipc/handover.h), which mounts need. Without either, it only checks
 * that the directory of an earlier grant can be opened, or opens the mounts of an earlier grant: the
 * answer has the socket that a launcher takes (backends/backend.h). */
struct control_grant {
    const char *sandbox;
    const char *path; /* of the request: the workspace, or the first mount */
    bool workspace, writable;
    uint32_t mounts, writable_mounts; /* how many; a bit for each that may be written to */
    bool open_mounts;
    bool dry;           /* checks that the client could grant it: nothing is recorded or consumed */
    int client, handed; /* -1: none */
};

/* Descriptors that identify a client; they stay the owner's. */
struct control_client {
    int connection; /* -1: not from a unix socket */
    int handed;     /* -1: no directory was handed over */
};

/* Directories that the supervisor opens at the same time, for grants and checks of grants. */
enum { SUPERVISOR_GRANTS_MAX = 48 };

struct supervisor {
    /* Starts a process that copies a workspace, without waiting for it. */
    int (*mirror)(void *user, const struct control_sync *m, struct err *e);
    /* Grants files, or checks or opens those of a grant; and removes the grants of a sandbox. */
    int (*grant)(void *user, const struct control_grant *g, struct control_request *q,
                 struct err *e);
    void (*cancel)(void *user, struct control_request *q);
    void (*forget_grant)(void *user, const char *sandbox);
    /* A descriptor with the current content of hub.headers_file. */
    int (*headers)(void *user, int *ret, struct err *e);
    /* A connected socket to a new egress worker, and an id for it. The process may not run yet; if
     * it cannot be started, the socket is closed. */
    int (*egress_worker)(void *user, int *ret, uint64_t *ret_id, struct err *e);
    /* Kills a worker that may not exit by itself. */
    void (*end_egress_worker)(void *user, uint64_t id);
    /* Replaces the addresses, besides public ones, that it may connect to (lib/gate/gate.h). NULL:
     * workers are not restricted. */
    int (*egress_places)(void *user, uint64_t id, const struct gate_place *list, size_t n,
                         struct control_request *q, struct err *e);
    /* The same for the fetch process (engine/fetcher/fetcher.h), which makes HTTP requests for the
     * control plane. */
    int (*fetch_process)(void *user, int *ret, uint64_t *ret_id, struct err *e);
    void (*end_fetch_process)(void *user, uint64_t id);
    /* A connected socket to a new layer worker (engine/layers/job.h), likewise: if it cannot be
     * started, DONE has the reason. */
    int (*layer_worker)(void *user, int *ret, struct err *e);
    void *user;
};

/* Where sandboxes write to (engine/storage/driver.h), for status requests. */
struct control_storage {
    const char *driver, *why;
    bool on_disk, limited;
    uint64_t free_min;    /* bytes that layer workers leave free there */
    uint64_t owner_bytes; /* that boxes of one owner may use together; 0: no limit */
};

#endif
