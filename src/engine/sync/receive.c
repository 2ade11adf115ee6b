/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/receive.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "engine/sync/decide.h"
#include "engine/sync/sensitive.h"

enum { PERMISSIONS = 0777, IMPLIED_MODE = 0755 };

void receive_note(struct receive *rc, enum sync_action action, struct str path, const char *reason)
{
    rc->report->count[action]++;
    if (rc->o->line)
        rc->o->line(rc->o->ctx, &(struct sync_line){ action, path, reason });
}

void receive_record(struct sync_entry *x, const struct sync_value *v, struct sync_identity identity)
{
    x->recorded = true;
    x->landed = true;
    x->value = *v;
    x->identity = identity;
}

static void veto_item(struct item *it, enum sync_action action, const char *reason)
{
    if (!it->veto_reason) {
        it->veto = action;
        it->veto_reason = reason;
    }
}

int item_init(struct item *it, struct receive *rc, const struct tree_path *path, struct err *e)
{
    struct err trouble = { 0 };
    int r;

    *it = (struct item){ .path = *path, .content = { .fd = -1 }, .host = { .parent = -1 } };
    r = sync_manifest_add(&rc->manifest, (struct str){ path->text, path->n }, &it->entry, e);
    if (r < 0)
        return r;
    if (host_find(rc->dir, &it->path, &it->host, &trouble) < 0)
        veto_item(it, SYNC_FAILED, "the file on the host could not be read");
    return 0;
}

void item_done(struct item *it)
{
    content_done(&it->content, &it->host);
    found_file_done(&it->host);
}

enum host_state item_host_state(const struct item *it, const struct receive *rc)
{
    if (!it->host.there)
        return it->entry->recorded ? HOST_GONE : HOST_NONE;
    if (!it->entry->recorded)
        return HOST_NEW;
    return host_unchanged(&it->host, it->entry, &rc->manifest.key) ? HOST_SAME : HOST_CHANGED;
}

static enum box_state box_state(const struct item *it)
{
    if (!it->entry->recorded)
        return BOX_NEW;
    return sync_value_eq(&it->box, &it->entry->value) ? BOX_SAME : BOX_CHANGED;
}

static bool lies_beneath(struct str path, struct str dir)
{
    return str_starts(path, dir) && (path.n == dir.n || path.p[dir.n] == '/');
}

/* Accepting a path includes its parent directories. */
bool receive_accepts(const struct receive *rc, struct str path, bool is_dir)
{
    const struct sync_job_options *o = rc->o;

    if (o->flags & SYNC_ALLOW_SENSITIVE)
        return true;
    for (size_t i = 0; i < o->n_accept; i++) {
        struct str name = str_from(o->accept[i]);

        while (name.n > 0 && name.p[name.n - 1] == '/')
            name.n--;
        if (name.n > 0 &&
            ((has_flag(rc, SYNC_ONLY_ACCEPTED) ? str_eq(path, name) : lies_beneath(path, name)) ||
             (is_dir && lies_beneath(name, path))))
            return true;
    }
    return false;
}

bool receive_wants(const struct receive *rc, struct str path, bool is_dir)
{
    return !has_flag(rc, SYNC_ONLY_ACCEPTED) || receive_accepts(rc, path, is_dir);
}

/* A sensitive_has_fn: searches the host and the stream so far. */
static bool on_name_query(const void *ctx, struct str dir, const char *name)
{
    const struct receive *rc = ctx;
    AUTO_CLOSE int fd = -1;
    char path[TREE_PATH_MAX];
    const struct sync_entry *x;
    int n = snprintf(path, sizeof path, STR_FMT "%s%s", STR_ARG(dir), dir.n ? "/" : "", name);

    if (n < 0 || (size_t)n >= sizeof path)
        return false; /* longer than any path */
    x = sync_manifest_find(&rc->manifest, str_from(path));
    if (x && x->seen && x->box_kind != KIND_NONE)
        return true;
    fd = host_open(rc->dir, path, O_PATH | O_NOFOLLOW, 0);
    return fd >= 0;
}

const char *receive_held(const struct receive *rc, struct str path, bool is_dir)
{
    const struct sensitive_view view = { rc->place, on_name_query, rc };
    const char *why = is_dir && !rc->judges_dirs ? NULL : sensitive_reason(&view, path);

    return why && !receive_accepts(rc, path, is_dir) ? why : NULL;
}

/* Whether the first component of a path is new: neither on the host nor in the manifest. */
static bool has_new_top(const struct receive *rc, const struct tree_path *path)
{
    char name[NAME_MAX + 1];
    const struct sync_entry *x;
    struct stat st;
    struct str top;

    (void)str_cut((struct str){ path->text, path->n }, '/', &top);
    if (!str_copy(top, name, sizeof name))
        return true;
    x = sync_manifest_find(&rc->manifest, top);
    return !(x && x->recorded) && fstatat(rc->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0;
}

/* It is a directory on every side that has it. */
static bool is_dir_item(const struct item *it)
{
    return it->box.kind == KIND_DIR && (!it->host.there || it->host.kind == KIND_DIR);
}

/* Vetoes a name independent of its content. */
static void judge_item_name(struct receive *rc, struct item *it)
{
    bool is_dir = is_dir_item(it);
    const char *sensitive = receive_held(rc, it->entry->path, is_dir);

    if (!sensitive && place_is_home(rc->place) && has_new_top(rc, &it->path) &&
        !receive_accepts(rc, it->entry->path, is_dir))
        sensitive = "it is a new name at the top of a home directory";
    if (host_is_temp(tree_path_name(&it->path)))
        veto_item(it, SYNC_REFUSED, "the name is reserved for temporary files of this program");
    if (sensitive)
        veto_item(it, SYNC_SENSITIVE, sensitive);
    if (it->box.kind == KIND_LINK && link_leads_out(str_from(it->target), it->path.depth - 1))
        veto_item(it, SYNC_REFUSED, "the link leads out of the directory");
}

static bool has_same_mode(const struct item *it)
{
    return it->host.kind == it->box.kind && (it->host.st.st_mode & PERMISSIONS) == it->box.mode;
}

/* Whether its directory exists, or would in a real run. */
static bool has_parent(const struct receive *rc, const struct item *it)
{
    const struct sync_entry *parent;

    if (it->host.parent >= 0 || it->path.name == 0)
        return true;
    parent = sync_manifest_find(&rc->manifest, (struct str){ it->path.text, it->path.name - 1 });
    return has_flag(rc, SYNC_DRY_RUN) && parent && parent->made;
}

/* Reads the sandbox's side and compares it with the host's. Files are replaced as a whole, so a new
 * mode needs the content, too. */
static int take_value(struct receive *rc, struct item *it, struct err *e)
{
    bool hashes = has_flag(rc, SYNC_DRY_RUN) || it->veto_reason || it->host.parent < 0;
    char target[TREE_PATH_MAX];
    int r = 0;

    it->same = has_same_mode(it);
    if (it->box.kind == KIND_FILE) {
        r = content_read(&it->content, &rc->in, &rc->manifest.key, &it->host,
                         hashes     ? CONTENT_HASH
                         : it->same ? CONTENT_IF_DIFFERENT
                                    : CONTENT_ALWAYS,
                         e);
        it->box.hash = it->content.hash;
        it->same = it->same && it->content.same;
    } else if (it->box.kind == KIND_LINK) {
        it->box.hash = sip_str(&rc->manifest.key, str_from(it->target));
        it->same = it->host.kind == KIND_LINK &&
                   host_target(it->host.parent, it->host.name, target) >= 0 &&
                   strcmp(target, it->target) == 0;
    }
    return r;
}

/* Notes that content is not applied: a file that was deleted inside may have been moved there. */
static void note_withheld(struct receive *rc, const struct item *it)
{
    if (it->box.kind == KIND_FILE && !it->entry->landed && !it->entry->temp)
        rc->withheld = true;
}

/* Applies the decision table and the vetoes. */
static void act_on_item(struct receive *rc, struct item *it)
{
    const struct decision *d = sync_decide(item_host_state(it, rc), box_state(it));
    enum step step = d->step;
    enum sync_action action;

    if (step == STEP_CONFLICT && has_flag(rc, SYNC_FORCE))
        step = d->forced;
    action = d->step == STEP_CONFLICT ? SYNC_OVERWRITTEN
             : step == STEP_CREATE    ? SYNC_CREATED
                                      : SYNC_REPLACED;
    if (step == STEP_NOTHING)
        return;
    if (!receive_wants(rc, it->entry->path, is_dir_item(it)))
        ; /* stays inside, without a line */
    else if (step == STEP_CONFLICT)
        receive_note(rc, SYNC_CONFLICT, it->entry->path, d->reason);
    else if (it->veto_reason)
        receive_note(rc, it->veto, it->entry->path, it->veto_reason);
    else if (!has_parent(rc, it))
        receive_note(rc, SYNC_CONFLICT, it->entry->path,
                     "its directory does not exist on the host");
    else
        receive_apply(rc, it, action);
    note_withheld(rc, it);
}

static int receive_item(struct receive *rc, struct item *it, struct err *e)
{
    int r;

    it->entry->seen = true;
    it->entry->box_kind = it->box.kind;
    if (it->veto_reason) { /* the host file could not be read */
        receive_note(rc, it->veto, it->entry->path, it->veto_reason);
        note_withheld(rc, it);
        return 0;
    }
    judge_item_name(rc, it);
    r = take_value(rc, it, e);
    if (r < 0)
        return r;
    if (it->same)
        receive_record(it->entry, &it->box, sync_identity_of(&it->host.st, it->host.now_ns));
    else
        act_on_item(rc, it);
    return 0;
}

/* Adds a directory that the stream does not mention. */
static int imply_dir(struct receive *rc, struct str path, struct err *e)
{
    AUTO(item_done) struct item it = { .content = { .fd = -1 }, .host = { .parent = -1 } };
    struct tree_path parent;
    int r = tree_path(path, &parent, e);

    if (r >= 0)
        r = item_init(&it, rc, &parent, e);
    if (r < 0)
        return r;
    it.box.kind = KIND_DIR;
    it.box.mode = it.entry->recorded && it.entry->value.kind == KIND_DIR ? it.entry->value.mode
                                                                         : IMPLIED_MODE;
    return receive_item(rc, &it, e);
}

/* Ensures that all parents of a path are directories of the stream: 1, or 0 if not. */
static int receive_parents(struct receive *rc, const struct tree_path *path, struct err *e)
{
    for (size_t n = 0; n < path->name; n++) {
        struct str above = { path->text, n };
        const struct sync_entry *x;
        int r;

        if (path->text[n] != '/')
            continue;
        x = sync_manifest_find(&rc->manifest, above);
        if (x && x->seen && x->box_kind != KIND_DIR)
            return 0;
        r = x && x->seen ? 0 : imply_dir(rc, above, e);
        if (r < 0)
            return r;
    }
    return 1;
}

static int receive_entry(struct receive *rc, const struct tree_path *path, struct err *e)
{
    static const enum sync_kind kinds[TAR_TYPE_COUNT_] = {
        [TAR_FILE] = KIND_FILE, [TAR_DIR] = KIND_DIR, [TAR_SYMLINK] = KIND_LINK
    };
    const struct tar_entry *t = &rc->in.entry;
    AUTO(item_done) struct item it = { .content = { .fd = -1 }, .host = { .parent = -1 } };
    int placed = receive_parents(rc, path, e), r;

    if (placed < 0)
        return placed;
    r = item_init(&it, rc, path, e);
    if (r < 0)
        return r;
    it.box.kind = kinds[t->type];
    it.box.mode = it.box.kind == KIND_LINK ? 0 : t->mode & PERMISSIONS;
    it.target = t->link;
    it.mtime = t->mtime;
    if (placed > 0 && it.box.kind != KIND_NONE && !it.entry->seen)
        return receive_item(rc, &it, e);
    receive_note(rc, SYNC_REFUSED, it.entry->path,
                 placed == 0               ? "its parent in the stream is not a directory"
                 : it.entry->seen          ? "the name occurs twice in the stream"
                 : t->type == TAR_HARDLINK ? "hard links are not supported"
                                           : "neither a file, a directory nor a symbolic link");
    it.entry->seen = true;
    return 0;
}

/* Removes the top directory from the path, and checks the limits. */
static int stream_path(struct receive *rc, struct tree_path *ret, struct err *e)
{
    const struct sync_limits *l = &rc->manifest.limits;
    struct str top = str_from(rc->o->top), rest;
    struct tree_path whole;
    int r = tree_path(str_from(rc->in.entry.path), &whole, e);

    if (r < 0)
        return r;
    rest = (struct str){ whole.text, whole.n };
    if (top.n > 0 && (!str_starts(rest, top) || (rest.n > top.n && rest.p[top.n] != '/')))
        return err_set(e, ERR_INVALID, "it is not below the top directory '%s'", rc->o->top);
    if (top.n > 0)
        rest = (struct str){ rest.p + top.n, rest.n - top.n };
    r = tree_path(rest.n > 0 ? rest : STR("."), ret, e);
    if (r >= 0 && (ret->n > l->path || ret->depth > l->depth))
        return err_set(e, ERR_TOO_BIG, "the path is longer than %u bytes or deeper than %u",
                       l->path, l->depth);
    return r;
}

static int receive_next(struct receive *rc, struct err *e)
{
    struct tree_path path;
    int r = stream_path(rc, &path, e);

    if (r < 0)
        return r;
    if (rc->in.entry.size > rc->manifest.limits.bytes - rc->bytes)
        return err_set(e, ERR_TOO_BIG, "the files have more than %llu bytes together",
                       (unsigned long long)rc->manifest.limits.bytes);
    rc->bytes += rc->in.entry.size;
    if (path.n == 0) /* the synced directory itself keeps its attributes */
        return 0;
    rc->report->entries++;
    return receive_entry(rc, &path, e);
}

static int receive_all(struct receive *rc, int manifest_in, int manifest_out, struct err *e)
{
    struct err later = { 0 };
    int r = manifest_in < 0 ? 0 : sync_manifest_load(&rc->manifest, manifest_in, e), end;

    if (r >= 0 && !has_flag(rc, SYNC_DRY_RUN))
        r = host_sweep(rc->dir, e);
    if (r < 0)
        return r;
    while (r >= 0 && (r = tar_next(&rc->in, e)) > 0) {
        r = tar_wrap(&rc->in, receive_next(rc, e), e);
        if (r >= 0 && rc->o->moved)
            rc->o->moved(rc->o->ctx, rc->bytes);
    }
    end = receive_finish(rc, r >= 0, &later);
    if (end >= 0 && manifest_out >= 0 && !has_flag(rc, SYNC_DRY_RUN)) {
        end = sync_manifest_save(&rc->manifest, manifest_out, &later);
        rc->report->manifest = end >= 0;
    }
    if (r >= 0 && end < 0 && e)
        *e = later;
    return r < 0 ? r : end;
}

int sync_receive(int dir, int tar_in, int manifest_in, int manifest_out,
                 const struct sync_job_options *o, struct sync_report *ret, struct err *e)
{
    AUTO_CLOSE int lock = -1;
    struct sync_place place;
    struct receive rc; /* not zeroed: most of it is buffers */
    int r;

    *ret = (struct sync_report){ 0 };
    r = host_lock(dir, &lock, e);
    if (r < 0)
        return r;
    rc.dir = lock;
    if (!o->place)
        sync_place_find(lock, &place);
    rc.place = o->place ? o->place : &place;
    rc.judges_dirs = sensitive_place(rc.place);
    rc.withheld = false;
    rc.landed = NULL;
    rc.n_landed = 0;
    rc.o = o;
    rc.report = ret;
    rc.bytes = 0;
    tar_reader_init_fd(&rc.in, tar_in);
    r = sync_manifest_init(&rc.manifest, &o->limits, e);
    if (r >= 0)
        r = receive_all(&rc, manifest_in, manifest_out, e);
    sync_manifest_done(&rc.manifest);
    free(rc.landed);
    return r;
}
