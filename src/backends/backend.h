/* The extension contract: what a backend of sandboxes is to the control plane.
 *
 * An extension is a row of functions. It makes boxes: a box is one sandbox as its backend sees it,
 * and belongs to the control plane from ext_box_new() to ext_box_free(). Every call returns at
 * once; what becomes of it is told through the box's events, from the loop, never from inside the
 * call, each exactly once. A backend that cannot do something leaves out its bit in `can`; the
 * control plane asks the bits, never whether a function is there.
 *
 *     provision → events.provisioned     resources exist; the handle names them after a restart
 *     wait_ready → events.ready          a probe ran inside and answered
 *     adopt → events.adopted             the same for a box of an earlier life of the daemon
 *     teardown → events.torn_down        nothing is left; allowed at any time, also before
 * `provisioned`, which is then not told any more (by itself) → events.gone          it died;
 * teardown is still due
 *
 * One conformance suite (tests/conformance) runs on every row. */
#ifndef EXTENSIONS_EXTENSION_H
#define EXTENSIONS_EXTENSION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "ipc/listeners.h"
#include "json/bind.h"
#include "loop/loop.h"
#include "profile/profile.h"
#include "work/work.h"

enum {
    EXT_HANDLE_MAX = 256,
    EXT_OWNER_MAX = 48,
    EXT_MOUNTS_MAX = 8,
    EXT_STDIO_MAX = 3,
    EXT_ANCESTORS_MAX = 16,
    EXT_LENT_AT = 4,
    EXT_LENT_MAX = 40,
    EXT_COMPOSE_MAX = 1024,
};

enum ext_can {
    EXT_CAN_EXEC = 1 << 0,
    EXT_CAN_FILES = 1 << 1,
    EXT_CAN_REATTACH = 1 << 2, /* processes survive the daemon and can be found again */
    EXT_CAN_POOL = 1 << 3,     /* boxes can be made before anybody asks for them */
    EXT_CAN_MOUNTS = 1 << 4,   /* host directories can be shown inside */
    EXT_CAN_USAGE = 1 << 5,    /* says how much was used inside */
    EXT_CAN_SNAPSHOT = 1 << 6, /* shows what a box wrote, and makes boxes on layers of it */
    EXT_CAN_PAUSE = 1 << 7,    /* boxes can be brought to a standstill */
    EXT_CAN_EGRESS = 1 << 8,   /* all that leaves a box goes through sockets that we serve */
    EXT_CAN_DIAL = 1 << 9,     /* ports inside can be connected to */
    EXT_CAN_IMAGES = 1 << 10,  /* boxes can stand on images of the storage */
    EXT_CAN_LEND = 1 << 11,    /* programs can be given descriptors, and be ended as a whole */
};

/* What a caller can choose by. */
struct ext_vector {
    unsigned isolation;                            /* bits of the profile's isolation levels */
    const char *const *regions, *const *languages; /* ended by NULL */
    bool gpu, persistence, egress_policy, attestation;
    const char *pricing; /* "self-hosted", "per-second", … */
};

/* A price, in whole micro-credits. */
struct ext_quote {
    int64_t per_hour, per_create, total; /* total: for the duration asked about */
};

struct ext_mount {
    const char *source; /* host path; checked and opened by whoever has the right to */
    const char *target;
    bool writable;
};

/* The root file system of a box, and how its programs are run unless the profile or a start says
 * otherwise. */
struct ext_image {
    const char *const *layers; /* of the storage, uppermost first */
    size_t n;
    const char *user, *workdir; /* "": not said */
    struct json_strs env;       /* NAME=VALUE */
};

/* Everything a backend needs to know to make a box; borrowed during the call. */
/* Whose a box is: a name for the owner's part of this machine's resources, and how much that is,
 * for all boxes of the owner together; 0: no limit. */
struct ext_owner {
    char key[EXT_OWNER_MAX]; /* letters a to z, digits, ".-_" */
    uint64_t memory;
    uint64_t io; /* bytes per second, of reading and of writing */
    uint32_t pids, cpu_milli;
};

struct ext_spec {
    const struct profile *profile;
    uint64_t memory, disk; /* bytes; 0: no limit */
    uint32_t pids, cpu_milli;
    const struct ext_owner *owner; /* NULL: not known yet; the box starts nothing before assign() */
    const struct ext_mount *mounts;
    size_t n_mounts;
    const struct ext_image *image; /* NULL: the profile's, which is then a directory, or none */
    const char *const *layers; /* of the storage, uppermost first: what it finds written already */
    size_t n_layers;
    const char *host; /* placement; "local" */
    bool egress; /* a network boundary, whose sockets are told by `listeners`; programs are told
                    of its proxy in the usual variables, unless the profile or the start has others
                  */
    struct listeners_taken taken; /* ports of its loopback that are the host's */
};

struct ext_report {
    uint32_t oom_kills;
    uint32_t
        leftover; /* things that could not be removed; they are tried again at the next start */
    int64_t cpu_ns, peak_bytes;
};

struct ext_usage {
    int64_t cpu_ns; /* used inside so far; never goes back */
    uint32_t processes;
    uint64_t memory, mapped; /* bytes: of processes alone, and of files in memory */
    uint64_t disk, disk_max; /* bytes written, and how many may be; 0: not known */
    uint32_t oom_kills;      /* inside so far; 0: none, or not known */
};

/* A program inside that has part in a connection. */
struct ext_exe {
    const char *path;  /* as it is called inside; NULL: it has no name there any more */
    uint64_t dev, ino; /* both 0: not known */
    int fd;            /* for reading, to hash it (it may be large, or change); -1: none */
};

struct ext_holder {
    int pid; /* as seen inside, as is the uid */
    uint32_t uid;
    const struct ext_exe *exe;
    const struct ext_exe *ancestors[EXT_ANCESTORS_MAX]; /* its parent first, PID 1 left out */
    size_t n_ancestors;
    bool cut; /* there are, or were, more */
};

/* Everybody who holds a socket, or nobody: then it was closed, or its holder hides. It says which
 * programs run, not whose will they do: for logs, and as a second line of defence. */
struct ext_who {
    const struct ext_holder *holders;
    size_t n;
    const struct ext_exe *exes; /* each once */
    size_t n_exes;
};

/* Limits that a backend may be unable to enforce on this machine. */
enum ext_limit {
    EXT_LIMIT_MEMORY = 1 << 0,
    EXT_LIMIT_PIDS = 1 << 1,
    EXT_LIMIT_CPU = 1 << 2,
    EXT_LIMIT_DISK = 1 << 3,
};

struct ext_box;
struct ext_process;
struct listeners; /* ipc/listeners.h */

/* How a process is found again after a restart of the daemon. */
struct ext_found {
    uint32_t proc;
    int pid;
    uint64_t cookie; /* as given at its start */
    bool ended, tty, has_stdin;
    int how, status;
    uint32_t oom_kills; /* as of its end */
    int64_t cpu_ns, peak_bytes;
};

struct ext_box_events {
    void (*provisioned)(struct ext_box *b, int r, const struct err *e);
    void (*ready)(struct ext_box *b, int r, const struct err *e);
    /* r < 0: it is not there any more, or cannot be reached; found: its kept processes */
    void (*adopted)(struct ext_box *b, int r, const struct err *e, const struct ext_found *found,
                    size_t n);
    void (*torn_down)(struct ext_box *b, int r, const struct err *e,
                      const struct ext_report *report);
    void (*gone)(struct ext_box *b, const char *reason);
    /* r >= 0: everything in the box counts for its owner, and the box outlives the daemon and the
     * launchers. r < 0: the box died; `gone` follows unless it is torn down first. */
    void (*assigned)(struct ext_box *b, int r, const struct err *e);
    void (*usage)(struct ext_box *b, int r, const struct ext_usage *u);
    /* The kernel has killed so many processes in it for want of memory. Told before the end of the
     * process that brought the news, and again with other news; may be NULL. */
    void (*oom)(struct ext_box *b, uint32_t kills);
    /* l is NULL if r < 0; else take_listeners(), what is left in it is closed. */
    void (*listeners)(struct ext_box *b, int r, const struct err *e, struct listeners *l);
    /* w and its descriptors are borrowed: dup() what is hashed later. r < 0: it could not be found
     * out (-ERR_BUSY: it may be asked again), which is no better than nobody. */
    void (*who)(struct ext_box *b, uint64_t tag, int r, const struct err *e,
                const struct ext_who *w);
    /* It stands still (frozen), or goes on; r < 0: it goes on, whichever was asked. */
    void (*held)(struct ext_box *b, bool frozen, int r, const struct err *e);
    /* A descriptor of the top of what the box wrote: take_fd(), or it is closed. NULL if r < 0. */
    void (*upper)(struct ext_box *b, int r, const struct err *e, int *fd);
};

struct ext_box {
    const struct extension_ops *ops;
    struct extension *ext;
    char id[ID_MAX];
    char handle[EXT_HANDLE_MAX];         /* set by provision; given back to adopt and teardown */
    char step[32];                       /* where provisioning failed */
    unsigned unenforced;                 /* bits of enum ext_limit that do not hold for this box */
    const struct ext_box_events *events; /* may be replaced when a pooled box changes hands */
    void *owner;
};

enum ext_what {
    EXT_PROGRAM,
    EXT_READ,
    EXT_WRITE,
    EXT_LIST,
    EXT_STAT,
    EXT_MKDIR,
    EXT_REMOVE,
    EXT_RENAME,
    EXT_WATCH,
    EXT_PACK,
    EXT_UNPACK,
    EXT_HOME,    /* without paths: says where the user's home is */
    EXT_PERMIT,  /* a path, and behind it "mode=OCTAL", "owner=NAME", "group=NAME" */
    EXT_COMPOSE, /* the new file, and behind it EXT_COMPOSE_MAX files that become it */
    EXT_UPLOAD,  /* attributes, as of EXT_WRITE; files come as records of extensions/records.h */
    EXT_WHAT_COUNT_,
};

enum {
    /* the mode of EXT_WATCH */
    EXT_WATCH_TREE = 1,    /* directories below, too, also later ones */
    EXT_WATCH_ENTRIES = 2, /* changes come with what is there now */
    /* of EXT_LIST and EXT_STAT */
    EXT_ATTRIBUTES = 1, /* extended attributes are told, too */
    EXT_RESOLVE = 2,    /* a link's target is where it leads in the end, from /; none: nowhere */
    /* of EXT_RENAME */
    EXT_MAKE_PARENTS = 1, /* of the new name; they do not outlast a failure */
};

enum ext_start_flags {
    EXT_STDIN = 1 << 0,
    EXT_TTY = 1 << 1,
    EXT_KEEP = 1 << 2,  /* survives our death, is found by adopt(), stays until forget() */
    EXT_WHOLE = 1 << 3, /* its end is that of everything it started; EXT_CAN_LEND */
};

struct ext_start {
    enum ext_what what;
    unsigned flags;
    const char *user;        /* "0", "1000:1000", a name; NULL: the profile's */
    const char *cwd;         /* NULL: the profile's */
    const char *const *argv; /* NULL-terminated; for file operations, the paths, and behind that of
                                EXT_WRITE attributes: "user.NAME=VALUE" */
    const char *const *envp; /* NULL-terminated, or NULL; added to the profile's */
    uint32_t mode;
    uint16_t rows, cols;
    int64_t timeout_ns, grace_ns;
    uint64_t cookie;
    const int *lent; /* sealed memory that a program finds open, from descriptor EXT_LENT_AT on … */
    size_t n_lent;   /* … at most EXT_LENT_MAX; EXT_CAN_LEND */
};

enum ext_how { EXT_EXITED, EXT_SIGNALLED, EXT_TIMED_OUT, EXT_LOST /* the box went first */ };

struct ext_end {
    enum ext_how how;
    int status;      /* exit status or signal */
    int sys;         /* file operations: errno */
    const char *msg; /* file operations: why */
    int64_t cpu_ns, peak_bytes;
    uint32_t oom_kills; /* in the box while it ran */
    /* Limits of the sandbox, known to the control plane; 0: none, or not known. */
    uint64_t memory_limit, disk_limit;
};

/* Whether a process was ended by the OOM killer, or is a shell whose last command was. */
static inline bool ext_end_is_oom(const struct ext_end *end)
{
    return end->oom_kills &&
           (end->how == EXT_SIGNALLED ? end->status == SIGKILL
                                      : end->how == EXT_EXITED && end->status == 128 + SIGKILL);
}

struct ext_process_events {
    /* r < 0: it never ran; e->msg says why, sys holds errno, `step` what of it. Else stdio holds
     * non-blocking descriptors that are the owner's: [stdin] stdout stderr, or the terminal. */
    void (*started)(struct ext_process *p, int r, const struct err *e);
    void (*ended)(struct ext_process *p, const struct ext_end *end); /* the last word */
};

/* A process or file operation in a box; a member of its owner. From start (or reattach) until
 * `started` with r < 0 or `ended` it is the extension's; ext_process_drop() lets go of it earlier.
 */
struct ext_process {
    struct ext_box *box; /* NULL: not under way */
    const struct ext_process_events *events;
    uint32_t proc; /* its name inside the box, once started */
    char step[24]; /* where its start failed: "program", "user", "workdir", …; or "" */
    int pid;
    int stdio[EXT_STDIO_MAX]; /* of `started`; -1 where there is none: [0] stdin or terminal, [1]
                                 stdout, [2] stderr */
    uint32_t tag_;
};

/* A connection to a port inside a box; a member of its owner. From dial() until `done`, or
 * dial_drop(), it is the extension's. */
struct ext_dial {
    struct ext_box *box; /* NULL: not under way */
    /* fd: a socket, the receiver's, that does not block and may still be connecting; -1 if r < 0.
     */
    void (*done)(struct ext_dial *d, int r, const struct err *e, int fd);
    struct link link_;
    uint32_t tag_;
};

enum ext_scope { EXT_SCOPE_ONE, EXT_SCOPE_GROUP, EXT_SCOPE_TREE };

/* What an extension gets from the daemon; outlives it. */
struct ext_context {
    struct loop *loop;
    struct work_pool *work;
    int state;                /* the daemon's state directory */
    const char *const *roots; /* host directories that requests may name, NULL-terminated, in the
                                 launcher's order */
    bool roots_only;          /* the launcher takes host directories below these roots only */
    bool tenants;             /* clients other than the daemon's own user can reach it */
    /* A connected socket to a new launcher process; blocks for a moment. */
    int (*launcher)(void *user, int *ret_sock, struct err *e);
    void *user;
};

typedef bool ext_known_fn(void *user, const char *id);
typedef void ext_stale_fn(void *user, const char *id, const char *what);

struct extension_ops {
    const char *id; /* "ext.local" */
    const char *version;
    unsigned can;
    struct ext_vector vector;

    /* The instance. */
    int (*open)(const struct ext_context *c, struct extension **ret, struct err *e);
    void (*close)(struct extension *x); /* boxes live on; every box was freed before */
    /* What is left on this machine of boxes that `known` does not know and that belong to this
     * state directory: calls `each` for every one, with what it is. */
    int (*stale)(struct extension *x, ext_known_fn *known, ext_stale_fn *each, void *user,
                 struct err *e);
    /* Begins to remove it, and nothing else: `each` is called for what was not on its way out
     * already. Called after every live box was adopted, and any number of times then. */
    int (*sweep)(struct extension *x, ext_known_fn *known, ext_stale_fn *each, void *user,
                 struct err *e);

    struct ext_box *(*box_new)(struct extension *x, const char *id,
                               const struct ext_box_events *events, void *owner);
    /* Lets go: nothing is told any more. What was provisioned and not torn down stays. */
    void (*box_free)(struct ext_box *b);

    void (*provision)(struct ext_box *b, const struct ext_spec *s);
    void (*wait_ready)(struct ext_box *b);
    /* EXT_CAN_POOL: a box without an owner gets one, and `assigned` is told, once. Whatever is
     * started afterwards counts for that owner. Before `assigned` the box must not be recorded as
     * usable: the death of the daemon or of a launcher ends it. */
    void (*assign)(struct ext_box *b, const struct ext_owner *o);
    /* What was started in an earlier life and not to be kept is killed. */
    void (*adopt)(struct ext_box *b, const char *handle);
    /* Idempotent; also of a box that is new in this life, without adopt. Whatever else is waited
     * for is told, as lost or failed, before torn_down. After a failure it may be asked again. */
    void (*teardown)(struct ext_box *b);
    void (*usage)(struct ext_box *b); /* EXT_CAN_USAGE */
    /* Whether it is there, as far as can be told without waiting; `gone` may be on its way. */
    bool (*alive)(struct ext_box *b);

    /* EXT_CAN_EGRESS, for boxes whose spec said so. May be asked at any time and again: whoever
     * serves them may die, the box keeps them. */
    void (*listeners)(struct ext_box *b);
    /* Who holds a socket inside, by its inode number; `tag` is the owner's and returned. Answers
     * come in any order. */
    void (*who)(struct ext_box *b, uint64_t tag, uint64_t inode);

    /* EXT_CAN_DIAL: to the box's own loopback, of family 4 or 6. */
    void (*dial)(struct ext_box *b, struct ext_dial *d, uint16_t port, int family);
    void (*dial_drop)(struct ext_dial *d); /* nothing is told any more */

    /* EXT_CAN_SNAPSHOT: → upper. Before it is frozen: it answers itself. */
    void (*upper)(struct ext_box *b);
    /* EXT_CAN_PAUSE: → held. Not both at once. What is frozen is thawed by adopt(), too, and may be
     * torn down. */
    void (*freeze)(struct ext_box *b);
    void (*thaw)(struct ext_box *b);

    /* EXT_CAN_EXEC, EXT_CAN_FILES */
    void (*start)(struct ext_box *b, struct ext_process *p, const struct ext_start *s);
    void (*signal)(struct ext_process *p, int sig, enum ext_scope scope);
    void (*signal_all)(struct ext_box *b, int sig);
    void (*close_stdin)(struct ext_process *p);
    /* Nothing is told of it any more. A kept one stays and can be reattached; another is killed. */
    void (*drop)(struct ext_process *p);
    /* EXT_CAN_REATTACH */
    void (*reattach)(struct ext_box *b, struct ext_process *p, uint32_t proc); /* → started */
    void (*forget)(struct ext_box *b, uint32_t proc); /* a kept process whose end is on record */

    int (*estimate)(const struct profile *p, int64_t duration_ns, struct ext_quote *ret,
                    struct err *e);
};

/* The registry. */
const struct extension_ops *extension_find(struct str id); /* NULL: not part of this build */
extern const struct extension_ops *const extensions[];     /* ended by NULL */
extern const struct extension_ops extension_local;

#endif
