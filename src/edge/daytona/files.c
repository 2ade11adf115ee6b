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
#include "extensions/records.h"
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

struct bulk {
    const char *only; /* the query's path, which every file has; NULL: each has its own */
    /* By number: parts are "files[N].path" and, some time behind it, "files[N].file". */
    const char *paths[EXT_UPLOAD_FILES_MAX];
    bool came[EXT_UPLOAD_FILES_MAX]; /* the file */
    size_t text;                     /* bytes of the paths */
};

static void free_bulk(void *owner)
{
    free(owner);
}

/* "files[N]" and what follows it. N is written in one way only, so that no two names are one. */
static int read_part_number(const char *name, size_t *ret, const char **ret_role, struct err *e)
{
    struct str rest = str_from(name), digits;
    uint64_t n;

    if (!str_starts(rest, STR("files[")) || str_find(rest, ']') == rest.n)
        return err_set(e, ERR_INVALID, "multipart: '%.64s' is not files[N].path or files[N].file",
                       name);
    rest = str_cut((struct str){ rest.p + 6, rest.n - 6 }, ']', &digits);
    if (!str_to_u64(digits, &n) || n >= EXT_UPLOAD_FILES_MAX ||
        (digits.p[0] == '0' && digits.n > 1))
        return err_set(e, ERR_INVALID, "multipart: the number of '%.64s' is not one of 0 to %d",
                       name, EXT_UPLOAD_FILES_MAX - 1);
    *ret = (size_t)n;
    *ret_role = rest.p;
    return 0;
}

static int choose_numbered(struct bulk *a, const char *name, const char **ret, struct err *e)
{
    const char *role;
    size_t n;
    int r = read_part_number(name, &n, &role, e);

    if (r < 0)
        return r;
    if (strcmp(role, ".path") == 0)
        return a->paths[n] ? err_set(e, ERR_INVALID, "multipart: '%.64s' comes twice", name) : 0;
    if (strcmp(role, ".file") != 0)
        return err_set(e, ERR_INVALID, "multipart: '%.64s' is neither a file nor a path", name);
    if (a->came[n])
        return err_set(e, ERR_INVALID, "multipart: '%.64s' comes twice", name);
    if (!a->paths[n])
        return err_set(e, ERR_INVALID, "multipart: '%.64s' comes without files[%zu].path before it",
                       name, n);
    a->came[n] = true;
    *ret = a->paths[n];
    return 0;
}

static int choose_bulk_path(struct call *c, const char *name, const char *filename,
                            const char **ret, struct err *e)
{
    struct bulk *a = upload_owner(c);

    *ret = NULL;
    if (!a->only)
        return choose_numbered(a, name, ret, e);
    if (filename)
        *ret = a->only;
    else if (!str_ends(str_from(name), STR(".path")))
        return err_set(e, ERR_INVALID, "multipart: '%.64s' is neither a file nor a path", name);
    return 0;
}

static int take_bulk_path(struct call *c, const char *name, struct str text, struct err *e)
{
    struct bulk *a = upload_owner(c);
    const char *role;
    size_t n;
    int r;

    if (a->only)
        return 0;
    r = read_part_number(name, &n, &role, e);
    if (r < 0)
        return r;
    if (!text.n)
        return err_set(e, ERR_INVALID, "multipart: '%.64s' is empty", name);
    if (text.n > EXT_UPLOAD_TEXT_MAX - a->text)
        return err_set(e, ERR_TOO_BIG, "multipart: the paths have more than %d bytes",
                       EXT_UPLOAD_TEXT_MAX);
    a->text += text.n;
    a->paths[n] = daytona_absolute(c, text);
    return a->paths[n] ? 0
                       : err_set(e, ERR_INVALID,
                                 "path: '%.64s' is longer than 4095 bytes, or has a NUL", name);
}

static int check_all_came(struct call *c, struct err *e)
{
    const struct bulk *a = upload_owner(c);

    for (size_t i = 0; i < EXT_UPLOAD_FILES_MAX; i++)
        if (a->paths[i] && !a->came[i])
            return err_set(e, ERR_INVALID,
                           "multipart: 'files[%zu].path' comes without files[%zu].file", i, i);
    return 0;
}

static const struct upload_events bulk_events = { .part = choose_bulk_path,
                                                  .field = take_bulk_path,
                                                  .complete = check_all_came,
                                                  .done = daytona_answer_done,
                                                  .failed = call_fail,
                                                  .end = free_bulk };

static void upload(struct call *c, const char *only)
{
    struct bulk *a = calloc(1, sizeof *a);
    struct upload_setup setup = { .events = &bulk_events, .user = DAYTONA_USER, .owner = a };

    if (!a)
        abort();
    a->only = only;
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
