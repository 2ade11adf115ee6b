/* Files inside, as Daytona's clients see them: list, info, out, in, folder, move, delete. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "api/daytona/inside.h"
#include "api/e2b/entry.h"
#include "api/file_op.h"
#include "api/file_walk.h"
#include "api/upload.h"
#include "model/time.h"

enum { DEPTH_MAX = 64 };

struct work {
    struct call *call;
    struct file_take take;
    struct file_walk walk;
    const char *paths[3];
    bool recursive, deep;
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

static struct work *work_new(struct call *c)
{
    struct work *k = calloc(1, sizeof *k);

    if (!k)
        abort();
    k->call = c;
    buf_init(&k->text, CALL_ANSWER_MAX);
    c->state = k;
    c->on_end = work_end;
    return k;
}

static struct work *work_of(struct file_take *t)
{
    return container_of(t, struct work, take);
}

static void run(struct work *k, enum ext_what what, uint32_t mode, file_take_fn *done)
{
    file_take_start(&k->take, k->call, what, k->paths, DAYTONA_USER, mode, done);
}

static void answer_done(struct file_take *t, const struct err *e)
{
    if (e)
        call_fail(t->call, e);
    else
        daytona_answer_done(t->call);
}

/* --- info and list --- */

static void write_entry(struct json_writer *w, const struct ext_entry *v, const char *path)
{
    char text[TIME_TEXT];

    json_begin_object(w);
    put_bytes(w, "name", v->name);
    if (path)
        put(w, "path", path);
    put_flag(w, "isDir", S_ISDIR(v->mode));
    put_number(w, "size", (int64_t)v->size);
    entry_mode_text(v->mode, text);
    put(w, "mode", text);
    snprintf(text, sizeof text, "%04o", v->mode & 07777);
    put(w, "permissions", text);
    entry_owner_put(w, "owner", v->uid);
    entry_owner_put(w, "group", v->gid);
    time_text(v->mtime_ns, text);
    put(w, "modTime", text);
    put(w, "modifiedAt", text);
    json_end_object(w);
}

static void write_info(struct json_writer *w, const void *what)
{
    write_entry(w, what, NULL);
}

static void answer_info(struct file_take *t, const struct err *e)
{
    struct ext_entry v;

    if (e)
        call_fail(t->call, e);
    else if (ext_entry_read(buf_str(&t->data), &v) <= 0)
        call_fail_with(t->call, 500, "", "the operation's answer is malformed");
    else
        call_answer(t->call, 200, write_info, &v);
}

static void info(struct call *c)
{
    const char *path = daytona_query_path(c, "path");
    struct work *k;

    if (!path)
        return;
    k = work_new(c);
    k->paths[0] = path;
    run(k, EXT_STAT, 0, answer_info);
}

static bool add_entry(struct file_walk *w, const char *path, const struct ext_entry *v)
{
    struct work *k = container_of(w, struct work, walk);

    write_entry(&k->writer, v, k->deep ? path : NULL);
    return true;
}

static void listed(struct file_walk *w, const struct err *e)
{
    struct work *k = container_of(w, struct work, walk);
    struct err why;

    json_end_array(&k->writer);
    if (!e && json_writer_finish(&k->writer, &why) < 0)
        e = &why;
    if (e)
        call_fail(k->call, e);
    else
        call_answer_bytes(k->call, 200, "application/json", buf_str(&k->text));
}

static void list(struct call *c)
{
    struct str path = { NULL, 0 };
    uint64_t depth = 1;
    const char *from;
    struct work *k;

    if (call_query(c, "path", &path) < 0 || call_query_number(c, "depth", DEPTH_MAX, &depth) < 0)
        return;
    from = daytona_path(c, path);
    if (!from)
        return;
    k = work_new(c);
    k->deep = depth > 1;
    json_writer_init(&k->writer, &k->text, JSON_COMPACT);
    json_begin_array(&k->writer);
    k->walk = (struct file_walk){ .user = DAYTONA_USER, .entry = add_entry, .done = listed };
    file_walk_start(&k->walk, c, from, (uint32_t)depth);
}

/* --- folder, move, delete --- */

static bool read_mode(struct call *c, uint32_t *ret)
{
    struct str text = { NULL, 0 };
    uint32_t mode = 0;

    if (call_query(c, "mode", &text) < 0)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '7' || i > 3) {
            call_fail_with(c, 400, "BAD_REQUEST", "mode: is no number like 0755");
            return false;
        }
        mode = mode * 8 + (uint32_t)(text.p[i] - '0');
    }
    *ret = mode;
    return true;
}

static void make_folder(struct call *c)
{
    const char *path = daytona_query_path(c, "path");
    uint32_t mode;
    struct work *k;

    if (!path || !read_mode(c, &mode))
        return;
    k = work_new(c);
    k->paths[0] = path;
    run(k, EXT_MKDIR, mode, answer_done);
}

static void move(struct call *c)
{
    const char *from = daytona_query_path(c, "source"),
               *to = from ? daytona_query_path(c, "destination") : NULL;
    struct work *k;

    if (!to)
        return;
    k = work_new(c);
    k->paths[0] = from;
    k->paths[1] = to;
    run(k, EXT_RENAME, 0, answer_done);
}

static void then_remove(struct file_take *t, const struct err *e)
{
    struct work *k = work_of(t);
    struct ext_entry v;

    if (e)
        call_fail(k->call, e);
    else if (!k->recursive && ext_entry_read(buf_str(&t->data), &v) > 0 && S_ISDIR(v.mode))
        call_fail_with(k->call, 400, "BAD_REQUEST",
                       "path: is a directory; recursive=true removes it with all that is in it");
    else
        run(k, EXT_REMOVE, 0, answer_done);
}

static void remove_path(struct call *c)
{
    const char *path = daytona_query_path(c, "path");
    bool recursive = false;
    struct work *k;

    if (!path || call_query_bool(c, "recursive", &recursive) < 0)
        return;
    k = work_new(c);
    k->paths[0] = path;
    k->recursive = recursive;
    run(k, EXT_STAT, 0, then_remove);
}

/* --- out --- */

static void download(struct call *c)
{
    const char **paths = arena_array(&c->own, 2, sizeof *paths);

    if (!paths)
        abort();
    paths[0] = daytona_query_path(c, "path");
    if (paths[0])
        file_op_start(c, &file_face_read, paths, DAYTONA_USER, 0);
}

/* --- in --- */

struct arrival {
    const char *only; /* the query's path; NULL: each file has a part with its own before it */
    const char *next;
};

static bool is_path_field(const char *name)
{
    return str_ends(str_from(name), STR(".path"));
}

static int choose_path(struct call *c, const char *name, const char *filename, const char **ret,
                       struct err *e)
{
    struct arrival *a = upload_owner(c);

    *ret = NULL;
    if (!filename && is_path_field(name))
        return 0;
    if (!filename)
        return err_set(e, ERR_INVALID, "multipart: '%.64s' is neither a file nor a path", name);
    *ret = a->only ? a->only : a->next;
    a->next = NULL;
    return *ret ? 0 : err_set(e, ERR_INVALID, "multipart: '%.64s' comes without a path", name);
}

static int take_path(struct call *c, const char *name, struct str text, struct err *e)
{
    struct arrival *a = upload_owner(c);

    if (!text.n)
        return err_set(e, ERR_INVALID, "multipart: '%.64s' is empty", name);
    a->next = daytona_path(c, text);
    return a->next ? 0 : err_set(e, ERR_INVALID, "path: is too long"); /* it is answered */
}

static const struct upload_events arrival_events = {
    .part = choose_path, .field = take_path, .done = daytona_answer_done, .failed = call_fail
};

static void upload(struct call *c, const char *only)
{
    struct arrival *a = arena_alloc(&c->own, sizeof *a);
    struct upload_setup setup = { .events = &arrival_events, .user = DAYTONA_USER, .owner = a };

    if (!a)
        abort();
    *a = (struct arrival){ .only = only };
    if (only && !str_starts(call_header(c, "Content-Type"), STR("multipart/")))
        setup.whole = only;
    upload_start(c, &setup);
}

static void upload_one(struct call *c)
{
    const char *path = daytona_query_path(c, "path");

    if (path)
        upload(c, path);
}

static void upload_many(struct call *c)
{
    upload(c, NULL);
}

#define FILES DAYTONA_INSIDE "/files"
#define ROW(method, path, flags, handler)                                                          \
    {                                                                                              \
        method, VERB_FILES, FILES path, DAYTONA_LIVE | (flags), handler,                           \
            .face = &toolbox_files_face                                                            \
    }

const struct route routes_daytona_files[] = {
    ROW(H1_GET, "", 0, list),
    ROW(H1_DELETE, "", 0, remove_path),
    ROW(H1_GET, "/info", 0, info),
    ROW(H1_POST, "/folder", 0, make_folder),
    ROW(H1_POST, "/move", 0, move),
    ROW(H1_GET, "/download", 0, download),
    ROW(H1_POST, "/upload", ROUTE_STREAM, upload_one),
    ROW(H1_POST, "/upload-v2", ROUTE_STREAM, upload_one),
    ROW(H1_POST, "/bulk-upload", ROUTE_STREAM, upload_many),
    { .path = NULL },
};
