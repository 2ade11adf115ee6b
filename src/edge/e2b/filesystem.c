/* filesystem.Filesystem of E2B's envd: each call is a few file operations, one after the other. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "api/e2b/entry.h"
#include "api/e2b/inside.h"
#include "api/file_walk.h"

struct request {
    const char *path, *from, *to;
    uint32_t depth;
};

struct work {
    struct call *call;
    struct file_take take;
    const char *user;
    const char *path; /* that it is about; of a move: where to */
    const char *from;
    const char *paths[3];
    /* of a list */
    uint32_t depth;
    struct file_walk walk;
    struct buf text;
    struct json_writer writer;
};

static void work_end(struct call *c)
{
    struct work *k = c->state;

    file_take_done(&k->take);
    file_walk_done(&k->walk);
    buf_done(&k->text);
    free(k);
}

#define AT(member) JSON_AT(struct request, member)

static const struct json_field path_fields[] = {
    { "path", JSON_KIND_STR, AT(path) },
    { "depth", JSON_KIND_UINT, AT(depth) },
};
static const struct json_field move_fields[] = {
    { "source", JSON_KIND_STR, AT(from), .required = true },
    { "destination", JSON_KIND_STR, AT(to), .required = true },
};

/* NULL: it is answered, or its handler will be called again. */
static struct work *work_new(struct call *c, const struct json_field *fields, size_t n)
{
    struct request q = { 0 };
    const char *user = e2b_rpc_user(c), *path, *from = NULL;
    struct work *k;
    struct err e;

    if (!user)
        return NULL;
    if (e2b_bind(c, c->json, fields, n, &q, &e) < 0) {
        call_fail(c, &e);
        return NULL;
    }
    if (!e2b_at_home(c, user, str_from(q.to ? q.to : q.path)) ||
        (q.from && !e2b_at_home(c, user, str_from(q.from))))
        return NULL;
    path = e2b_path(c, user, str_from(q.to ? q.to : q.path));
    if (path && q.from)
        from = e2b_path(c, user, str_from(q.from));
    if (!path || (q.from && !from))
        return NULL;
    k = calloc(1, sizeof *k);
    if (!k)
        abort();
    *k = (struct work){ .call = c, .user = user, .path = path, .from = from, .depth = q.depth };
    buf_init(&k->text, CALL_ANSWER_MAX);
    c->state = k;
    c->on_end = work_end;
    return k;
}

static void run(struct work *k, enum ext_what what, const char *path, const char *to,
                file_take_fn *done)
{
    uint32_t mode = what == EXT_STAT     ? EXT_ATTRIBUTES | EXT_RESOLVE
                    : what == EXT_RENAME ? EXT_MAKE_PARENTS
                                         : 0;

    k->paths[0] = arena_dup(&k->call->own, str_from(path)); /* operations may cut it up */
    k->paths[1] = to;
    file_take_start(&k->take, k->call, what, k->paths, k->user, mode, done);
}

static struct work *work_of(struct file_take *t)
{
    return container_of(t, struct work, take);
}

/* --- one entry as the answer --- */

static void write_entry(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    json_key(w, STR("entry"));
    entry_write(w, what);
    json_end_object(w);
}

static void answer_entry(struct file_take *t, const struct err *e)
{
    struct work *k = work_of(t);
    struct ext_entry v;
    const struct shown_entry s = { .entry = &v, .path = k->path };

    if (e)
        call_fail(k->call, e);
    else if (ext_entry_read(buf_str(&t->data), &v) <= 0)
        rpc_fail(k->call, 500, "the operation's answer is malformed");
    else
        call_answer(k->call, 200, write_entry, &s);
}

static void then_show(struct file_take *t, const struct err *e)
{
    struct work *k = work_of(t);

    if (e)
        call_fail(k->call, e);
    else
        run(k, EXT_STAT, k->path, NULL, answer_entry);
}

static void show_stat(struct call *c)
{
    struct work *k = work_new(c, path_fields, COUNT_OF(path_fields));

    if (k)
        run(k, EXT_STAT, k->path, NULL, answer_entry);
}

/* --- MakeDir --- */

static void write_exists(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    json_key(w, STR("code"));
    json_put_str(w, STR("already_exists"));
    json_key(w, STR("message"));
    json_put_lossy(w, str_from(what));
    json_end_object(w);
}

static void then_make(struct file_take *t, const struct err *e)
{
    struct work *k = work_of(t);
    struct ext_entry v;
    char text[320];

    if (e && e->sys == ENOENT) {
        run(k, EXT_MKDIR, k->path, NULL, then_show);
    } else if (e) {
        call_fail(k->call, e);
    } else if (ext_entry_read(buf_str(&t->data), &v) > 0 && S_ISDIR(v.mode)) {
        snprintf(text, sizeof text, "directory already exists: %.240s", k->path);
        call_answer(k->call, 409, write_exists, text);
    } else {
        rpc_fail(k->call, 400, "the path exists, and is no directory");
    }
}

static void make_dir(struct call *c)
{
    struct work *k = work_new(c, path_fields, COUNT_OF(path_fields));

    if (k)
        run(k, EXT_STAT, k->path, NULL, then_make);
}

/* --- Move and Remove --- */

static void move(struct call *c)
{
    struct work *k = work_new(c, move_fields, COUNT_OF(move_fields));

    if (k)
        run(k, EXT_RENAME, k->from, arena_dup(&c->own, str_from(k->path)), then_show);
}

static void removed(struct file_take *t, const struct err *e)
{
    struct work *k = work_of(t);
    bool gone = e && (e->sys == ENOENT || e->code == ERR_NOT_FOUND) && !k->call->no_user;

    if (e && !gone)
        call_fail(k->call, e);
    else
        rpc_answer_empty(k->call);
}

static void remove_tree(struct call *c)
{
    struct work *k = work_new(c, path_fields, COUNT_OF(path_fields));

    if (k)
        run(k, EXT_REMOVE, k->path, NULL, removed);
}

/* --- ListDir --- */

static bool list_entry(struct file_walk *w, const char *path, const struct ext_entry *v)
{
    struct work *k = container_of(w, struct work, walk);

    entry_write(&k->writer, &(struct shown_entry){ .entry = v, .path = path });
    return true;
}

static void listed(struct file_walk *w, const struct err *e)
{
    struct work *k = container_of(w, struct work, walk);
    struct err why;

    json_end_array(&k->writer);
    json_end_object(&k->writer);
    if (!e && json_writer_finish(&k->writer, &why) < 0)
        e = &why;
    if (e)
        call_fail(k->call, e);
    else
        call_answer_bytes(k->call, 200, "application/json", buf_str(&k->text));
}

static void list_dir(struct call *c)
{
    struct work *k = work_new(c, path_fields, COUNT_OF(path_fields));

    if (!k)
        return;
    json_writer_init(&k->writer, &k->text, JSON_COMPACT);
    json_begin_object(&k->writer);
    json_key(&k->writer, STR("entries"));
    json_begin_array(&k->writer);
    k->walk = (struct file_walk){
        .user = k->user, .mode = EXT_ATTRIBUTES | EXT_RESOLVE, .entry = list_entry, .done = listed
    };
    file_walk_start(&k->walk, c, k->path, k->depth);
}

#define SERVICE "/filesystem.Filesystem/"

const struct route routes_envd_filesystem[] = {
    { H1_POST, VERB_FILES, SERVICE "Stat", ROUTE_JSON, show_stat, .face = &rpc_face },
    { H1_POST, VERB_FILES, SERVICE "MakeDir", ROUTE_JSON, make_dir, .face = &rpc_face },
    { H1_POST, VERB_FILES, SERVICE "Move", ROUTE_JSON, move, .face = &rpc_face },
    { H1_POST, VERB_FILES, SERVICE "Remove", ROUTE_JSON, remove_tree, .face = &rpc_face },
    { H1_POST, VERB_FILES, SERVICE "ListDir", ROUTE_JSON, list_dir, .face = &rpc_face },
    { .path = NULL },
};
