/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the toolbox: list, info, download, upload, folder, move, delete. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "edge/daytona/internal.h"
#include "base/own.h"
#include "edge/core/file_op.h"
#include "edge/core/file_walk.h"
#include "edge/core/upload.h"
#include "backends/records.h"
#include "base/rfc3339.h"

enum { DEPTH_MAX = 64 };

struct toolbox_file_call {
    struct call *call;
    struct file_take take;
    struct file_walk walk;
    const char *paths[3];
    bool recursive, deep;
    struct buf text;
    struct json_writer writer;
};

static struct toolbox_file_call *new_toolbox_file_call(struct call *c)
{
    struct toolbox_file_call *k = call_state(c, sizeof *k, NULL);

    k->call = c;
    call_own_buf(c, &k->text, CALL_ANSWER_MAX);
    return k;
}

/* Runs an operation on one or two paths. */
static struct toolbox_file_call *run_toolbox_file_op(struct call *c, enum start_what what,
                                                     const char *path, const char *to,
                                                     uint32_t mode, file_take_fn *done)
{
    struct toolbox_file_call *k = new_toolbox_file_call(c);

    k->paths[0] = path;
    k->paths[1] = to;
    file_take_start(&k->take, c, what, k->paths, DAYTONA_USER, mode, done);
    return k;
}

static void on_toolbox_file_done(struct file_take *t, const struct err *e)
{
    if (e)
        call_fail(t->call, e);
    else
        daytona_answer_done(t->call);
}

/* --- info and list --- */

static void write_toolbox_entry(struct json_writer *w, const struct backend_entry *v,
                                const char *path)
{
    char text[TIME_TEXT];

    json_begin_object(w);
    json_field_lossy(w, "name", v->name);
    if (path)
        json_field_text(w, "path", path);
    json_field_bool(w, "isDir", S_ISDIR(v->mode));
    json_field_int(w, "size", (int64_t)v->size);
    entry_mode_text(v->mode, text);
    json_field_text(w, "mode", text);
    snprintf(text, sizeof text, "%04o", v->mode & 07777);
    json_field_text(w, "permissions", text);
    entry_write_owner(w, "owner", v->uid);
    entry_write_owner(w, "group", v->gid);
    time_text(v->mtime_ns, text);
    json_field_text(w, "modTime", text);
    json_field_text(w, "modifiedAt", text);
    json_end_object(w);
}

static void write_file_info(struct json_writer *w, const void *what)
{
    write_toolbox_entry(w, what, NULL);
}

static void on_file_info(struct file_take *t, const struct err *e)
{
    struct backend_entry v;

    if (e)
        call_fail(t->call, e);
    else if (backend_entry_read(buf_str(&t->data), &v) <= 0)
        call_fail_with(t->call, 500, "", "the operation's answer is malformed");
    else
        call_answer(t->call, 200, write_file_info, &v);
}

static void show_file_info(struct call *c)
{
    const char *path = daytona_query_path(c, "path");

    if (path)
        run_toolbox_file_op(c, START_STAT, path, NULL, 0, on_file_info);
}

static bool on_toolbox_list_entry(struct file_walk *w, const char *path,
                                  const struct backend_entry *v)
{
    struct toolbox_file_call *k = container_of(w, struct toolbox_file_call, walk);

    write_toolbox_entry(&k->writer, v, k->deep ? path : NULL);
    return true;
}

static void on_toolbox_dir_listed(struct file_walk *w, const struct err *e)
{
    struct toolbox_file_call *k = container_of(w, struct toolbox_file_call, walk);

    json_end_array(&k->writer);
    call_answer_written(k->call, &k->writer, &k->text, e);
}

static void list_toolbox_dir(struct call *c)
{
    struct str path = { NULL, 0 };
    uint64_t depth = 1;
    const char *from;
    struct toolbox_file_call *k;

    if (call_query(c, "path", &path) < 0 || call_query_number(c, "depth", DEPTH_MAX, &depth) < 0)
        return;
    from = daytona_path(c, path);
    if (!from)
        return;
    k = new_toolbox_file_call(c);
    k->deep = depth > 1;
    json_writer_init(&k->writer, &k->text, JSON_COMPACT);
    json_begin_array(&k->writer);
    k->walk = (struct file_walk){ .user = DAYTONA_USER,
                                  .entry = on_toolbox_list_entry,
                                  .done = on_toolbox_dir_listed };
    file_walk_start(&k->walk, c, from, (uint32_t)depth);
}

/* --- folder, move, delete --- */

static bool read_folder_mode(struct call *c, uint32_t *ret)
{
    struct str text = { NULL, 0 };
    uint32_t mode = 0;

    if (call_query(c, "mode", &text) < 0)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '7' || i > 3) {
            call_fail_with(c, 400, "BAD_REQUEST", "mode: must be an octal number like 0755");
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

    if (path && read_folder_mode(c, &mode))
        run_toolbox_file_op(c, START_MKDIR, path, NULL, mode, on_toolbox_file_done);
}

static void move_toolbox_path(struct call *c)
{
    const char *from = daytona_query_path(c, "source"),
               *to = from ? daytona_query_path(c, "destination") : NULL;

    if (to)
        run_toolbox_file_op(c, START_RENAME, from, to, 0, on_toolbox_file_done);
}

static void on_remove_stat_done(struct file_take *t, const struct err *e)
{
    struct toolbox_file_call *k = container_of(t, struct toolbox_file_call, take);
    struct backend_entry v;

    if (e)
        call_fail(k->call, e);
    else if (!k->recursive && backend_entry_read(buf_str(&t->data), &v) > 0 && S_ISDIR(v.mode))
        call_fail_with(k->call, 400, "BAD_REQUEST",
                       "path: is a directory; use recursive=true to remove it with its contents");
    else
        run_toolbox_file_op(k->call, START_REMOVE, k->paths[0], NULL, 0, on_toolbox_file_done);
}

static void remove_toolbox_path(struct call *c)
{
    const char *path = daytona_query_path(c, "path");
    bool recursive = false;

    if (path && call_query_bool(c, "recursive", &recursive) >= 0)
        run_toolbox_file_op(c, START_STAT, path, NULL, 0, on_remove_stat_done)->recursive =
            recursive;
}

/* --- download --- */

static void download_toolbox_file(struct call *c)
{
    const char **paths = call_alloc(c, 2, sizeof *paths);

    paths[0] = daytona_query_path(c, "path");
    if (paths[0])
        file_op_start(c, &file_encoder_read, paths, DAYTONA_USER, 0);
}

/* --- upload --- */

struct bulk {
    const char *only; /* path of the query, used for every file; NULL: each part has its own */
    /* Indexed by N: the form has "files[N].path", followed later by "files[N].file". */
    const char *paths[BACKEND_UPLOAD_FILES_MAX];
    bool came[BACKEND_UPLOAD_FILES_MAX]; /* the file was received */
    size_t text;                         /* total bytes of the paths */
};

/* Parses "files[N]" and the suffix (*ret_role). Rejects leading zeros in N, so that no two names
 * denote the same file. */
static int read_part_number(const char *name, size_t *ret, const char **ret_role, struct err *e)
{
    struct str rest = str_from(name), digits;
    uint64_t n;

    if (!str_starts(rest, STR("files[")) || str_find(rest, ']') == rest.n)
        return err_set(e, ERR_INVALID, "multipart: '%.64s' is not files[N].path or files[N].file",
                       name);
    rest = str_cut((struct str){ rest.p + 6, rest.n - 6 }, ']', &digits);
    if (!str_to_u64(digits, &n) || n >= BACKEND_UPLOAD_FILES_MAX ||
        (digits.p[0] == '0' && digits.n > 1))
        return err_set(e, ERR_INVALID, "multipart: the number in '%.64s' must be 0 to %d", name,
                       BACKEND_UPLOAD_FILES_MAX - 1);
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
    if (text.n > BACKEND_UPLOAD_TEXT_MAX - a->text)
        return err_set(e, ERR_TOO_BIG, "multipart: the paths exceed %d bytes",
                       BACKEND_UPLOAD_TEXT_MAX);
    a->text += text.n;
    a->paths[n] = daytona_absolute(c, text);
    return a->paths[n] ? 0
                       : err_set(e, ERR_INVALID,
                                 "path: '%.64s' is longer than 4095 bytes or contains NUL", name);
}

static int check_all_came(struct call *c, struct err *e)
{
    const struct bulk *a = upload_owner(c);

    for (size_t i = 0; i < BACKEND_UPLOAD_FILES_MAX; i++)
        if (a->paths[i] && !a->came[i])
            return err_set(e, ERR_INVALID,
                           "multipart: 'files[%zu].path' comes without files[%zu].file", i, i);
    return 0;
}

static const struct upload_events bulk_events = { .part = choose_bulk_path,
                                                  .field = take_bulk_path,
                                                  .complete = check_all_came,
                                                  .done = daytona_answer_done,
                                                  .failed = call_fail };

static void start_toolbox_upload(struct call *c, const char *only)
{
    struct bulk *a = call_alloc(c, 1, sizeof *a);
    struct upload_setup setup = { .events = &bulk_events, .user = DAYTONA_USER, .owner = a };

    a->only = only;
    if (only && !str_starts(call_header(c, "Content-Type"), STR("multipart/")))
        setup.whole = only;
    upload_start(c, &setup);
}

static void upload_one(struct call *c)
{
    const char *path = daytona_query_path(c, "path");

    if (path)
        start_toolbox_upload(c, path);
}

static void upload_many(struct call *c)
{
    start_toolbox_upload(c, NULL);
}

#define FILES DAYTONA_INSIDE "/files"
#define ROW(method, path, flags, handler)                                                          \
    DAYTONA_ROUTE(method, VERB_FILES, FILES path, flags, handler)

const struct route routes_daytona_files[] = {
    ROW(H1_GET, "", 0, list_toolbox_dir),
    ROW(H1_DELETE, "", 0, remove_toolbox_path),
    ROW(H1_GET, "/info", 0, show_file_info),
    ROW(H1_POST, "/folder", 0, make_folder),
    ROW(H1_POST, "/move", 0, move_toolbox_path),
    ROW(H1_GET, "/download", 0, download_toolbox_file),
    ROW(H1_POST, "/upload", ROUTE_STREAM, upload_one),
    ROW(H1_POST, "/upload-v2", ROUTE_STREAM, upload_one),
    ROW(H1_POST, "/bulk-upload", ROUTE_STREAM, upload_many),
    { .path = NULL },
};
