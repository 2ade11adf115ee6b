/* What the parts of mirror_receive() share: receive.c reads the stream and judges, apply.c changes
 * one name, finish.c does what has to wait for the end of the stream. Private to the module. */
#ifndef MIRROR_RECEIVE_H
#define MIRROR_RECEIVE_H

#include "mirror/content.h"
#include "mirror/decide.h"
#include "mirror/host.h"
#include "mirror/manifest.h"
#include "mirror/mirror.h"
#include "tree/path.h"
#include "tree/reader.h"

struct receive {
    int dir;
    const struct mirror_place *place;
    bool judges_dirs; /* sensitive_place(): new directories are judged by their names, too */
    bool withheld;    /* the content of a file of the stream did not come to the host */
    uint64_t *landed; /* hashes of the files that did, in ascending order; set if `withheld` */
    size_t n_landed;
    const struct mirror_options *o;
    struct mirror_report *report;
    uint64_t bytes; /* content in the stream so far */
    struct mirror_manifest manifest;
    struct tar_reader in;
};

/* One name, and what both sides have there. */
struct item {
    struct mirror_entry *entry;
    struct tree_path path;
    struct found host;
    struct mirror_value box; /* of KIND_NONE if the sandbox has nothing there */
    const char *target;      /* of a link in the stream */
    struct timespec mtime;
    struct content content;
    bool same; /* both sides have the same */
    enum mirror_action veto;
    const char *veto_reason; /* why it cannot come to the host at all; NULL: it can */
};

int item_init(struct item *it, struct receive *rc, const struct tree_path *path, struct err *e);
void item_done(struct item *it);
enum host_state item_host_state(const struct item *it, const struct receive *rc);

static inline bool has_flag(const struct receive *rc, enum mirror_flag flag)
{
    return (rc->o->flags & (unsigned)flag) != 0;
}

/* Counts and tells. */
void receive_note(struct receive *rc, enum mirror_action action, struct str path,
                  const char *reason);

/* Why a name is held back on its way to the host or to its deletion there; NULL if it may pass,
 * also because the caller accepts it. `is_dir`: it is a directory wherever there is something. */
const char *receive_held(const struct receive *rc, struct str path, bool is_dir);
bool receive_accepts(const struct receive *rc, struct str path, bool is_dir);

/* The manifest has what both sides have now. */
void receive_record(struct mirror_entry *x, const struct mirror_value *v,
                    struct mirror_identity identity);

/* Makes the host have it->box, and says so as `action`; or says why not. What takes a directory's
 * place is only prepared. */
void receive_apply(struct receive *rc, struct item *it, enum mirror_action action);

/* Deletions (if the stream was complete), what was prepared, and modes of directories. */
int receive_finish(struct receive *rc, bool complete, struct err *e);

#endif
