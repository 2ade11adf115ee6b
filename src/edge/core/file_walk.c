/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/file_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"

enum { PATH_ROOM = 8 << 10 }; /* the longest directory path and a name in it */

struct file_place {
    const char *path;
    uint32_t depth;
    struct file_place *next;
};

static bool queue_walk_directory(struct file_walk *w, const char *path, uint32_t depth)
{
    struct file_place *p = arena_alloc(&w->call->arena, sizeof *p);

    if (!p)
        return false;
    *p = (struct file_place){ .path = path, .depth = depth };
    *w->last_ = p;
    w->last_ = &p->next;
    return true;
}

static bool take_walk_entry(struct file_walk *w, const struct file_place *p,
                            const struct backend_entry *v)
{
    char path[PATH_ROOM];
    int n = snprintf(path, sizeof path, "%s/" STR_FMT, strcmp(p->path, "/") == 0 ? "" : p->path,
                     STR_ARG(v->name));
    const char *kept;

    if (n < 0 || (size_t)n >= sizeof path || ++w->entries_ > (w->most ? w->most : FILE_WALK_MAX) ||
        !w->entry(w, path, v))
        return false;
    if (!S_ISDIR(v->mode) || p->depth <= 1)
        return true;
    kept = arena_dup(&w->call->arena, (struct str){ path, (size_t)n });
    return kept && queue_walk_directory(w, kept, p->depth - 1);
}

static bool take_walk_entries(struct file_walk *w, const struct file_place *p, struct str in)
{
    struct backend_entry v;
    ssize_t n;

    while ((n = backend_entry_read(in, &v)) > 0) {
        if (!take_walk_entry(w, p, &v))
            return false;
        in = (struct str){ in.p + n, in.n - (size_t)n };
    }
    return n == 0 && !in.n;
}

static void list_next_directory(struct file_walk *w);

static void on_directory_listed(struct file_take *t, const struct err *e)
{
    struct file_walk *w = container_of(t, struct file_walk, take_);
    const struct file_place *p = w->places_;
    struct err why;

    w->places_ = p->next;
    if (!w->places_)
        w->last_ = &w->places_;
    if (e && p->path == w->root_) {
        w->done(w, e);
    } else if (!e && !take_walk_entries(w, p, buf_str(&t->data))) {
        (void)err_set(&why, ERR_TOO_BIG,
                      "there are more entries than one request may list: name a directory further "
                      "down");
        w->done(w, &why);
    } else {
        list_next_directory(w);
    }
}

static void list_next_directory(struct file_walk *w)
{
    struct err why;

    if (!w->call->x)
        return;
    if (!w->places_) {
        w->done(w, NULL);
        return;
    }
    if (w->deadline && clock_mono() >= w->deadline) {
        (void)err_set(&why, ERR_TIMEOUT, "listing took too long: name a directory further down");
        w->done(w, &why);
        return;
    }
    /* a copy: the operation modifies its path */
    w->paths_[0] = arena_dup(&w->call->arena, str_from(w->places_->path));
    file_take_start(&w->take_, w->call, START_LIST, w->paths_, w->user, w->mode,
                    on_directory_listed);
}

void file_walk_start(struct file_walk *w, struct call *c, const char *path, uint32_t depth)
{
    w->call = c;
    w->root_ = path;
    w->last_ = &w->places_;
    if (!queue_walk_directory(w, path, depth ? depth : 1))
        abort();
    list_next_directory(w);
}

/* --- entries --- */

void entry_mode_text(uint32_t mode, char ret[static ENTRY_MODE_TEXT])
{
    static const char bits[] = "rwxrwxrwx";

    snprintf(ret, ENTRY_MODE_TEXT, "%c---------", S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'L' : '-');
    for (unsigned i = 0; i < 9; i++)
        if (mode & (0400u >> i))
            ret[1 + i] = bits[i];
}

void entry_write_owner(struct json_writer *w, const char *key, uint32_t id)
{
    char number[16];

    snprintf(number, sizeof number, "%u", id);
    json_field_text(w, key, id == 0 ? "root" : id == 1000 ? "user" : number);
}
