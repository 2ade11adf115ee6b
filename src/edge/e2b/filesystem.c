/* SPDX-License-Identifier: Apache-2.0 */
/* filesystem.Filesystem of E2B's envd: each call is a sequence of a few file operations. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "edge/e2b/entry.h"
#include "base/own.h"
#include "edge/e2b/internal.h"
#include "edge/core/file_walk.h"

struct envd_fs_request {
    const char *path, *from, *to;
    uint32_t depth;
};

struct envd_fs_call {
    struct call *call;
    struct file_take take;
    const char *user;
    const char *path; /* target of the call; of a move: the destination */
    const char *from;
    const char *paths[3];
    /* members of ListDir */
    uint32_t depth;
    struct file_walk walk;
    struct buf text;
    struct json_writer writer;
};

#define AT(member) JSON_AT(struct envd_fs_request, member)

static const struct json_field path_fields[] = {
    { "path", JSON_KIND_STR, AT(path) },
    { "depth", JSON_KIND_UINT, AT(depth) },
};
static const struct json_field move_fields[] = {
    { "source", JSON_KIND_STR, AT(from), .required = true },
    { "destination", JSON_KIND_STR, AT(to), .required = true },
};

/* Returns NULL if the call was answered, or if its handler will be called again. */
static struct envd_fs_call *new_fs_call(struct call *c, const struct json_field *fields, size_t n)
{
    struct envd_fs_request q = { 0 };
    const char *user = e2b_rpc_user(c), *path, *from = NULL;
    struct envd_fs_call *k;

    if (!user || !e2b_read_body(c, fields, n, &q) ||
        !e2b_ensure_home(c, user, str_from(q.to ? q.to : q.path)) ||
        (q.from && !e2b_ensure_home(c, user, str_from(q.from))))
        return NULL;
    path = e2b_path(c, user, str_from(q.to ? q.to : q.path));
    if (path && q.from)
        from = e2b_path(c, user, str_from(q.from));
    if (!path || (q.from && !from))
        return NULL;
    k = call_state(c, sizeof *k, NULL);
    *k = (struct envd_fs_call){
        .call = c, .user = user, .path = path, .from = from, .depth = q.depth
    };
    call_own_buf(c, &k->text, CALL_ANSWER_MAX);
    return k;
}

static void run_fs_operation(struct envd_fs_call *k, enum start_what what, const char *path,
                             const char *to, file_take_fn *done)
{
    uint32_t mode = what == START_STAT     ? START_ATTRIBUTES | START_RESOLVE
                    : what == START_RENAME ? START_MAKE_PARENTS
                                           : 0;

    k->paths[0] = arena_dup(&k->call->own, str_from(path)); /* operations may modify it */
    k->paths[1] = to;
    file_take_start(&k->take, k->call, what, k->paths, k->user, mode, done);
}

static struct envd_fs_call *fs_call_of(struct file_take *t)
{
    return container_of(t, struct envd_fs_call, take);
}

/* --- one entry as the answer --- */

static void write_stat_entry(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    json_key(w, STR("entry"));
    entry_write(w, what);
    json_end_object(w);
}

static void on_entry_stat(struct file_take *t, const struct err *e)
{
    struct envd_fs_call *k = fs_call_of(t);
    struct backend_entry v;
    const struct shown_entry s = { .entry = &v, .path = k->path };

    if (e)
        call_fail(k->call, e);
    else if (backend_entry_read(buf_str(&t->data), &v) <= 0)
        rpc_fail(k->call, 500, "the operation's answer is malformed");
    else
        call_answer(k->call, 200, write_stat_entry, &s);
}

static void on_fs_change_done(struct file_take *t, const struct err *e)
{
    struct envd_fs_call *k = fs_call_of(t);

    if (e)
        call_fail(k->call, e);
    else
        run_fs_operation(k, START_STAT, k->path, NULL, on_entry_stat);
}

static void stat_envd_path(struct call *c)
{
    struct envd_fs_call *k = new_fs_call(c, path_fields, COUNT_OF(path_fields));

    if (k)
        run_fs_operation(k, START_STAT, k->path, NULL, on_entry_stat);
}

/* --- MakeDir --- */

static void on_mkdir_stat_done(struct file_take *t, const struct err *e)
{
    struct envd_fs_call *k = fs_call_of(t);
    struct backend_entry v;
    char text[320];

    if (e && e->sys == ENOENT) {
        run_fs_operation(k, START_MKDIR, k->path, NULL, on_fs_change_done);
    } else if (e) {
        call_fail(k->call, e);
    } else if (backend_entry_read(buf_str(&t->data), &v) > 0 && S_ISDIR(v.mode)) {
        snprintf(text, sizeof text, "directory already exists: %.240s", k->path);
        call_answer(k->call, 409, rpc_write_problem,
                    &(struct rpc_problem){ "already_exists", text });
    } else {
        rpc_fail(k->call, 400, "the path exists and is not a directory");
    }
}

static void make_envd_dir(struct call *c)
{
    struct envd_fs_call *k = new_fs_call(c, path_fields, COUNT_OF(path_fields));

    if (k)
        run_fs_operation(k, START_STAT, k->path, NULL, on_mkdir_stat_done);
}

/* --- Move and Remove --- */

static void move_envd_path(struct call *c)
{
    struct envd_fs_call *k = new_fs_call(c, move_fields, COUNT_OF(move_fields));

    if (k)
        run_fs_operation(k, START_RENAME, k->from, arena_dup(&c->own, str_from(k->path)),
                         on_fs_change_done);
}

static void on_envd_path_removed(struct file_take *t, const struct err *e)
{
    struct envd_fs_call *k = fs_call_of(t);
    bool gone = e && (e->sys == ENOENT || e->code == ERR_NOT_FOUND) && !k->call->no_user;

    if (e && !gone)
        call_fail(k->call, e);
    else
        rpc_answer_empty(k->call);
}

static void remove_envd_tree(struct call *c)
{
    struct envd_fs_call *k = new_fs_call(c, path_fields, COUNT_OF(path_fields));

    if (k)
        run_fs_operation(k, START_REMOVE, k->path, NULL, on_envd_path_removed);
}

/* --- ListDir --- */

static bool on_envd_dir_entry(struct file_walk *w, const char *path, const struct backend_entry *v)
{
    struct envd_fs_call *k = container_of(w, struct envd_fs_call, walk);

    entry_write(&k->writer, &(struct shown_entry){ .entry = v, .path = path });
    return true;
}

static void on_envd_dir_listed(struct file_walk *w, const struct err *e)
{
    struct envd_fs_call *k = container_of(w, struct envd_fs_call, walk);

    json_end_array(&k->writer);
    json_end_object(&k->writer);
    call_answer_written(k->call, &k->writer, &k->text, e);
}

static void list_envd_dir(struct call *c)
{
    struct envd_fs_call *k = new_fs_call(c, path_fields, COUNT_OF(path_fields));

    if (!k)
        return;
    json_writer_init(&k->writer, &k->text, JSON_COMPACT);
    json_begin_object(&k->writer);
    json_field_begin_array(&k->writer, "entries");
    k->walk = (struct file_walk){ .user = k->user,
                                  .mode = START_ATTRIBUTES | START_RESOLVE,
                                  .entry = on_envd_dir_entry,
                                  .done = on_envd_dir_listed };
    file_walk_start(&k->walk, c, k->path, k->depth);
}

#define SERVICE "/filesystem.Filesystem/"

const struct route routes_envd_filesystem[] = {
    { H1_POST, VERB_FILES, SERVICE "Stat", ROUTE_JSON, .handle = stat_envd_path },
    { H1_POST, VERB_FILES, SERVICE "MakeDir", ROUTE_JSON, .handle = make_envd_dir },
    { H1_POST, VERB_FILES, SERVICE "Move", ROUTE_JSON, .handle = move_envd_path },
    { H1_POST, VERB_FILES, SERVICE "Remove", ROUTE_JSON, .handle = remove_envd_tree },
    { H1_POST, VERB_FILES, SERVICE "ListDir", ROUTE_JSON, .handle = list_envd_dir },
    { .path = NULL },
};
