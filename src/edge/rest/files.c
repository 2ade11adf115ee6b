/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/sandboxes/{id}/files: each route is one file operation inside. */
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "edge/core/answers.h"
#include "edge/core/file_op.h"
#include "edge/rest/routes.h"
#include "backends/records.h"

enum { PATH_BYTES_MAX = 4095, USER_MAX = 64 };
enum { ENTRY_BASE64_MAX = 16 << 10 }; /* of a name or target */

/* --- records as JSON --- */

static const char *const entry_kinds[] = { "file", "dir", "link", "other", NULL };

struct file_answer {
    const char *kind;
    const struct backend_entry *entry;
    struct bytes_answer name, target;
    char mode[8];
};

#define AT(member) JSON_AT(struct file_answer, member)
#define ENTRY(member)                                                                              \
    .via = offsetof(struct file_answer, entry), JSON_AT(struct backend_entry, member)

static const struct json_field file_fields[] = {
    { "name", JSON_KIND_SLICE, AT(name.text) },
    { "name_b64", JSON_KIND_SLICE, AT(name.base64) },
    { "kind", JSON_KIND_TEXT, AT(kind), .required = true, .names = entry_kinds },
    { "size", JSON_KIND_UINT, ENTRY(size), .required = true },
    { "mode", JSON_KIND_CHARS, AT(mode), .required = true },
    { "uid", JSON_KIND_UINT, ENTRY(uid), .required = true },
    { "gid", JSON_KIND_UINT, ENTRY(gid), .required = true },
    { "nlink", JSON_KIND_UINT, ENTRY(nlink) },
    { "mtime", JSON_KIND_TIME, ENTRY(mtime_ns), .required = true },
    { "target", JSON_KIND_SLICE, AT(target.text) },
    { "target_b64", JSON_KIND_SLICE, AT(target.base64) },
};
static const struct json_shape file_answer = { "File", JSON_FIELDS(file_fields) };

/* A listing is written entry by entry, as the sandbox sends them. */
static const struct json_field file_list_fields[] = {
    { "entries", JSON_KIND_OBJECTS, .required = true, .schema = "File" },
};
static const struct json_shape file_list = { "FileList", JSON_FIELDS(file_list_fields) };
const struct json_shape *const answers_files[] = { &file_answer, &file_list, NULL };

static void write_file_entry(struct json_writer *w, const struct backend_entry *v)
{
    struct buf name AUTO(buf_done) = BUF_INIT(ENTRY_BASE64_MAX);
    struct buf target AUTO(buf_done) = BUF_INIT(ENTRY_BASE64_MAX);
    struct file_answer a = { .kind = entry_kinds[S_ISREG(v->mode)   ? 0
                                                 : S_ISDIR(v->mode) ? 1
                                                 : S_ISLNK(v->mode) ? 2
                                                                    : 3],
                             .entry = v,
                             .name = bytes_answer(v->name, &name) };

    snprintf(a.mode, sizeof a.mode, "%04o", (unsigned)(v->mode & 07777));
    if (S_ISLNK(v->mode))
        a.target = bytes_answer(v->target, &target);
    json_put_shape(w, &file_answer, &a);
}

static ssize_t encode_entries(struct file_op *f, struct str in, struct buf *out)
{
    struct backend_entry v;
    struct json_writer w;
    size_t used = 0;
    ssize_t n;

    while ((n = backend_entry_read((struct str){ in.p + used, in.n - used }, &v)) > 0) {
        used += (size_t)n;
        if (f->shown)
            buf_add_c(out, ',');
        f->shown = true;
        json_writer_init(&w, out, JSON_COMPACT);
        write_file_entry(&w, &v);
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

static ssize_t encode_changes(struct file_op *f, struct str in, struct buf *out)
{
    struct backend_change v;
    struct json_writer w;
    size_t used = 0;
    ssize_t n;

    while ((n = backend_change_read((struct str){ in.p + used, in.n - used }, &v)) > 0) {
        used += (size_t)n;
        if (!change_name(v.mask)) /* the first record only marks the watch as active */
            continue;
        json_writer_init(&w, out, JSON_COMPACT);
        json_begin_object(&w);
        json_field_cstr(&w, "event", change_name(v.mask));
        bytes_write(&w, "name", "name_b64", v.name);
        json_end_object(&w);
        if (json_writer_finish(&w, NULL) < 0 || buf_add_c(out, '\n') < 0)
            return -1;
    }
    return n < 0 ? -1 : (ssize_t)used;
}

const struct file_encoder file_encoder_read = { .what = START_READ,
                                                .type = "application/octet-stream" },
                          file_encoder_write = { .what = START_WRITE,
                                                 .input = true,
                                                 .framed = true };

static const struct file_encoder encoder_remove = { .what = START_REMOVE },
                                 encoder_stat = { .what = START_STAT,
                                                  .type = "application/json",
                                                  .show = encode_entries,
                                                  .after = "\n" },
                                 encoder_list = { .what = START_LIST,
                                                  .type = "application/json",
                                                  .show = encode_entries,
                                                  .before = "{\"entries\":[",
                                                  .after = "]}\n" },
                                 encoder_mkdir = { .what = START_MKDIR },
                                 encoder_rename = { .what = START_RENAME },
                                 encoder_watch = { .what = START_WATCH,
                                                   .type = "application/x-ndjson",
                                                   .show = encode_changes },
                                 encoder_pack = { .what = START_PACK, .type = "application/x-tar" },
                                 encoder_unpack = { .what = START_UNPACK, .input = true };

/* --- the request --- */

static bool check_file_path(struct call *c, const char *name, struct str path)
{
    if (path.n && path.p[0] == '/' && path.n <= PATH_BYTES_MAX && !memchr(path.p, 0, path.n))
        return true;
    return call_fail_with(c, 400, "invalid", "%s: must be an absolute path of at most %d bytes",
                          name, PATH_BYTES_MAX);
}

static bool read_file_mode(struct call *c, struct str text, uint32_t *ret)
{
    uint32_t mode = 0;

    for (size_t i = 0; i < text.n; i++)
        mode = text.p[i] >= '0' && text.p[i] <= '7' && i < 5
                   ? mode << 3 | (uint32_t)(text.p[i] - '0')
                   : UINT32_MAX >> 3;
    if (!text.n || mode > 0777)
        return call_fail_with(c, 400, "invalid", "mode: must be octal digits up to 0777");
    *ret = mode;
    return true;
}

static bool read_file_user(struct call *c, const char **ret)
{
    struct str user;
    int r = call_query(c, "user", &user);

    *ret = "0";
    if (r <= 0)
        return r == 0;
    if (!user.n || user.n > USER_MAX)
        return call_fail_with(c, 400, "invalid", "user: must be a name, UID or UID:GID");
    *ret = arena_dup(&c->own, user);
    return true;
}

static void run_file_op(struct call *c, const struct file_encoder *encoder, struct str from,
                        struct str to, uint32_t mode)
{
    const char **paths = arena_array(&c->own, 3, sizeof *paths), *user;

    if (!read_file_user(c, &user))
        return;
    paths[0] = arena_dup(&c->own, from);
    paths[1] = to.n ? arena_dup(&c->own, to) : NULL;
    file_op_start(c, encoder, paths, user, mode);
}

/* Runs the file operation of the route, whose path is in the query. */
static void rest_run_query_path(struct call *c)
{
    const struct file_encoder *encoder = c->route->with;
    struct str path = { 0 }, mode;
    uint32_t bits = 0;
    int r = call_query(c, "path", &path);

    if (r < 0 || !check_file_path(c, "path", path))
        return;
    r = encoder == &file_encoder_write ? call_query(c, "mode", &mode) : 0;
    if (r < 0 || (r > 0 && !read_file_mode(c, mode, &bits)))
        return;
    run_file_op(c, encoder, path, STR(""), bits);
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

static const struct json_field rename_fields[] = {
    PATH_FIELD("from", from, "What to rename, from /."),
    PATH_FIELD("to", to, "What it is called afterwards, from /."),
};

static void rest_make_directory(struct call *c)
{
    struct file_request q = { 0 };
    uint32_t mode = 0;

    if (call_read(c, &q) && check_file_path(c, "path", str_from(q.path)) &&
        (!q.mode || read_file_mode(c, str_from(q.mode), &mode)))
        run_file_op(c, &encoder_mkdir, str_from(q.path), STR(""), mode);
}

static void rest_rename_path(struct call *c)
{
    struct file_request q = { 0 };

    if (call_read(c, &q) && check_file_path(c, "from", str_from(q.from)) &&
        check_file_path(c, "to", str_from(q.to)))
        run_file_op(c, &encoder_rename, str_from(q.from), str_from(q.to), 0);
}

#define INSIDE (ROUTE_SANDBOX | ROUTE_LIVE)
#define FILES  "/v1/sandboxes/{id}/files"

const struct route routes_files[] = {
    { H1_GET, VERB_FILES, FILES, INSIDE, rest_run_query_path, "Read a file",
      .answer = "application/octet-stream", .query = "path! user", .with = &file_encoder_read },
    { H1_PUT, VERB_FILES, FILES, INSIDE | ROUTE_STREAM, rest_run_query_path,
      "Write a file, whole or not at all", .query = "path! user mode", .status = 204,
      .with = &file_encoder_write },
    { H1_DELETE, VERB_FILES, FILES, INSIDE, rest_run_query_path, "Remove a file or tree",
      .query = "path! user", .status = 204, .with = &encoder_remove },
    { H1_GET, VERB_FILES, FILES "/stat", INSIDE, rest_run_query_path,
      "Show the attributes of a file", .answer = "File", .query = "path! user",
      .with = &encoder_stat },
    { H1_GET, VERB_FILES, FILES "/list", INSIDE, rest_run_query_path, "List a directory",
      .answer = "FileList", .query = "path! user", .with = &encoder_list },
    { H1_POST, VERB_FILES, FILES "/mkdir", INSIDE | ROUTE_JSON, rest_make_directory,
      "Make a directory", ROUTE_FIELDS(mkdir_fields), .query = "user", .status = 204 },
    { H1_POST, VERB_FILES, FILES "/rename", INSIDE | ROUTE_JSON, rest_rename_path, "Rename a file",
      ROUTE_FIELDS(rename_fields), .query = "user", .status = 204 },
    { H1_GET, VERB_FILES, FILES "/watch", INSIDE | ROUTE_LONG, rest_run_query_path,
      "Watch a directory", .answer = "application/x-ndjson", .query = "path! user",
      .with = &encoder_watch },
    { H1_GET, VERB_FILES, FILES "/tar", INSIDE, rest_run_query_path, "Read a tree as a tar stream",
      .answer = "application/x-tar", .query = "path! user", .with = &encoder_pack },
    { H1_PUT, VERB_FILES, FILES "/tar", INSIDE | ROUTE_STREAM, rest_run_query_path,
      "Unpack a tar stream", .query = "path! user", .status = 204, .with = &encoder_unpack },
    { .path = NULL },
};
