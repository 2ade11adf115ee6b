/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of sync_receive(): receive.c reads the stream and decides, apply.c changes one name,
 * finish.c runs at the end of the stream. Private to the module. */
#ifndef ENGINE_SYNC_RECEIVE_H
#define ENGINE_SYNC_RECEIVE_H

#include "engine/sync/content.h"
#include "engine/sync/decide.h"
#include "engine/sync/host.h"
#include "engine/sync/manifest.h"
#include "engine/sync/sync.h"
#include "lib/tar/path.h"
#include "lib/tar/reader.h"

struct receive {
    int dir;
    const struct sync_place *place;
    bool judges_dirs; /* sensitive_place(): new directories are judged by their names, too */
    bool withheld;    /* some file content of the stream was not applied */
    uint64_t *landed; /* hashes of the applied files, in ascending order; set if `withheld` */
    size_t n_landed;
    const struct sync_job_options *o;
    struct sync_report *report;
    uint64_t bytes; /* content in the stream so far */
    struct sync_manifest manifest;
    struct tar_reader in;
};

/* One name, and its files on both sides. */
struct item {
    struct sync_entry *entry;
    struct tree_path path;
    struct found_file host;
    struct sync_value box; /* KIND_NONE if the sandbox has no such file */
    const char *target;    /* of a link in the stream */
    struct timespec mtime;
    struct sync_content content;
    bool same; /* both sides are equal */
    enum sync_action veto;
    const char *veto_reason; /* why it must not be applied; NULL: it may */
};

int item_init(struct item *it, struct receive *rc, const struct tree_path *path, struct err *e);
void item_done(struct item *it);
enum host_state item_host_state(const struct item *it, const struct receive *rc);

static inline bool has_flag(const struct receive *rc, enum sync_flag flag)
{
    return (rc->o->flags & (unsigned)flag) != 0;
}

/* Counts and reports an action. */
void receive_note(struct receive *rc, enum sync_action action, struct str path, const char *reason);

/* Why a name must not be created, changed or deleted on the host; NULL if it may, also because the
 * caller accepts it. `is_dir`: it is a directory on every side that has it. */
const char *receive_held(const struct receive *rc, struct str path, bool is_dir);
bool receive_accepts(const struct receive *rc, struct str path, bool is_dir);
/* Whether the caller wants a name at all: false with SYNC_ONLY_ACCEPTED for one that is not
 * accepted. */
bool receive_wants(const struct receive *rc, struct str path, bool is_dir);

/* Records the common state of both sides in the manifest. */
void receive_record(struct sync_entry *x, const struct sync_value *v,
                    struct sync_identity identity);

/* Applies it->box to the host and reports it as `action`; or reports the reason for not doing so.
 * Replacing a directory is only prepared. */
void receive_apply(struct receive *rc, struct item *it, enum sync_action action);

/* Applies deletions (if the stream was complete), prepared replacements, and modes of
 * directories. */
int receive_finish(struct receive *rc, bool complete, struct err *e);

#endif
