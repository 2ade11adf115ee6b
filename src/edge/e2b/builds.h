/* SPDX-License-Identifier: Apache-2.0 */
/* Builds of templates: the steps run one after the other in a sandbox of their own, and a snapshot
 * of that sandbox becomes the template. A build is kept in memory, for a while also when it is
 * finished. The store keeps enough of it to fail a build that the daemon's end interrupted. */
#ifndef EDGE_E2B_BUILDS_H
#define EDGE_E2B_BUILDS_H

#include "edge/core/built.h"
#include "control/process/processes.h"
#include "control/snapshot/snapshots.h"

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
extern const char *const build_state_names[]; /* E2B's names, terminated by NULL */

struct e2b_build_step {
    const char *type, *hash; /* hash: of the files of a COPY */
    struct json_strs args;
};

struct build_request {
    const char *from_image, *from_template, *start, *ready;
    struct json_objects steps; /* struct e2b_build_step */
};

/* The uploaded files of a COPY step. */
struct build_file {
    char hash[BUILD_HASH_MAX];
    int fd;
    uint64_t size;
    struct quota_hold counted; /* charges its bytes to the owner */
    bool whole;
};

struct build_log {
    int64_t time_ns;
    const char *level, *text;
};

struct e2b_build {
    struct link link; /* in e2b_state.builds, newest last */
    char id[ID_MAX], template[ID_MAX], name[BUILT_NAME_MAX + 1];
    char owner[OWNER_MAX], family[ID_MAX]; /* family: of the token that began it, or "" */
    struct arena arena;                    /* holds its logs and the strings below */
    struct json_map labels;                /* of the caller that began it */
    enum build_state state;
    struct build_file files[BUILD_FILES_MAX];
    size_t n_files;
    struct build_log logs[BUILD_LOGS_MAX];
    size_t n_logs;
    char reason[RECORD_REASON_MAX];
    char failed[24];             /* failed step: "base", a number, "finalize"; "" if unknown */
    char box_id[ID_MAX];         /* of its sandbox, or "" before it is created */
    struct loop_timer abandoned; /* runs while the build waits for files and steps */

    /* members of a running build */
    struct call *call; /* that started the build and is answered already; referenced */
    struct build_request request;
    struct create_request create;
    struct create_op creating;
    struct sandbox *box; /* referenced */
    size_t at;           /* number of the running step, from 1; 0 before the first */
    const char *user, *workdir;
    struct json_pair env[REQUEST_ENV_MAX];
    size_t n_env;
    struct process_op starting;
    struct process_request program;
    const char *argv[8];
    struct process *process; /* referenced */
    struct watcher watcher;
    struct build_file *feed; /* being written to the step's stdin */
    uint64_t fed;
    const char *const *others; /* users that retry a failed step; NULL-terminated, or NULL … */
    void (*again)(struct e2b_build *b, const struct e2b_build_step *s,
                  const char *user); /* … with this function */
    struct buf line;
    struct snapshot_op snapshot;
    char taken[ID_MAX], replaced[ID_MAX]; /* its snapshot and the template's previous one, or "" */
    struct snapshot_delete_op unsnap;
    bool closed; /* the interface is closed */
};

/* A build that the caller may see; the newest one of the template if `build` is empty. NULL if not
 * found. */
struct e2b_build *build_find(const struct call *c, struct str template, struct str build);
/* Adds a waiting build. If there is no room, the owner's oldest finished or waiting build is
 * evicted. -ERR_QUOTA: the owner or the family of tokens has too many running builds. -ERR_BUSY:
 * too many builds in total, or the daemon is stopping. */
int build_new(struct call *c, const char *name, struct e2b_build **ret, struct err *e);
/* Finds or adds the file with this hash; NULL if there are too many. */
struct build_file *build_get_file(struct e2b_build *b, struct str hash);
/* Restarts the hour that a build waits for files and steps; after it the build fails and its files
 * are deleted. */
void build_wait(struct api *a, struct e2b_build *b);
void build_drop_file(struct build_file *f); /* drops the uploaded bytes */
/* Starts the build. The call must be answered already; the build takes its reference and uses the
 * request on its arena until the build is finished. */
void build_start(struct e2b_build *b, struct call *c, const struct build_request *q);
/* Fills the request for the sandbox that the build would start in. */
int build_fill_base(struct call *c, const struct build_request *q, struct create_request *ret,
                    struct err *e);
/* No build begins after this call, and the stored builds stay as they are. */
void builds_close(struct api *a);

void build_add_log(struct e2b_build *b, const char *level, struct str text);

/* --- builds_kept.c --- */
/* Restores the builds of an earlier daemon run. Blocks. Called after built_open(). */
int builds_open(struct api *a, struct err *e);
/* Stores the current state of all builds; `done` may be NULL. -ERR_BUSY: the daemon is stopping. */
void builds_save(struct api *a, built_fn *done, void *user);

/* --- for builds_kept.c --- */
struct e2b_build *build_alloc(void);
void build_fail(struct e2b_build *b, const char *why); /* only without operations under way */

#endif
