/* SPDX-License-Identifier: Apache-2.0 */
/* The backend contract: the interface between the control plane and a backend of sandboxes.
 *
 * A backend is a row of functions. It makes boxes: a box is one sandbox from the backend's point of
 * view, and belongs to the control plane from box_new() to box_free(). Every call returns at once;
 * results are reported through the box's events, from the loop, never from inside the call, each
 * exactly once. A backend without a feature omits its bit in `can`; the control plane tests the
 * bits, never whether a function is NULL.
 *
 *     provision  → events.provisioned    resources exist; the handle names them after a restart
 *     wait_ready → events.ready          a probe ran inside and answered
 *     adopt      → events.adopted        the same for a box of an earlier run of the daemon
 *     teardown   → events.torn_down      all resources are freed; allowed at any time; cancels a
 *                                        pending `provisioned`
 *     (by itself) → events.gone          the box died; the caller must still call teardown
 *
 * One conformance suite (tests/conformance) runs on every row. */
#ifndef BACKENDS_BACKEND_H
#define BACKENDS_BACKEND_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "lib/ipc/listeners.h"
#include "lib/ipc/start.h"
#include "lib/json/bind.h"
#include "lib/loop/loop.h"
#include "domain/profile/profile.h"
#include "lib/threads/threads.h"

enum {
    BACKEND_HANDLE_MAX = 256,
    BACKEND_OWNER_MAX = 48,
    BACKEND_MOUNTS_MAX = 24,
    BACKEND_STDIO_MAX = 3,
    BACKEND_ANCESTORS_MAX = 16,
};

enum backend_can {
    BACKEND_CAN_EXEC = 1 << 0,
    BACKEND_CAN_FILES = 1 << 1,
    BACKEND_CAN_REATTACH = 1 << 2, /* processes survive the daemon and can be found again */
    BACKEND_CAN_POOL = 1 << 3,     /* boxes can be made in advance, without an owner */
    BACKEND_CAN_MOUNTS = 1 << 4,   /* host directories can be mounted inside */
    BACKEND_CAN_USAGE = 1 << 5,    /* reports resource usage inside */
    BACKEND_CAN_SNAPSHOT = 1 << 6, /* exposes the writable layer, and makes boxes on captured
                                      layers */
    BACKEND_CAN_PAUSE = 1 << 7,    /* boxes can be frozen */
    BACKEND_CAN_EGRESS = 1 << 8,   /* all outgoing traffic passes sockets that an egress worker
                                      serves */
    BACKEND_CAN_DIAL = 1 << 9,     /* connections to ports inside can be made */
    BACKEND_CAN_IMAGES = 1 << 10,  /* boxes can use images of the storage */
    BACKEND_CAN_LEND = 1 << 11,    /* programs can inherit descriptors (`lent`), and be killed with
                                      all descendants (START_WHOLE) */
};

/* Properties by which a caller can choose a backend. */
struct backend_vector {
    /* bits of the isolation levels that profiles may ask for, as domain/profile/check.c has them */
    unsigned isolation;
    const char *const *regions, *const *languages; /* ended by NULL */
    bool gpu, persistence, egress_policy, attestation;
};

/* A price, in whole micro-credits. */
struct backend_quote {
    int64_t per_hour, per_create, total; /* total: for the requested duration */
};

struct backend_mount {
    /* Host path; checked and opened by a privileged process. NULL: a file that a client granted,
     * which is among `granted` of the spec. */
    const char *source;
    const char *target;
    bool writable;
};

/* The root file system of a box, and defaults for its programs that the profile or a start can
 * override. */
struct backend_image {
    const char *const *layers; /* of the storage, uppermost first */
    size_t n;
    const char *user, *workdir; /* "": not set */
    struct json_strs env;       /* NAME=VALUE */
};

/* The owner of a box: the name of the owner's share of this machine's resources, and its limits for
 * all boxes of the owner together; 0: no limit. */
struct backend_owner {
    char key[BACKEND_OWNER_MAX]; /* letters a to z, digits, ".-_" */
    uint64_t memory;
    uint64_t io; /* bytes per second, of reading and of writing */
    uint32_t pids, cpu_milli;
    uint64_t disk; /* bytes that they write, where the storage driver enforces limits */
};

/* Everything a backend needs to make a box; borrowed during the call. */
struct backend_spec {
    const struct profile *profile;
    uint64_t memory, disk; /* bytes; 0: no limit */
    uint32_t pids, cpu_milli;
    const struct backend_owner
        *owner; /* NULL: not known yet; the box starts nothing before assign() */
    const struct backend_mount *mounts;
    size_t n_mounts;
    int granted; /* the supervisor's socket with the granted mounts, in their order; -1: none */
    const struct backend_image *image; /* NULL: the profile's, which is a directory, or none */
    const char *const *layers; /* of the storage, uppermost first: the initial state of its writable
                                  files */
    size_t n_layers;
    const char *host;     /* placement; "local" */
    const char *hostname; /* inside; NULL: made of its id */
    bool egress; /* a network boundary, whose sockets are reported by `listeners`; programs get the
                    usual proxy variables, unless another source sets them */
    bool
        again; /* a paused sandbox continues: not refused because its owner has used up its share */
    struct listeners_taken taken; /* ports of its loopback that belong to the host */
};

struct backend_report {
    uint32_t oom_kills;
    uint32_t leftover; /* resources that could not be removed; retried at the next start */
    int64_t cpu_ns, peak_bytes;
};

struct backend_usage {
    int64_t cpu_ns; /* used inside so far; never decreases */
    uint32_t processes;
    uint64_t memory, mapped; /* bytes: private to processes, and of mapped files */
    uint64_t disk, disk_max; /* bytes written, and their limit; 0: not known */
    uint32_t oom_kills;      /* inside so far; 0: none, or not known */
};

/* The executable of a process that holds a connection, or of one of its ancestors. */
struct backend_exe {
    const char *path;  /* path inside; NULL: it was deleted */
    uint64_t dev, ino; /* both 0: not known */
    int fd;            /* open for reading, to hash it (it may be large, or change); -1: none */
};

struct backend_holder {
    int pid; /* as seen inside, as is the uid */
    uint32_t uid;
    const struct backend_exe *exe;
    const struct backend_exe
        *ancestors[BACKEND_ANCESTORS_MAX]; /* its parent first, PID 1 left out */
    size_t n_ancestors;
    bool cut; /* the list is incomplete */
};

/* All processes that hold a socket; none if it was closed or its holder could not be found.
 * Identifies executables only (LD_PRELOAD can change their behaviour): for logging and defence in
 * depth. */
struct backend_who {
    const struct backend_holder *holders;
    size_t n;
    const struct backend_exe *exes; /* each once */
    size_t n_exes;
};

/* Limits that a backend may be unable to enforce on this machine. */
enum backend_limit {
    BACKEND_LIMIT_MEMORY = 1 << 0,
    BACKEND_LIMIT_PIDS = 1 << 1,
    BACKEND_LIMIT_CPU = 1 << 2,
    BACKEND_LIMIT_DISK = 1 << 3,
};

struct backend_box;
struct backend_process;
struct listeners; /* lib/ipc/listeners.h */

/* A kept process that is found after a restart of the daemon. */
struct backend_found {
    uint32_t proc;
    int pid;
    uint64_t cookie; /* of its start */
    bool ended, tty, has_stdin;
    int how, status;
    uint32_t oom_kills; /* at its end */
    int64_t cpu_ns, peak_bytes;
};

struct backend_box_events {
    void (*provisioned)(struct backend_box *b, int r, const struct err *e);
    void (*ready)(struct backend_box *b, int r, const struct err *e);
    /* r < 0: the box does not exist or cannot be reached; found: its kept processes */
    void (*adopted)(struct backend_box *b, int r, const struct err *e,
                    const struct backend_found *found, size_t n);
    void (*torn_down)(struct backend_box *b, int r, const struct err *e,
                      const struct backend_report *report);
    void (*gone)(struct backend_box *b, const char *reason);
    /* r >= 0: all processes of the box are charged to its owner, and the box survives the daemon
     * and the launchers. r < 0: the box died; `gone` follows unless it is torn down first. */
    void (*assigned)(struct backend_box *b, int r, const struct err *e);
    void (*usage)(struct backend_box *b, int r, const struct backend_usage *u);
    /* Number of processes that the OOM killer has killed in the box. Called before the end of the
     * process whose message carried it, and again with later messages; may be NULL. */
    void (*oom)(struct backend_box *b, uint32_t kills);
    /* l is NULL if r < 0; else take_listeners(); remaining sockets are closed. */
    void (*listeners)(struct backend_box *b, int r, const struct err *e, struct listeners *l);
    /* w and its descriptors are borrowed: dup() them to hash later. r < 0: unknown (-ERR_BUSY: may
     * be asked again); treat it like an empty list. */
    void (*who)(struct backend_box *b, uint64_t tag, int r, const struct err *e,
                const struct backend_who *w);
    /* The box is frozen or thawed; r < 0: it runs, in both cases. */
    void (*held)(struct backend_box *b, bool frozen, int r, const struct err *e);
    /* A descriptor of the top directory of the writable layer: take_fd(), or it is closed. NULL if
     * r < 0. */
    void (*upper)(struct backend_box *b, int r, const struct err *e, int *fd);
};

struct backend_box {
    const struct backend_ops *ops;
    struct backend *backend;
    char id[ID_MAX];
    char handle[BACKEND_HANDLE_MAX];         /* set by provision; passed to adopt and teardown */
    char step[32];                           /* the step at which provisioning failed */
    unsigned unenforced;                     /* bits of enum backend_limit that are not enforced */
    const struct backend_box_events *events; /* may be replaced when a pooled box changes hands */
    void *owner;
};

enum backend_how {
    BACKEND_EXITED,
    BACKEND_SIGNALLED,
    BACKEND_TIMED_OUT,
    BACKEND_LOST /* the box ended before */
};

struct backend_end {
    enum backend_how how;
    int status;      /* exit status or signal */
    int sys;         /* file operations: errno */
    const char *msg; /* file operations: reason */
    int64_t cpu_ns, peak_bytes;
    uint32_t oom_kills; /* in the box while it ran */
    /* Limits of the sandbox, filled in by the control plane; 0: none, or not known. */
    uint64_t memory_limit, disk_limit;
};

/* Whether a process was killed by the OOM killer, or is a shell whose last command was. */
static inline bool backend_end_is_oom(const struct backend_end *end)
{
    return end->oom_kills && (end->how == BACKEND_SIGNALLED
                                  ? end->status == SIGKILL
                                  : end->how == BACKEND_EXITED && end->status == 128 + SIGKILL);
}

struct backend_process_events {
    /* r < 0: it never ran; e->msg is the reason, sys holds errno, `step` the failed step. Else
     * stdio holds non-blocking descriptors that become the owner's: [stdin] stdout stderr, or the
     * terminal. */
    void (*started)(struct backend_process *p, int r, const struct err *e);
    void (*ended)(struct backend_process *p, const struct backend_end *end); /* the last event */
    /* A signal was delivered, or could not be: one event for each signal(), in their order, unless
     * the process ends or is dropped before. May be NULL. */
    void (*signalled)(struct backend_process *p);
};

/* A process or file operation in a box; a member of its owner. It belongs to the backend from start
 * (or reattach) until `started` with r < 0 or `ended`; drop() releases it earlier. */
struct backend_process {
    struct backend_box *box; /* NULL: not running */
    const struct backend_process_events *events;
    uint32_t proc; /* its number inside the box, once started */
    char step[24]; /* the step at which its start failed: "program", "user", "workdir", …; or "" */
    int pid;
    int stdio
        [BACKEND_STDIO_MAX]; /* of `started`; -1 if absent: [0] stdin or terminal, [1] stdout, [2]
                                stderr */
    uint32_t tag_;
};

/* A connection to a port inside a box; a member of its owner. It belongs to the backend from dial()
 * until `done` or dial_drop(). */
struct backend_dial {
    struct backend_box *box; /* NULL: not running */
    /* fd: a non-blocking socket, owned by the receiver, which may still be connecting; -1 if r <
     * 0. */
    void (*done)(struct backend_dial *d, int r, const struct err *e, int fd);
    struct link link_;
    uint32_t tag_;
};

enum backend_scope { BACKEND_SCOPE_ONE, BACKEND_SCOPE_GROUP, BACKEND_SCOPE_TREE };

/* The environment of a backend; outlives it. */
struct backend_context {
    struct loop *loop;
    struct thread_pool *work;
    int state;                /* the daemon's state directory */
    const char *const *roots; /* host directories that requests may use, NULL-terminated, in the
                                 launcher's order */
    bool roots_only;          /* the launcher accepts only host directories below these roots */
    bool tenants;             /* clients other than the daemon's own user can reach it */
    /* Connects to a new launcher process; blocks for a moment. */
    int (*launcher)(void *user, int *ret_sock, struct err *e);
    void *user;
};

typedef bool backend_known_fn(void *user, const char *id);
typedef void backend_stale_fn(void *user, const char *id, const char *what);

struct backend_ops {
    const char *id; /* "ext.local" */
    const char *version;
    unsigned can;
    struct backend_vector vector;

    /* The instance. */
    int (*open)(const struct backend_context *c, struct backend **ret, struct err *e);
    void (*close)(struct backend *x); /* boxes survive; every struct was freed before */
    /* Lists the remains of boxes of this state directory that `known` does not know: calls `each`
     * for every one, with a description. */
    int (*stale)(struct backend *x, backend_known_fn *known, backend_stale_fn *each, void *user,
                 struct err *e);
    /* Begins to remove exactly these: `each` is called for those that are not being removed
     * already. Called after every live box was adopted, any number of times. */
    int (*sweep)(struct backend *x, backend_known_fn *known, backend_stale_fn *each, void *user,
                 struct err *e);

    struct backend_box *(*box_new)(struct backend *x, const char *id,
                                   const struct backend_box_events *events, void *owner);
    /* Frees the struct: no further events. Resources that were not torn down stay. */
    void (*box_free)(struct backend_box *b);

    void (*provision)(struct backend_box *b, const struct backend_spec *s);
    void (*wait_ready)(struct backend_box *b);
    /* BACKEND_CAN_POOL: gives an owner to a box without one; `assigned` is called once. Later
     * starts are charged to that owner. Before `assigned` the box must not be recorded as usable:
     * the death of the daemon or of a launcher ends it. */
    void (*assign)(struct backend_box *b, const struct backend_owner *o);
    /* Processes of an earlier run of the daemon that were not kept are killed. */
    void (*adopt)(struct backend_box *b, const char *handle);
    /* Idempotent; also for a box of an earlier run, without adopt. Pending operations are reported
     * as lost or failed before torn_down. May be repeated after a failure. */
    void (*teardown)(struct backend_box *b);
    void (*usage)(struct backend_box *b); /* BACKEND_CAN_USAGE */
    /* Whether the box is alive, as far as known without waiting; `gone` may be pending. */
    bool (*alive)(struct backend_box *b);

    /* BACKEND_CAN_EGRESS, for boxes whose spec has egress. May be repeated at any time: egress
     * workers may die, the box keeps the sockets. */
    void (*listeners)(struct backend_box *b);
    /* Finds the holders of a socket inside by its inode number; `tag` is returned unchanged.
     * Answers come in any order. */
    void (*who)(struct backend_box *b, uint64_t tag, uint64_t inode);

    /* BACKEND_CAN_DIAL: connects to the box's own loopback, family 4 or 6. */
    void (*dial)(struct backend_box *b, struct backend_dial *d, uint16_t port, int family);
    void (*dial_drop)(struct backend_dial *d); /* no further events */

    /* BACKEND_CAN_SNAPSHOT: → upper. Call before freeze(): PID 1 answers. */
    void (*upper)(struct backend_box *b);
    /* BACKEND_CAN_PAUSE: → held. One at a time. A frozen box is also thawed by adopt(), and may be
     * torn down. */
    void (*freeze)(struct backend_box *b);
    void (*thaw)(struct backend_box *b);

    /* BACKEND_CAN_EXEC, BACKEND_CAN_FILES. With START_KEEP a process survives the daemon, is found
     * by adopt(), and stays until forget(). */
    void (*start)(struct backend_box *b, struct backend_process *p, const struct process_start *s);
    void (*signal)(struct backend_process *p, int sig, enum backend_scope scope);
    void (*signal_all)(struct backend_box *b, int sig);
    void (*close_stdin)(struct backend_process *p);
    /* Sets the size of its terminal, which is stdio[0] of `started`. */
    int (*resize)(struct backend_process *p, int terminal, uint16_t rows, uint16_t cols,
                  struct err *e);
    /* No further events. A kept process stays and can be reattached; others are killed. */
    void (*drop)(struct backend_process *p);
    /* BACKEND_CAN_REATTACH */
    void (*reattach)(struct backend_box *b, struct backend_process *p,
                     uint32_t proc);                      /* → started */
    void (*forget)(struct backend_box *b, uint32_t proc); /* a kept process whose end was stored */

    int (*estimate)(const struct profile *p, int64_t duration_ns, struct backend_quote *ret,
                    struct err *e);
};

/* The registry. */
const struct backend_ops *backend_find(struct str id); /* NULL: not part of this build */
extern const struct backend_ops *const backends[];     /* ended by NULL */
extern const struct backend_ops backend_local;

#endif
