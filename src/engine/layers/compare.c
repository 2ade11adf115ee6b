/* What differs between what a sandbox shows and what another stack of layers does.
 *
 * Layers at the bottom that both have are only looked into where one side hides something of them.
 * Content, kind, mode, owner and the target of a link count; times do not. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "layers/attributes.h"
#include "layers/changes.h"
#include "layers/view.h"
#include "tree/at.h"
#include "tree/tree.h"

enum { SIDE_MAX = LAYERS_STACK_MAX + 1 };

struct side {
    int trees[SIDE_MAX]; /* uppermost first */
    struct owners owners[SIDE_MAX];
    size_t n, own; /* of all; of those that the other does not have */
};

/* A directory that is still to be looked into. */
struct place {
    struct place *next;
    bool whole; /* something of the layers of both is hidden here: their names count, too */
    char path[];
};

struct names {
    char **p;
    size_t n, cap;
};

struct compare {
    struct keeper *keeper;
    struct side now, then;
    struct place *todo;
    struct names names;
    struct changes changes;
    uint64_t bytes;
};

/* --- what a side shows --- */

/* REMOVED: of what is below all of its layers. */
enum shown { SHOWN_NOT, SHOWN_THERE, SHOWN_REMOVED };

struct sight {
    enum shown shown;
    int tree;
    struct owners owners;
    struct stat st;
};

static bool is_there_below(const struct side *s, size_t from, const char *path)
{
    struct stat st;

    for (size_t i = from; i < s->n; i++)
        if (view_ask(s->trees[i], path, &st) == VIEW_THERE)
            return true;
    return false;
}

static struct sight look(const struct side *s, const char *path)
{
    struct sight x = { .shown = SHOWN_NOT };

    for (size_t i = 0; i < s->n; i++) {
        enum view v = view_ask(s->trees[i], path, &x.st);

        if (v == VIEW_NOT)
            continue;
        x.tree = s->trees[i];
        x.owners = s->owners[i];
        x.shown = v == VIEW_THERE                  ? SHOWN_THERE
                  : is_there_below(s, i + 1, path) ? SHOWN_NOT
                                                   : SHOWN_REMOVED;
        return x;
    }
    return x;
}

/* A layer of its own ends what shows through. */
static bool hides(const struct side *s, const char *path)
{
    for (size_t i = 0; i < s->own; i++) {
        AUTO_CLOSE int dir = -1;
        struct stat st;
        enum view v = view_ask(s->trees[i], path, &st);

        if (v == VIEW_GONE || (v == VIEW_THERE && !S_ISDIR(st.st_mode)))
            return true;
        if (v == VIEW_NOT)
            continue;
        dir = at_open(s->trees[i], path, O_RDONLY | O_DIRECTORY, 0);
        if (dir >= 0 && view_is_opaque(dir))
            return true;
    }
    return false;
}

/* --- whether two are the same --- */

static ssize_t read_full(int fd, char *p, size_t n)
{
    size_t at = 0;

    while (at < n) {
        ssize_t got = read(fd, p + at, n - at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -1 : (ssize_t)at;
        at += (size_t)got;
    }
    return (ssize_t)at;
}

/* One that cannot be opened any more has changed. */
static bool same_content(struct compare *c, const struct sight *a, const struct sight *b,
                         const char *path)
{
    static char one[TREE_CHUNK], other[TREE_CHUNK];
    AUTO_CLOSE int x = at_open(a->tree, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    AUTO_CLOSE int y = at_open(b->tree, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);

    while (x >= 0 && y >= 0) {
        ssize_t n = read_full(x, one, sizeof one), m = read_full(y, other, sizeof other);

        if (n != m || n < 0 || memcmp(one, other, (size_t)n) != 0)
            return false;
        if (n == 0)
            return true;
        c->bytes += (uint64_t)n;
        keeper_progress(c->keeper, c->bytes, c->changes.entries);
    }
    return false;
}

static ssize_t read_target(const struct sight *s, const char *path, char out[static TREE_PATH_MAX])
{
    AUTO_CLOSE int fd = at_open(s->tree, path, O_PATH | O_NOFOLLOW, 0);

    return fd < 0 ? -1 : readlinkat(fd, "", out, TREE_PATH_MAX);
}

static bool same_target(const struct sight *a, const struct sight *b, const char *path)
{
    static char one[TREE_PATH_MAX], other[TREE_PATH_MAX];
    ssize_t n = read_target(a, path, one), m = read_target(b, path, other);

    return n >= 0 && n == m && memcmp(one, other, (size_t)n) == 0;
}

static bool same_owner(const struct sight *a, const struct sight *b)
{
    uint32_t ids[4] = { 0 };

    return owners_inside(&a->owners, a->st.st_uid, &ids[0], NULL) >= 0 &&
           owners_inside(&a->owners, a->st.st_gid, &ids[1], NULL) >= 0 &&
           owners_inside(&b->owners, b->st.st_uid, &ids[2], NULL) >= 0 &&
           owners_inside(&b->owners, b->st.st_gid, &ids[3], NULL) >= 0 && ids[0] == ids[2] &&
           ids[1] == ids[3];
}

static bool is_same(struct compare *c, const struct sight *a, const struct sight *b,
                    const char *path)
{
    if (a->tree == b->tree)
        return true;
    if (a->st.st_mode != b->st.st_mode || !same_owner(a, b))
        return false;
    if (S_ISLNK(a->st.st_mode))
        return same_target(a, b, path);
    if (S_ISREG(a->st.st_mode))
        return a->st.st_size == b->st.st_size && same_content(c, a, b, path);
    return true;
}

/* --- names --- */

static void add_name(struct names *s, const char *name)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 256;
        s->p = reallocarray(s->p, s->cap, sizeof *s->p);
        if (!s->p)
            abort();
    }
    s->p[s->n] = strdup(name);
    if (!s->p[s->n++])
        abort();
}

static void drop_names(struct names *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->p[i]);
    s->n = 0;
}

/* A layer that does not have the directory adds nothing. */
static int add_names(struct compare *c, int tree, const char *path, struct err *e)
{
    int fd = at_open(tree, path[0] ? path : ".", O_RDONLY | O_DIRECTORY, 0);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *d;

    if (!dir) {
        drop_fd(&fd);
        return 0;
    }
    while ((d = readdir(dir)))
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            add_name(&c->names, d->d_name);
    closedir(dir);
    return c->names.n <= TREE_ENTRIES_DEFAULT
               ? 0
               : err_set(e, ERR_TOO_BIG, "a directory has too many files");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int collect(struct compare *c, const struct place *p, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < (p->whole ? c->now.n : c->now.own); i++)
        r = add_names(c, c->now.trees[i], p->path, e);
    for (size_t i = 0; r >= 0 && i < c->then.own; i++)
        r = add_names(c, c->then.trees[i], p->path, e);
    if (c->names.n)
        qsort(c->names.p, c->names.n, sizeof *c->names.p, by_name);
    return r;
}

/* --- the walk --- */

static void go_there_later(struct compare *c, const char *path, bool whole)
{
    struct place *p = malloc(sizeof *p + strlen(path) + 1);

    if (!p)
        abort();
    *p = (struct place){ .next = c->todo, .whole = whole };
    memcpy(p->path, path, strlen(path) + 1);
    c->todo = p;
}

static int tell(struct compare *c, const struct sight *now, const struct sight *then,
                const char *path, struct err *e)
{
    bool is = now->shown == SHOWN_THERE, was = then->shown == SHOWN_THERE;
    bool dirs = is && was && S_ISDIR(now->st.st_mode) && S_ISDIR(then->st.st_mode);

    if (changes_is_rewritten(path))
        return 0;
    if (is && was)
        return dirs || is_same(c, now, then, path)
                   ? 0
                   : changes_add(&c->changes, CHANGE_CHANGED, &now->st, path, e);
    if (is)
        return changes_add(&c->changes, CHANGE_ADDED, &now->st, path, e);
    if (was || (now->shown == SHOWN_REMOVED && then->shown == SHOWN_NOT))
        return changes_add(&c->changes, CHANGE_DELETED, NULL, path, e);
    return 0;
}

static int compare_one(struct compare *c, const struct place *p, const char *name, struct err *e)
{
    static char path[TREE_PATH_MAX];
    struct sight now, then;
    int r, n = snprintf(path, sizeof path, "%s%s%s", p->path, p->path[0] ? "/" : "", name);

    if (n < 0 || (size_t)n >= sizeof path)
        return err_set(e, ERR_TOO_BIG, "a path is longer than %d bytes", TREE_PATH_MAX - 1);
    if (changes_is_unwanted(path))
        return 0;
    keeper_progress(c->keeper, c->bytes, c->changes.entries);
    now = look(&c->now, path);
    then = look(&c->then, path);
    r = tell(c, &now, &then, path, e);
    if (r >= 0 && now.shown == SHOWN_THERE && S_ISDIR(now.st.st_mode))
        go_there_later(c, path, p->whole || hides(&c->now, path) || hides(&c->then, path));
    return r;
}

static int compare_place(struct compare *c, const struct place *p, struct err *e)
{
    int r = collect(c, p, e);

    for (size_t i = 0; r >= 0 && i < c->names.n; i++)
        if (i == 0 || strcmp(c->names.p[i], c->names.p[i - 1]) != 0)
            r = compare_one(c, p, c->names.p[i], e);
    drop_names(&c->names);
    return r;
}

static int compare_all(struct compare *c, struct err *e)
{
    int r = 0;

    go_there_later(c, "", false);
    while (c->todo) {
        struct place *p = c->todo;

        c->todo = p->next;
        if (r >= 0)
            r = compare_place(c, p, e);
        free(p);
    }
    free(c->names.p);
    return r < 0 ? r : changes_flush(&c->changes, e);
}

/* --- the sides --- */

static int add_tree(struct side *s, int tree, struct err *e)
{
    struct stat st;

    if (fstat(tree, &st) < 0)
        return err_sys(e, "looking at a layer");
    s->trees[s->n] = tree;
    s->owners[s->n++] = owners_of(&st);
    return 0;
}

static int add_layers(struct keeper *k, struct side *s, char names[][LAYER_NAME_MAX], uint64_t n,
                      struct err *e)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++) {
        r = storage_open_layer(&k->storage, names[i], e);
        if (r >= 0)
            r = add_tree(s, r, e);
    }
    return r;
}

/* The same tree at the bottom of both is opened once, so that it is known by its descriptor. */
static int open_sides(struct compare *c, struct err *e)
{
    struct layers_job *j = &c->keeper->job;
    size_t a = j->n_below, b = j->n_against;
    int r = add_tree(&c->now, c->keeper->fds[0], e);

    while (a > 0 && b > 0 && strcmp(j->below[a - 1], j->against[b - 1]) == 0) {
        a--;
        b--;
    }
    if (r >= 0)
        r = add_layers(c->keeper, &c->now, j->below, j->n_below, e);
    if (r >= 0)
        r = add_layers(c->keeper, &c->then, j->against, b, e);
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

int keeper_compare(struct keeper *k, struct err *e)
{
    static struct compare c; /* large, and there is one job a process */
    int r;

    c = (struct compare){ .keeper = k, .changes = { .keeper = k } };
    if (!k->job.entries_max)
        k->job.entries_max = TREE_ENTRIES_DEFAULT;
    r = changes_find(k, e);
    if (r >= 0)
        r = open_sides(&c, e);
    if (r >= 0)
        r = compare_all(&c, e);
    k->done.entries = c.changes.entries;
    return r;
}
