#include "api/file_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct file_place {
    const char *path;
    uint32_t depth;
    struct file_place *next;
};

static bool add_place(struct file_walk *w, const char *path, uint32_t depth)
{
    struct file_place *p = arena_alloc(&w->call->arena, sizeof *p);

    if (!p)
        return false;
    *p = (struct file_place){ .path = path, .depth = depth };
    *w->last_ = p;
    w->last_ = &p->next;
    return true;
}

static const char *join(struct arena *a, const char *dir, struct str name)
{
    size_t n = strlen(dir) + name.n + 2;
    char *path = arena_alloc(a, n);

    if (path)
        snprintf(path, n, "%s/" STR_FMT, strcmp(dir, "/") == 0 ? "" : dir, STR_ARG(name));
    return path;
}

static bool take_entry(struct file_walk *w, const struct file_place *p, const struct ext_entry *v)
{
    const char *path = join(&w->call->arena, p->path, v->name);

    if (!path || ++w->entries_ > FILE_WALK_MAX || !w->entry(w, path, v))
        return false;
    return !S_ISDIR(v->mode) || p->depth <= 1 || add_place(w, path, p->depth - 1);
}

static bool take_entries(struct file_walk *w, const struct file_place *p, struct str in)
{
    struct ext_entry v;
    ssize_t n;

    while ((n = ext_entry_read(in, &v)) > 0) {
        if (!take_entry(w, p, &v))
            return false;
        in = (struct str){ in.p + n, in.n - (size_t)n };
    }
    return n == 0 && !in.n;
}

static void list_next(struct file_walk *w);

static void listed(struct file_take *t, const struct err *e)
{
    struct file_walk *w = container_of(t, struct file_walk, take_);
    const struct file_place *p = w->places_;
    struct err why;

    w->places_ = p->next;
    if (!w->places_)
        w->last_ = &w->places_;
    if (e && p->path == w->root_) {
        w->done(w, e);
    } else if (!e && !take_entries(w, p, buf_str(&t->data))) {
        (void)err_set(&why, ERR_TOO_BIG, "there are more entries than fit into an answer");
        w->done(w, &why);
    } else {
        list_next(w);
    }
}

static void list_next(struct file_walk *w)
{
    if (!w->call->x)
        return;
    if (!w->places_) {
        w->done(w, NULL);
        return;
    }
    w->paths_[0] = arena_dup(&w->call->arena, str_from(w->places_->path)); /* it may be cut up */
    file_take_start(&w->take_, w->call, EXT_LIST, w->paths_, w->user, w->mode, listed);
}

void file_walk_start(struct file_walk *w, struct call *c, const char *path, uint32_t depth)
{
    w->call = c;
    w->root_ = path;
    w->last_ = &w->places_;
    if (!add_place(w, path, depth ? depth : 1))
        abort();
    list_next(w);
}

void file_walk_done(struct file_walk *w)
{
    file_take_done(&w->take_);
}
