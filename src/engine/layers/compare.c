/* SPDX-License-Identifier: Apache-2.0 */
/* LAYERS_COMPARE: lists the differences between the tree that a sandbox sees and another stack of
 * layers.
 *
 * Layers at the bottom that both stacks share are only read where one side hides something in them.
 * Content, kind, mode, owner and link target are compared; times are not. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "engine/layers/attributes.h"
#include "engine/layers/changes.h"
#include "engine/layers/view.h"
#include "lib/tar/at.h"
#include "lib/tar/tree.h"

enum { SIDE_MAX = LAYERS_STACK_MAX + 1 };

struct side {
    int trees[SIDE_MAX]; /* uppermost first */
    struct owners owners[SIDE_MAX];
    size_t n, own; /* number of all trees; of those that the other side does not have */
};

/* A directory that is still to be compared. */
struct pending_dir {
    struct pending_dir *next;
    bool whole; /* part of the shared layers is hidden here: their names are compared, too */
    char path[];
};

struct name_list {
    char **p;
    size_t n, cap;
};

struct compare {
    struct layer_worker *layer_worker;
    struct side now, then;
    struct pending_dir *todo;
    struct name_list names;
    struct change_records changes;
    uint64_t bytes;
};

/* --- lookup --- */

/* SIDE_REMOVED: a whiteout for a name that none of the side's lower layers has. */
enum side_state { SIDE_ABSENT, SIDE_PRESENT, SIDE_REMOVED };

struct side_entry {
    enum side_state state;
    int tree;
    struct owners owners;
    struct stat st;
};

static bool is_present_below(const struct side *s, size_t from, const char *path)
{
    struct stat st;

    for (size_t i = from; i < s->n; i++)
        if (view_look_up(s->trees[i], path, &st) == VIEW_PRESENT)
            return true;
    return false;
}

static struct side_entry look_up_side(const struct side *s, const char *path)
{
    struct side_entry x = { .state = SIDE_ABSENT };

    for (size_t i = 0; i < s->n; i++) {
        enum view v = view_look_up(s->trees[i], path, &x.st);

        if (v == VIEW_UNMENTIONED)
            continue;
        x.tree = s->trees[i];
        x.owners = s->owners[i];
        x.state = v == VIEW_PRESENT                  ? SIDE_PRESENT
                  : is_present_below(s, i + 1, path) ? SIDE_ABSENT
                                                     : SIDE_REMOVED;
        return x;
    }
    return x;
}

/* True if a layer that the other side does not have hides the shared layers at this path. */
static bool hides_shared_layers(const struct side *s, const char *path)
{
    for (size_t i = 0; i < s->own; i++) {
        AUTO_CLOSE int dir = -1;
        struct stat st;
        enum view v = view_look_up(s->trees[i], path, &st);

        if (v == VIEW_WHITEOUT || (v == VIEW_PRESENT && !S_ISDIR(st.st_mode)))
            return true;
        if (v == VIEW_UNMENTIONED)
            continue;
        dir = at_open(s->trees[i], path, O_RDONLY | O_DIRECTORY, 0);
        if (dir >= 0 && view_is_opaque(dir))
            return true;
    }
    return false;
}

/* --- comparison --- */

/* A file that cannot be opened counts as changed. */
static bool same_file_content(struct compare *c, const struct side_entry *a,
                              const struct side_entry *b, const char *path)
{
    static char one[TREE_CHUNK], other[TREE_CHUNK];
    AUTO_CLOSE int x = at_open_here(a->tree, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    AUTO_CLOSE int y = at_open_here(b->tree, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);

    for (off_t at = 0; x >= 0 && y >= 0; at += TREE_CHUNK) {
        ssize_t n = pread_full(x, one, sizeof one, at);
        ssize_t m = pread_full(y, other, sizeof other, at);

        if (n != m || n < 0 || memcmp(one, other, (size_t)n) != 0)
            return false;
        if (n == 0)
            return true;
        c->bytes += (uint64_t)n;
        layer_worker_report_progress(c->layer_worker, c->bytes, c->changes.entries);
    }
    return false;
}

static bool same_link_target(const struct side_entry *a, const struct side_entry *b,
                             const char *path)
{
    static char one[TREE_PATH_MAX], other[TREE_PATH_MAX];
    AUTO_CLOSE int x = at_open(a->tree, path, O_PATH | O_NOFOLLOW, 0);
    AUTO_CLOSE int y = at_open(b->tree, path, O_PATH | O_NOFOLLOW, 0);
    ssize_t n = x < 0 ? -1 : readlinkat(x, "", one, sizeof one);

    return n >= 0 && y >= 0 && readlinkat(y, "", other, sizeof other) == n &&
           memcmp(one, other, (size_t)n) == 0;
}

static bool same_owner(const struct side_entry *a, const struct side_entry *b)
{
    uint32_t ids[4] = { 0 };

    return owners_inside(&a->owners, a->st.st_uid, &ids[0], NULL) >= 0 &&
           owners_inside(&a->owners, a->st.st_gid, &ids[1], NULL) >= 0 &&
           owners_inside(&b->owners, b->st.st_uid, &ids[2], NULL) >= 0 &&
           owners_inside(&b->owners, b->st.st_gid, &ids[3], NULL) >= 0 && ids[0] == ids[2] &&
           ids[1] == ids[3];
}

static bool is_same_layer_entry(struct compare *c, const struct side_entry *a,
                                const struct side_entry *b, const char *path)
{
    if (a->tree == b->tree)
        return true;
    if (a->st.st_mode != b->st.st_mode || !same_owner(a, b))
        return false;
    if (S_ISLNK(a->st.st_mode))
        return same_link_target(a, b, path);
    return !S_ISREG(a->st.st_mode) ||
           (a->st.st_size == b->st.st_size && same_file_content(c, a, b, path));
}

/* --- names --- */

static void append_name(struct name_list *s, const char *name)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 256;
        s->p = reallocarray(s->p, s->cap, sizeof *s->p);
    }
    if (!s->p || !(s->p[s->n++] = strdup(name)))
        abort();
}

/* Adds the names of a directory in one layer; none if the layer does not have it. */
static int add_names(struct compare *c, int tree, const char *path, struct err *e)
{
    int fd = at_open_here(tree, path[0] ? path : ".", O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *d;

    if (!dir) {
        drop_fd(&fd);
        return 0;
    }
    while ((d = readdir(dir)))
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            append_name(&c->names, d->d_name);
    closedir(dir);
    return c->names.n <= TREE_ENTRIES_DEFAULT
               ? 0
               : err_set(e, ERR_TOO_BIG, "a directory has more files than can be compared");
}

static int compare_side_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* --- the walk --- */

static void queue_dir(struct compare *c, const char *path, bool whole)
{
    struct pending_dir *p = new0(sizeof *p + strlen(path) + 1);

    p->next = c->todo;
    p->whole = whole;
    memcpy(p->path, path, strlen(path));
    c->todo = p;
}

static int report_difference(struct compare *c, const struct side_entry *now,
                             const struct side_entry *then, const char *path, struct err *e)
{
    bool is = now->state == SIDE_PRESENT, was = then->state == SIDE_PRESENT;
    bool dirs = is && was && S_ISDIR(now->st.st_mode) && S_ISDIR(then->st.st_mode);

    if (changes_is_rewritten(path))
        return 0;
    if (is && was)
        return dirs || is_same_layer_entry(c, now, then, path)
                   ? 0
                   : changes_add(&c->changes, CHANGE_CHANGED, &now->st, path, e);
    if (is)
        return changes_add(&c->changes, CHANGE_ADDED, &now->st, path, e);
    if (was || (now->state == SIDE_REMOVED && then->state == SIDE_ABSENT))
        return changes_add(&c->changes, CHANGE_DELETED, NULL, path, e);
    return 0;
}

static int compare_one(struct compare *c, const struct pending_dir *p, const char *name,
                       struct err *e)
{
    static char path[TREE_PATH_MAX];
    struct side_entry now, then;
    int r, n = snprintf(path, sizeof path, "%s%s%s", p->path, p->path[0] ? "/" : "", name);

    if (n < 0 || (size_t)n >= sizeof path)
        return err_set(e, ERR_TOO_BIG, "a path is longer than %d bytes", TREE_PATH_MAX - 1);
    if (changes_is_skipped(path))
        return 0;
    layer_worker_report_progress(c->layer_worker, c->bytes, c->changes.entries);
    now = look_up_side(&c->now, path);
    then = look_up_side(&c->then, path);
    r = report_difference(c, &now, &then, path, e);
    if (r >= 0 && now.state == SIDE_PRESENT && S_ISDIR(now.st.st_mode))
        queue_dir(c, path,
                  p->whole || hides_shared_layers(&c->now, path) ||
                      hides_shared_layers(&c->then, path));
    return r;
}

static int compare_dir(struct compare *c, const struct pending_dir *p, struct err *e)
{
    struct name_list *names = &c->names;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < (p->whole ? c->now.n : c->now.own); i++)
        r = add_names(c, c->now.trees[i], p->path, e);
    for (size_t i = 0; r >= 0 && i < c->then.own; i++)
        r = add_names(c, c->then.trees[i], p->path, e);
    if (names->n)
        qsort(names->p, names->n, sizeof *names->p, compare_side_names);
    for (size_t i = 0; r >= 0 && i < names->n; i++)
        if (i == 0 || strcmp(names->p[i], names->p[i - 1]) != 0)
            r = compare_one(c, p, names->p[i], e);
    while (names->n > 0)
        free(names->p[--names->n]);
    return r;
}

static int compare_all(struct compare *c, struct err *e)
{
    int r = 0;

    queue_dir(c, "", false);
    while (c->todo) {
        struct pending_dir *p = c->todo;

        c->todo = p->next;
        if (r >= 0)
            r = compare_dir(c, p, e);
        free(p);
    }
    free(c->names.p);
    return r < 0 ? r : changes_flush(&c->changes, e);
}

/* --- the sides --- */

static int add_side_tree(struct side *s, int tree, struct err *e)
{
    struct stat st;

    if (fstat(tree, &st) < 0)
        return err_sys(e, "reading the attributes of a layer");
    s->trees[s->n] = tree;
    s->owners[s->n++] = owners_of(&st);
    return 0;
}

static int add_side_layers(struct layer_worker *k, struct side *s, char names[][LAYER_NAME_MAX],
                           uint64_t n, struct err *e)
{
    int tree, r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++) {
        tree = storage_open_layer(&k->storage, names[i], e);
        r = tree < 0 ? tree : add_side_tree(s, tree, e);
    }
    return r;
}

/* Opens a layer that both sides share once, so that equal descriptors identify it. */
static int open_sides(struct compare *c, struct err *e)
{
    struct layers_job *j = &c->layer_worker->job;
    size_t a = j->n_below, b = j->n_against;
    int r = add_side_tree(&c->now, c->layer_worker->fds[0], e);

    while (a > 0 && b > 0 && strcmp(j->below[a - 1], j->against[b - 1]) == 0) {
        a--;
        b--;
    }
    if (r >= 0)
        r = add_side_layers(c->layer_worker, &c->now, j->below, j->n_below, e);
    if (r >= 0)
        r = add_side_layers(c->layer_worker, &c->then, j->against, b, e);
    if (r < 0)
        return r;
    c->now.own = a + 1;
    c->then.own = b;
    for (size_t i = c->now.own; i < c->now.n; i++) {
        c->then.trees[c->then.n] = c->now.trees[i];
        c->then.owners[c->then.n++] = c->now.owners[i];
    }
    return 0;
}

int layer_worker_compare(struct layer_worker *k, struct err *e)
{
    static struct compare c; /* large, and there is one job a process */
    int r;

    c = (struct compare){ .layer_worker = k, .changes = { .layer_worker = k } };
    if (!k->job.entries_max)
        k->job.entries_max = TREE_ENTRIES_DEFAULT;
    r = changes_open_source(k, e);
    if (r >= 0)
        r = open_sides(&c, e);
    if (r >= 0)
        r = compare_all(&c, e);
    k->done.entries = c.changes.entries;
    return r;
}
