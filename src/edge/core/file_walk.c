/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/file_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/own.h"

enum {
    PATH_ROOM = 8 << 10, /* the longest directory path and a name in it */
    SORT_MAX = 4 * FILE_TAKE_MAX,
};

/* A directory whose entries are being visited. */
struct file_level {
    const char *path;
    uint32_t depth;
    struct str rest; /* the records that follow, sorted */
    struct file_level *above;
};

/* --- sorting --- */

struct file_record_at {
    struct str name, record;
};

static int compare_record_names(const void *a, const void *b)
{
    struct str x = ((const struct file_record_at *)a)->name,
               y = ((const struct file_record_at *)b)->name;
    int order = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);

    return order ? order : (x.n > y.n) - (x.n < y.n);
}

/* The number of records, and whether one is a directory; -1: malformed. */
static ssize_t count_records(struct str in, bool *ret_dirs)
{
    struct backend_entry v;
    ssize_t count = 0, n;

    *ret_dirs = false;
    while ((n = backend_entry_read(in, &v)) > 0) {
        *ret_dirs |= S_ISDIR(v.mode);
        count++;
        in = (struct str){ in.p + n, in.n - (size_t)n };
    }
    return n < 0 || in.n ? -1 : count;
}

bool file_walk_sort(struct str in, struct arena *a, struct str *ret)
{
    AUTO(arena_done) struct arena own = ARENA_INIT(SORT_MAX);
    bool dirs;
    ssize_t count = count_records(in, &dirs), n;
    struct file_record_at *all =
        count < 0 ? NULL : arena_array(&own, (size_t)count + 1, sizeof *all);
    char *text = all ? arena_alloc(a, in.n + 1) : NULL;

    if (!text)
        return false;
    *ret = (struct str){ text, in.n };
    for (ssize_t i = 0; i < count; i++) {
        struct backend_entry v;

        n = backend_entry_read(in, &v);
        all[i] = (struct file_record_at){ v.name, { in.p, (size_t)n } };
        in = (struct str){ in.p + n, in.n - (size_t)n };
    }
    qsort(all, (size_t)count, sizeof *all, compare_record_names);
    for (ssize_t i = 0; i < count; i++) {
        memcpy(text, all[i].record.p, all[i].record.n);
        text += all[i].record.n;
    }
    return true;
}

/* --- the walk --- */

static void fail_walk(struct file_walk *w, enum err_code code, const char *why)
{
    struct err e;

    (void)err_set(&e, code, "%s: name a directory further down", why);
    w->done(w, &e);
}

/* Writes the path of an entry; false if it does not fit. */
static bool join_walk_path(const struct file_level *l, const struct backend_entry *v,
                           char ret[static PATH_ROOM])
{
    int n = snprintf(ret, PATH_ROOM, "%s/" STR_FMT, strcmp(l->path, "/") == 0 ? "" : l->path,
                     STR_ARG(v->name));

    return n >= 0 && n < PATH_ROOM;
}

/* Visits the entries of a level up to the next directory to be listed, whose path is then *ret_path;
 * else NULL. */
static bool visit_entries(struct file_walk *w, struct file_level *l, const char **ret_path)
{
    char path[PATH_ROOM];
    struct backend_entry v;
    ssize_t n;

    *ret_path = NULL;
    while ((n = backend_entry_read(l->rest, &v)) > 0) {
        l->rest = (struct str){ l->rest.p + n, l->rest.n - (size_t)n };
        if (!join_walk_path(l, &v, path) || !w->entry(w, path, &v))
            return false;
        if (!S_ISDIR(v.mode) || l->depth <= 1)
            continue;
        *ret_path = arena_dup(&w->call->arena, str_from(path));
        return *ret_path;
    }
    return true;
}

/* Only levels with directories to be listed stay, on the call's arena. */
static bool take_listing(struct file_walk *w, struct str in)
{
    AUTO(arena_done) struct arena own = ARENA_INIT(SORT_MAX);
    struct file_level *l = w->level_, leaf = *l;
    const char *none;
    bool dirs;
    ssize_t count = count_records(in, &dirs);

    if (count < 0)
        return false;
    w->entries_ += (size_t)count;
    if (w->entries_ > (w->most ? w->most : FILE_WALK_MAX))
        return false;
    if (dirs && l->depth > 1)
        return file_walk_sort(in, &w->call->arena, &l->rest);
    return file_walk_sort(in, &own, &leaf.rest) && visit_entries(w, &leaf, &none);
}

static bool open_level(struct file_walk *w, const char *path, uint32_t depth)
{
    struct file_level *l = arena_alloc(&w->call->arena, sizeof *l);

    if (!l)
        return false;
    *l = (struct file_level){ .path = path, .depth = depth, .above = w->level_ };
    w->level_ = l;
    return true;
}

static void continue_walk(struct file_walk *w);

static void on_directory_listed(struct file_take *t, const struct err *e)
{
    struct file_walk *w = container_of(t, struct file_walk, take_);

    if (e && !w->level_->above)
        w->done(w, e);
    else if (!e && !take_listing(w, buf_str(&t->data)))
        fail_walk(w, ERR_TOO_BIG, "there are more entries than one request may list");
    else
        continue_walk(w);
}

static void list_level(struct file_walk *w)
{
    if (!w->call->x)
        return;
    if (w->deadline && clock_mono() >= w->deadline) {
        fail_walk(w, ERR_TIMEOUT, "listing took too long");
        return;
    }
    /* a copy: the operation modifies its path */
    w->paths_[0] = arena_dup(&w->call->arena, str_from(w->level_->path));
    if (w->paths_[0])
        file_take_start(&w->take_, w->call, START_LIST, w->paths_, w->user, w->mode,
                        on_directory_listed);
    else
        fail_walk(w, ERR_TOO_BIG, "there are more directories than one request may list");
}

/* Continues with the next entry in the order of the walk. */
static void continue_walk(struct file_walk *w)
{
    const char *path = NULL;
    struct file_level *level;

    while ((level = w->level_)) {
        if (!visit_entries(w, level, &path)) {
            fail_walk(w, ERR_TOO_BIG, "there are more entries than one request may list");
            return;
        }
        if (path)
            break;
        w->level_ = level->above;
    }
    if (!level)
        w->done(w, NULL);
    else if (open_level(w, path, level->depth - 1))
        list_level(w);
    else
        fail_walk(w, ERR_TOO_BIG, "there are more directories than one request may list");
}

void file_walk_start(struct file_walk *w, struct call *c, const char *path, uint32_t depth)
{
    w->call = c;
    w->level_ = NULL;
    if (open_level(w, path, depth ? depth : 1))
        list_level(w);
    else
        fail_walk(w, ERR_TOO_BIG, "the request has no room for a list");
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
