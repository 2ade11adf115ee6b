/* SPDX-License-Identifier: Apache-2.0 */
/* GET and POST /files of E2B's envd: downloads one file, uploads one or more, of any size. */
#include <errno.h>
#include <strings.h>

#include "edge/e2b/entry.h"
#include "edge/e2b/internal.h"
#include "edge/core/file_op.h"
#include "edge/core/upload.h"

enum { METADATA_TEXT_MAX = 16 << 10 };

/* --- download --- */

static const struct file_encoder face_read = { .what = START_READ,
                                               .type = "application/octet-stream",
                                               .packs = true };

static void download_envd_file(struct call *c)
{
    const char **paths = arena_array(&c->own, 2, sizeof *paths), *user = e2b_file_user(c);
    struct str path = { NULL, 0 };

    if (!user || call_query(c, "path", &path) < 0 || !e2b_ensure_home(c, user, path))
        return;
    paths[0] = e2b_path(c, user, path);
    if (paths[0])
        file_op_start(c, &face_read, paths, user, 0);
}

/* --- upload --- */

struct envd_upload {
    const char *user, *only;                     /* only: path of the query, or NULL */
    const char *metadata[UPLOAD_ATTRIBUTES_MAX]; /* extended attributes "NAME=VALUE" */
    size_t n_metadata;
    struct buf attributes; /* the same, each terminated by NUL */
    struct buf answer;
    struct json_writer writer;
};

static int choose_upload_path(struct call *c, const char *name, const char *filename,
                              const char **ret, struct err *e)
{
    const struct envd_upload *u = upload_owner(c);

    if (strcmp(name, "file") != 0)
        return 0;
    if (!u->only && !(filename && filename[0]))
        return err_set(e, ERR_INVALID, "multipart: a file part has no filename");
    *ret = u->only ? u->only : e2b_absolute(c, u->user, str_from(filename));
    return *ret ? 0 : err_set(e, ERR_INVALID, "path: is longer than 4095 bytes");
}

static void add_uploaded_entry(struct call *c, const char *path)
{
    struct envd_upload *u = upload_owner(c);
    const char *slash = strrchr(path, '/');
    struct json_writer *w = &u->writer;

    json_begin_object(w);
    json_field_text(w, "path", path);
    json_field_text(w, "name", slash ? slash + 1 : path);
    json_field_cstr(w, "type", "file");
    entry_write_metadata(w, buf_str(&u->attributes));
    json_end_object(w);
}

static int finish_upload_json(struct call *c, struct err *e)
{
    struct envd_upload *u = upload_owner(c);

    json_end_array(&u->writer);
    return json_writer_finish(&u->writer, e);
}

static void answer_envd_upload(struct call *c)
{
    const struct envd_upload *u = upload_owner(c);

    call_answer_bytes(c, 200, "application/json", buf_str(&u->answer));
}

static void fail_envd_upload(struct call *c, const struct err *e)
{
    if (e->code == ERR_FULL && (e->sys == ENOSPC || e->sys == EDQUOT))
        call_fail_with(c, 507, "storage_full", "not enough disk space available");
    else
        call_fail(c, e);
}

static const struct upload_events events = { .part = choose_upload_path,
                                             .taken = add_uploaded_entry,
                                             .complete = finish_upload_json,
                                             .done = answer_envd_upload,
                                             .failed = fail_envd_upload };

/* Adds a metadata header. Header names are case-insensitive, so the attribute's name is
 * lower-cased. */
static bool add_upload_metadata(struct envd_upload *u, struct call *c, const struct h1_field *f)
{
    static const char field[] = "X-Metadata-";
    char name[H1_NAME_MAX + 1];
    struct str key = { f->name.p + sizeof field - 1, f->name.n - sizeof field + 1 };
    size_t at = u->attributes.n;

    if (u->n_metadata == UPLOAD_ATTRIBUTES_MAX || !str_copy(key, name, sizeof name))
        return false;
    for (char *p = name; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    if (!name[0] ||
        buf_addf(&u->attributes, ENTRY_METADATA "%s=" STR_FMT, name, STR_ARG(f->value)) < 0 ||
        buf_add_c(&u->attributes, '\0') < 0)
        return false;
    u->metadata[u->n_metadata++] = arena_dup(&c->own, str_from(u->attributes.p + at));
    return true;
}

/* Returns false after it has answered the call. */
static bool read_metadata_headers(struct envd_upload *u, struct call *c)
{
    const struct h1_head *h = &http_request(c->x)->head;

    for (size_t i = 0; i < h->n; i++)
        if (h->fields[i].name.n >= 11 && strncasecmp(h->fields[i].name.p, "X-Metadata-", 11) == 0 &&
            !add_upload_metadata(u, c, &h->fields[i])) {
            call_fail_with(c, 400, "invalid",
                           "X-Metadata: at most 32 headers with a name, 16 KiB in total");
            return false;
        }
    return true;
}

static bool has_type(struct str value, const char *type)
{
    struct str word;

    str_cut(value, ';', &word);
    return h1_same(str_trim(word), str_from(type));
}

/* Returns false after it has answered the call. */
static bool choose_form(struct call *c, const char *only, struct upload_setup *ret)
{
    struct str type = call_header(c, "Content-Type"), coding = call_header(c, "Content-Encoding");
    bool is_form = has_type(type, "multipart/form-data");

    if (!is_form && !has_type(type, "application/octet-stream")) {
        call_fail_with(c, 400, "invalid",
                       "Content-Type: must be multipart/form-data or application/octet-stream");
        return false;
    }
    if (!is_form && !only) {
        call_fail_with(c, 400, "invalid", "path: required with application/octet-stream");
        return false;
    }
    if (coding.p && !h1_same(coding, STR("identity")) && !h1_same(coding, STR("gzip"))) {
        call_fail_with(c, 400, "invalid", "Content-Encoding: must be gzip or absent");
        return false;
    }
    ret->whole = is_form ? NULL : only;
    ret->packed = coding.p && h1_same(coding, STR("gzip"));
    return true;
}

static void upload_envd_files(struct call *c)
{
    const char *user = e2b_file_user(c), *only = NULL;
    struct str path = { NULL, 0 };
    struct upload_setup setup = { .events = &events };
    struct envd_upload *u;

    if (!user || call_query(c, "path", &path) < 0 || !e2b_ensure_home(c, user, path))
        return;
    if (path.n && !(only = e2b_path(c, user, path)))
        return;
    u = call_alloc(c, 1, sizeof *u);
    u->user = user;
    u->only = only;
    call_own_buf(c, &u->attributes, METADATA_TEXT_MAX);
    call_own_buf(c, &u->answer, CALL_ANSWER_MAX);
    if (!choose_form(c, only, &setup) || !read_metadata_headers(u, c))
        return;
    setup.owner = u;
    setup.user = user;
    setup.attributes = u->metadata;
    setup.n_attributes = u->n_metadata;
    json_writer_init(&u->writer, &u->answer, JSON_COMPACT);
    json_begin_array(&u->writer);
    upload_start(c, &setup);
}

const struct route routes_envd_files[] = {
    { H1_GET, VERB_FILES, "/files", 0, .handle = download_envd_file },
    { H1_POST, VERB_FILES, "/files", ROUTE_STREAM, .handle = upload_envd_files },
    { .path = NULL },
};
