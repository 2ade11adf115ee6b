/* SPDX-License-Identifier: Apache-2.0 */
/* The changes on the host since the last common state, without the sandbox's side. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/sync/host.h"
#include "engine/sync/manifest.h"
#include "engine/sync/sync.h"
#include "lib/tar/walk.h"

struct sync_looker {
    const struct sync_job_options *o;
    struct sync_report *report;
    struct sync_manifest manifest;
    struct walk walk;
    char path[TREE_PATH_MAX]; /* of the current name */
    size_t path_n;
    bool blind; /* some directory could not be read: names that were not seen may be there */
};

static void note_looked(struct sync_looker *s, enum sync_action action, struct str path,
                        const char *reason)
{
    s->report->count[action]++;
    if (s->o->line)
        s->o->line(s->o->ctx, &(struct sync_line){ action, path, reason });
}

static int append_looked_name(struct sync_looker *s, const char *name, struct err *e)
{
    size_t n = strlen(name);

    if (s->path_n + 1 + n + 1 > sizeof s->path)
        return err_set(e, ERR_TOO_BIG, "a path is longer than %zu bytes", sizeof s->path);
    if (s->path_n > 0)
        s->path[s->path_n++] = '/';
    memcpy(s->path + s->path_n, name, n + 1);
    s->path_n += n;
    return 0;
}

static void cut_looked_path(struct sync_looker *s, size_t path_n)
{
    s->path_n = path_n;
    s->path[path_n] = '\0';
}

/* A new file that could not be copied either is no difference. */
static bool can_read_name(const struct found_file *f)
{
    AUTO_CLOSE int fd = -1;

    if (f->kind == KIND_LINK)
        return true;
    fd = host_open(f->parent, f->name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0);
    return fd >= 0;
}

static int enter_looked_dir(struct sync_looker *s, const struct found_file *f, struct err *e)
{
    int fd = host_open(f->parent, f->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

    s->blind |= fd < 0;
    return fd < 0 ? 0 : walk_enter(&s->walk, fd, "", e);
}

/* The contents of a new directory are as new as itself. */
static int look_at_kind(struct sync_looker *s, const struct found_file *f, struct err *e)
{
    const struct str path = { s->path, s->path_n };
    struct sync_entry *x = sync_manifest_find(&s->manifest, path);

    if (!x) {
        if (can_read_name(f))
            note_looked(s, SYNC_CREATED, path, "");
        return 0;
    }
    x->seen = true;
    if (!host_unchanged(f, x, &s->manifest.key))
        note_looked(s, SYNC_REPLACED, path, "");
    return f->kind == KIND_DIR && x->value.kind == KIND_DIR ? enter_looked_dir(s, f, e) : 0;
}

static int look_at_name(struct sync_looker *s, const char *name, struct err *e)
{
    struct found_file f = { .parent = walk_top(&s->walk)->fd, .name = name, .there = true };
    unsigned depth = s->walk.depth;
    size_t path_n = s->path_n;
    int r;

    if (host_is_temp(name) || fstatat(f.parent, name, &f.st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    f.kind = host_kind(&f.st);
    if (f.kind == KIND_NONE)
        return 0;
    if (++s->report->entries > s->manifest.limits.entries)
        return err_set(e, ERR_TOO_BIG, "the directory has more than %llu names",
                       (unsigned long long)s->manifest.limits.entries);
    r = append_looked_name(s, name, e);
    if (r >= 0)
        r = look_at_kind(s, &f, e);
    if (r >= 0 && s->walk.depth == depth) /* else its contents follow */
        cut_looked_path(s, path_n);
    return r;
}

static int look_at_tree(struct sync_looker *s, struct err *e)
{
    int r = 0;

    while (r >= 0 && s->walk.depth > 0) {
        const char *name, *slash;

        r = walk_next(&s->walk, &name, e);
        if (r > 0) {
            r = look_at_name(s, name, e);
        } else if (r == 0) {
            walk_leave(&s->walk);
            slash = strrchr(s->path, '/');
            cut_looked_path(s, slash ? (size_t)(slash - s->path) : 0);
        }
    }
    return r;
}

/* Its directory is gone, too, and is noted. */
static bool has_lost_parent(const struct sync_looker *s, struct str path)
{
    const struct sync_entry *x;

    while (path.n > 0 && path.p[path.n - 1] != '/')
        path.n--;
    if (path.n == 0)
        return false;
    x = sync_manifest_find(&s->manifest, (struct str){ path.p, path.n - 1 });
    return x && !x->seen;
}

static int note_lost_names(struct sync_looker *s, struct err *e)
{
    struct sync_entry **list = NULL;
    int r = s->blind ? 0 : sync_manifest_sorted(&s->manifest, &list, e);

    for (size_t i = 0; list && list[i]; i++)
        if (!list[i]->seen && !has_lost_parent(s, list[i]->path))
            note_looked(s, SYNC_DELETED, list[i]->path, "");
    free(list);
    return r;
}

int sync_look(int dir, int manifest_in, const struct sync_job_options *o, struct sync_report *ret,
              struct err *e)
{
    struct sync_looker s; /* not zeroed: most of it is buffers */
    int r, top = host_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);

    *ret = (struct sync_report){ 0 };
    if (top < 0)
        return err_sys(e, "opening the directory");
    s.o = o;
    s.report = ret;
    s.manifest = (struct sync_manifest){ 0 };
    s.blind = false;
    cut_looked_path(&s, 0);
    walk_init(&s.walk);
    r = walk_enter(&s.walk, top, "", e);
    if (r >= 0)
        r = sync_manifest_init(&s.manifest, &o->limits, e);
    if (r >= 0)
        r = sync_manifest_load(&s.manifest, manifest_in, e);
    if (r >= 0)
        r = look_at_tree(&s, e);
    if (r >= 0)
        r = note_lost_names(&s, e);
    walk_done(&s.walk);
    sync_manifest_done(&s.manifest);
    return r;
}
