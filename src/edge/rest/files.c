/* /v1/sandboxes/{id}/files: every row is one file operation inside. */
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "api/file_op.h"
#include "api/route.h"
#include "extensions/records.h"

enum { PATH_BYTES_MAX = 4095, USER_MAX = 64 };

/* --- records, as JSON --- */

static const char *kind_of(uint32_t mode)
{
    return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "dir" : S_ISLNK(mode) ? "link" : "other";
}

static void put_number(struct json_writer *w, const char *key, uint64_t n)
{
    json_key(w, str_from(key));
    json_put_uint(w, n);
}

static void put_entry(struct json_writer *w, const struct ext_entry *v)
{
    char mode[8];

    snprintf(mode, sizeof mode, "%04o", (unsigned)(v->mode & 07777));
    json_begin_object(w);
    bytes_write(w, "name", "name_b64", v->name);
    json_key(w, STR("kind"));
    json_put_str(w, str_from(kind_of(v->mode)));
    put_number(w, "size", v->size);
    json_key(w, STR("mode"));
    json_put_str(w, str_from(mode));
    put_number(w, "uid", v->uid);
    put_number(w, "gid", v->gid);
    put_number(w, "nlink", v->nlink);
    time_write(w, "mtime", v->mtime_ns ? v->mtime_ns : 1); /* 1970 is a time as well */
    if (S_ISLNK(v->mode))
        bytes_write(w, "target", "target_b64", v->target);
    json_end_object(w);
}

static ssize_t show_entries(struct file_op *f, struct str in, struct buf *out)
{
    struct ext_entry v;
    struct json_writer w;
    size_t used = 0;
    ssize_t n;

    while ((n = ext_entry_read((struct str){ in.p + used, in.n - used }, &v)) > 0) {
        used += (size_t)n;
        if (f->shown)
            buf_add_c(out, ',');
        f->shown = true;
        json_writer_init(&w, out, JSON_COMPACT);
        put_entry(&w, &v);
        if (json_writer_finish(&w, NULL) < 0)
            return -1;
    }
    return n < 0 ? -1 : (ssize_t)used;
}

static const char *change_name(uint32_t mask)
{
    static const struct {
        uint32_t bits;
        const char *name;
    } names[] = {
        { IN_CREATE, "create" },
        { IN_DELETE | IN_DELETE_SELF | IN_UNMOUNT | IN_IGNORED, "delete" },
        { IN_MOVE | IN_MOVE_SELF, "move" },
        { IN_MODIFY | IN_CLOSE_WRITE, "modify" },
        { IN_ATTRIB, "attrib" },
        { IN_Q_OVERFLOW, "overflow" },
    };

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (mask & names[i].bits)
            return names[i].name;
    return NULL;
}

static ssize_t show_changes(struct file_op *f, struct str in, struct buf *out)
{
    struct ext_change v;
    struct json_writer w;
    size_t used = 0;
    ssize_t n;

    (void)f;
    while ((n = ext_change_read((struct str){ in.p + used, in.n - used }, &v)) > 0) {
        used += (size_t)n;
        if (!change_name(v.mask)) /* the first record only says that the watch stands */
            continue;
        json_writer_init(&w, out, JSON_COMPACT);
        json_begin_object(&w);
        json_key(&w, STR("event"));
        json_put_str(&w, str_from(change_name(v.mask)));
        bytes_write(&w, "name", "name_b64", v.name);
        json_end_object(&w);
        if (json_writer_finish(&w, NULL) < 0 || buf_add_c(out, '\n') < 0)
            return -1;
    }
    return n < 0 ? -1 : (ssize_t)used;
}

const struct file_face file_face_read = { .what = EXT_READ, .type = "application/octet-stream" },
                       file_face_write = { .what = EXT_WRITE, .input = true, .framed = true };

static const struct file_face face_remove = { .what = EXT_REMOVE },
                              face_stat = { .what = EXT_STAT,
                                            .type = "application/json",
                                            .show = show_entries,
                                            .after = "\n" },
                              face_list = { .what = EXT_LIST,
                                            .type = "application/json",
                                            .show = show_entries,
                                            .before = "{\"entries\":[",
                                            .after = "]}\n" },
                              face_mkdir = { .what = EXT_MKDIR },
                              face_rename = { .what = EXT_RENAME },
                              face_watch = { .what = EXT_WATCH,
                                             .type = "application/x-ndjson",
                                             .show = show_changes },
                              face_pack = { .what = EXT_PACK, .type = "application/x-tar" },
                              face_unpack = { .what = EXT_UNPACK, .input = true };

/* --- what was asked --- */

static int check_path(struct call *c, const char *name, struct str path)
{
    char text[96];

    if (path.n && path.p[0] == '/' && path.n <= PATH_BYTES_MAX && !memchr(path.p, 0, path.n))
        return 0;
    snprintf(text, sizeof text, "%s: must be an absolute path of at most %d bytes", name,
             PATH_BYTES_MAX);
    call_fail_with(c, 400, "invalid", text);
    return -1;
}

static int read_mode(struct call *c, struct str text, uint32_t *ret)
{
    uint32_t mode = 0;

    for (size_t i = 0; i < text.n; i++)
        mode = text.p[i] >= '0' && text.p[i] <= '7' && i < 5
                   ? mode << 3 | (uint32_t)(text.p[i] - '0')
                   : UINT32_MAX >> 3;
    if (!text.n || mode > 0777) {
        call_fail_with(c, 400, "invalid", "mode: must be octal digits up to 0777");
        return -1;
    }
    *ret = mode;
    return 0;
}

static int read_user(struct call *c, const char **ret)
{
    struct str user;
    int r = call_query(c, "user", &user);

    *ret = "0";
    if (r <= 0)
        return r;
    if (!user.n || user.n > USER_MAX) {
        call_fail_with(c, 400, "invalid", "user: must be a name, UID or UID:GID");
        return -1;
    }
    *ret = arena_dup(&c->own, user);
    return 0;
}

static void run(struct call *c, const struct file_face *face, struct str from, struct str to,
                uint32_t mode)
{
    const char **paths = arena_array(&c->own, 3, sizeof *paths), *user;

    if (read_user(c, &user) < 0)
        return;
    paths[0] = arena_dup(&c->own, from);
    paths[1] = to.n ? arena_dup(&c->own, to) : NULL;
    file_op_start(c, face, paths, user, mode);
}

/* The rows whose path is in the query. */
static void run_path(struct call *c, const struct file_face *face)
{
    struct str path = { 0 }, mode;
    uint32_t bits = 0;
    int r = call_query(c, "path", &path);

    if (r < 0 || check_path(c, "path", path) < 0)
        return;
    r = face == &file_face_write ? call_query(c, "mode", &mode) : 0;
    if (r < 0 || (r > 0 && read_mode(c, mode, &bits) < 0))
        return;
    run(c, face, path, STR(""), bits);
}

static void get(struct call *c)
{
    run_path(c, &file_face_read);
}

static void put(struct call *c)
{
    run_path(c, &file_face_write);
}

static void remove_tree(struct call *c)
{
    run_path(c, &face_remove);
}

static void show_stat(struct call *c)
{
    run_path(c, &face_stat);
}

static void list(struct call *c)
{
    run_path(c, &face_list);
}

static void watch(struct call *c)
{
    run_path(c, &face_watch);
}

static void pack(struct call *c)
{
    run_path(c, &face_pack);
}

static void unpack(struct call *c)
{
    run_path(c, &face_unpack);
}

struct file_request {
    const char *path, *from, *to, *mode;
};

#define PATH_FIELD(name_, member, doc_)                                                            \
    {                                                                                              \
        .name = (name_), .kind = JSON_KIND_STR, JSON_AT(struct file_request, member),              \
        .required = true, .min = 1, .max = PATH_BYTES_MAX, .doc = (doc_)                           \
    }

static const struct json_field mkdir_fields[] = {
    PATH_FIELD("path", path, "Where, from /. Parents are made too."),
    { "mode", JSON_KIND_STR, JSON_AT(struct file_request, mode), .max = 4,
      .doc = "Octal permissions of the directory." },
};
static const size_t mkdir_field_count = COUNT_OF(mkdir_fields);

static const struct json_field rename_fields[] = {
    PATH_FIELD("from", from, "What to rename, from /."),
    PATH_FIELD("to", to, "What it is called afterwards, from /."),
};
static const size_t rename_field_count = COUNT_OF(rename_fields);

static int read_body(struct call *c, struct file_request *q)
{
    struct err e;

    if (json_bind(c->json, c->route->fields, *c->route->field_count, q, &c->arena, &e) >= 0)
        return 0;
    call_fail(c, &e);
    return -1;
}

static void make_dir(struct call *c)
{
    struct file_request q = { 0 };
    uint32_t mode = 0;

    if (read_body(c, &q) >= 0 && check_path(c, "path", str_from(q.path)) >= 0 &&
        (!q.mode || read_mode(c, str_from(q.mode), &mode) >= 0))
        run(c, &face_mkdir, str_from(q.path), STR(""), mode);
}

static void rename_file(struct call *c)
{
    struct file_request q = { 0 };

    if (read_body(c, &q) >= 0 && check_path(c, "from", str_from(q.from)) >= 0 &&
        check_path(c, "to", str_from(q.to)) >= 0)
        run(c, &face_rename, str_from(q.from), str_from(q.to), 0);
}

#define INSIDE (ROUTE_SANDBOX | ROUTE_LIVE)
#define FILES  "/v1/sandboxes/{id}/files"

const struct route routes_files[] = {
    { H1_GET, VERB_FILES, FILES, INSIDE, get, "Read a file", .answer = "application/octet-stream",
      .query = "path! user" },
    { H1_PUT, VERB_FILES, FILES, INSIDE | ROUTE_STREAM, put, "Write a file, whole or not at all",
      .query = "path! user mode", .status = 204 },
    { H1_DELETE, VERB_FILES, FILES, INSIDE, remove_tree, "Remove a file or tree",
      .query = "path! user", .status = 204 },
    { H1_GET, VERB_FILES, FILES "/stat", INSIDE, show_stat, "Look at a file", .answer = "File",
      .query = "path! user" },
    { H1_GET, VERB_FILES, FILES "/list", INSIDE, list, "List a directory", .answer = "FileList",
      .query = "path! user" },
    { H1_POST, VERB_FILES, FILES "/mkdir", INSIDE | ROUTE_JSON, make_dir, "Make a directory",
      mkdir_fields, &mkdir_field_count, .query = "user", .status = 204 },
    { H1_POST, VERB_FILES, FILES "/rename", INSIDE | ROUTE_JSON, rename_file, "Rename a file",
      rename_fields, &rename_field_count, .query = "user", .status = 204 },
    { H1_GET, VERB_FILES, FILES "/watch", INSIDE | ROUTE_LONG, watch, "Watch a directory",
      .answer = "application/x-ndjson", .query = "path! user" },
    { H1_GET, VERB_FILES, FILES "/tar", INSIDE, pack, "Read a tree as a tar stream",
      .answer = "application/x-tar", .query = "path! user" },
    { H1_PUT, VERB_FILES, FILES "/tar", INSIDE | ROUTE_STREAM, unpack, "Unpack a tar stream",
      .query = "path! user", .status = 204 },
    { .path = NULL },
};
