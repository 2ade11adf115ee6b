/* Building a template: its steps run in a sandbox of their own, one after the other, and a snapshot
 * of that is the template. A build is kept in memory, for a while also when it is over, and in the
 * store what of it must be known after a daemon's end: that interrupts it, and it has failed. */
#ifndef API_E2B_BUILDS_H
#define API_E2B_BUILDS_H

#include "api/e2b/built.h"
#include "control/processes.h"
#include "control/snapshots.h"

enum {
    BUILDS_MAX = 32,
    BUILDS_PER_OWNER = BUILDS_MAX / 4,
    BUILD_STEPS_MAX = 256,
    BUILD_FILES_MAX = 64,
    BUILD_HASH_MAX = 128,
    BUILD_LOGS_MAX = 2000,
};
#define BUILD_FILE_BYTES_MAX ((uint64_t)512 << 20)

enum build_state { BUILD_WAITING, BUILD_BUILDING, BUILD_READY, BUILD_ERROR };
extern const char *const build_state_names[]; /* as E2B calls them; ended by NULL */

struct build_step {
    const char *type, *hash; /* hash: of what a COPY brings */
    struct json_strs args;
};

struct build_request {
    const char *from_image, *from_template, *start, *ready;
    struct json_objects steps; /* struct build_step */
};

/* What came for a COPY. */
struct build_file {
    char hash[BUILD_HASH_MAX];
    int fd;
    uint64_t size;
    struct quota_hold counted; /* its bytes */
    bool whole;
};

struct build_log {
    int64_t time_ns;
    const char *level, *text;
};

struct build {
    struct link link; /* in the api's list, the newest last */
    char id[ID_MAX], template[ID_MAX], name[BUILT_NAME_MAX + 1];
    char owner[OWNER_MAX], family[ID_MAX]; /* family: of the token that began it; "": none */
    struct arena arena;                    /* of its logs, and the texts below */
    struct json_map labels;                /* of who began it */
    enum build_state state;
    struct build_file files[BUILD_FILES_MAX];
    size_t n_files;
    struct build_log logs[BUILD_LOGS_MAX];
    size_t n_logs;
    char reason[RECORD_REASON_MAX];
    char failed[24];             /* the step: "base", a number, "finalize"; "": nobody knows */
    char box_id[ID_MAX];         /* of its sandbox; "": it had none yet */
    struct loop_timer abandoned; /* while it waits for files and steps */

    /* while it runs */
    struct call *call; /* that asked for it, and was answered; referenced */
    struct build_request request;
    struct create_request create;
    struct create_op creating;
    struct sandbox *box; /* referenced */
    size_t at;           /* the step that runs; from 1, 0 is what comes before them */
    const char *user, *workdir;
    struct json_pair env[REQUEST_ENV_MAX];
    size_t n_env;
    struct process_op starting;
    struct process_request program;
    const char *argv[8];
    struct process *process; /* referenced */
    struct watcher watcher;
    struct build_file *feed; /* that goes to its stdin */
    uint64_t fed;
    const char *const *others; /* who tries it, if it fails; ended by NULL; NULL: nobody … */
    void (*again)(struct build *b, const struct build_step *s, const char *user); /* … so */
    struct buf line;
    struct snapshot_op snapshot;
    char taken[ID_MAX], replaced[ID_MAX]; /* its snapshot, and the one before; "": none */
    struct unsnap_op unsnap;
    bool closed; /* the interface is */
};

/* One that the caller sees, the newest of a template where `build` is empty; else NULL. */
struct build *build_find(const struct call *c, struct str template, struct str build);
/* A new one that waits; the oldest of its owner that is over, or waits, goes if there is no room.
 * -ERR_QUOTA: too many of its owner, or of its family of tokens, are under way; -ERR_BUSY: too many
 * of all, or we end. */
int build_new(struct call *c, const char *name, struct build **ret, struct err *e);
/* The file of a hash, new or not; NULL: there are too many. */
struct build_file *build_file(struct build *b, struct str hash);
/* It waits for an hour from now on; then it has failed, and its files are gone. */
void build_wait(struct api *a, struct build *b);
void build_drop_file(struct build_file *f); /* what came of it */
/* The call is answered by then; its reference is the build's until it is over. The request is on
 * its arena. */
void build_start(struct build *b, struct call *c, const struct build_request *q);
/* The sandbox that it would begin in. */
int build_base(struct call *c, const struct build_request *q, struct create_request *ret,
               struct err *e);
/* From then on none begins, and what the store keeps of them stays as it is. */
void builds_close(struct api *a);

void build_log(struct build *b, const char *level, struct str text);

/* --- builds_kept.c --- */
/* Takes up what an earlier life of the daemon left; blocks. When templates are open. */
int builds_open(struct api *a, struct err *e);
/* Puts all of them on disk as they are now; done may be NULL. -ERR_BUSY: we end. */
void builds_keep(struct api *a, built_fn *done, void *user);

/* --- for that one --- */
struct build *build_alloc(void);
void build_fail(struct build *b, const char *why); /* nothing of it is under way */

#endif
