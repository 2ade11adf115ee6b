/* /files of E2B's envd: one file out, one or many in, whatever their size. */
#include <errno.h>
#include <strings.h>

#include "api/e2b/entry.h"
#include "api/e2b/inside.h"
#include "api/file_op.h"
#include "api/upload.h"

enum { METADATA_TEXT_MAX = 16 << 10 };

/* --- out --- */

static const struct file_face face_read = { .what = EXT_READ,
                                            .type = "application/octet-stream",
                                            .packs = true };

static void get(struct call *c)
{
    const char **paths = arena_array(&c->own, 2, sizeof *paths), *user = e2b_file_user(c);
    struct str path = { NULL, 0 };

    if (!user || call_query(c, "path", &path) < 0 || !e2b_at_home(c, user, path))
        return;
    paths[0] = e2b_path(c, user, path);
    if (paths[0])
        file_op_start(c, &face_read, paths, user, 0);
}

/* --- in --- */

struct arrival {
    const char *user, *only;                     /* only: the query's path */
    const char *metadata[UPLOAD_ATTRIBUTES_MAX]; /* attributes */
    size_t n_metadata;
    struct buf attributes; /* the same, one behind the other */
    struct buf answer;
    struct json_writer writer;
};

static void arrival_end(void *owner)
{
    struct arrival *u = owner;

    buf_done(&u->attributes);
    buf_done(&u->answer);
}

static int choose_path(struct call *c, const char *name, const char *filename, const char **ret,
                       struct err *e)
{
    const struct arrival *u = upload_owner(c);

    if (strcmp(name, "file") != 0)
        return 0;
    if (!u->only && !(filename && filename[0]))
        return err_set(e, ERR_INVALID, "multipart: a file without a name");
    *ret = u->only ? u->only : e2b_absolute(c, u->user, str_from(filename));
    return *ret ? 0 : err_set(e, ERR_INVALID, "path: is longer than 4095 bytes");
}

static void add_answer(struct call *c, const char *path)
{
    struct arrival *u = upload_owner(c);
    const char *slash = strrchr(path, '/');
    struct json_writer *w = &u->writer;

    json_begin_object(w);
    json_key(w, STR("path"));
    json_put_lossy(w, str_from(path));
    json_key(w, STR("name"));
    json_put_lossy(w, str_from(slash ? slash + 1 : path));
    json_key(w, STR("type"));
    json_put_str(w, STR("file"));
    metadata_attributes_write(w, buf_str(&u->attributes));
    json_end_object(w);
}

static int finish_answer(struct call *c, struct err *e)
{
    struct arrival *u = upload_owner(c);

    json_end_array(&u->writer);
    return json_writer_finish(&u->writer, e);
}

static void answer(struct call *c)
{
    const struct arrival *u = upload_owner(c);

    call_answer_bytes(c, 200, "application/json", buf_str(&u->answer));
}

static void fail(struct call *c, const struct err *e)
{
    if (e->code == ERR_FULL && (e->sys == ENOSPC || e->sys == EDQUOT))
        call_fail_with(c, 507, "storage_full", "not enough disk space available");
    else
        call_fail(c, e);
}

static const struct upload_events events = { .part = choose_path,
                                             .taken = add_answer,
                                             .complete = finish_answer,
                                             .done = answer,
                                             .failed = fail,
                                             .end = arrival_end };

/* Names of fields have no case: the small letters are the name. */
static bool add_metadata(struct arrival *u, struct call *c, const struct h1_field *f)
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

/* False: it is answered. */
static bool read_metadata(struct arrival *u, struct call *c)
{
    const struct h1_head *h = &http_request(c->x)->head;

    for (size_t i = 0; i < h->n; i++)
        if (h->fields[i].name.n >= 11 && strncasecmp(h->fields[i].name.p, "X-Metadata-", 11) == 0 &&
            !add_metadata(u, c, &h->fields[i])) {
            call_fail_with(c, 400, "invalid",
                           "X-Metadata: there may be 32 of them, with names, of 16 KiB in all");
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

/* False: it is answered. */
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
        call_fail_with(c, 400, "invalid", "path: is needed with application/octet-stream");
        return false;
    }
    if (coding.p && !h1_same(coding, STR("identity")) && !h1_same(coding, STR("gzip"))) {
        call_fail_with(c, 400, "invalid", "Content-Encoding: must be gzip, or nothing");
        return false;
    }
    ret->whole = is_form ? NULL : only;
    ret->packed = coding.p && h1_same(coding, STR("gzip"));
    return true;
}

static void post(struct call *c)
{
    const char *user = e2b_file_user(c), *only = NULL;
    struct str path = { NULL, 0 };
    struct upload_setup setup = { .events = &events };
    struct arrival *u;

    if (!user || call_query(c, "path", &path) < 0 || !e2b_at_home(c, user, path))
        return;
    if (path.n && !(only = e2b_path(c, user, path)))
        return;
    u = arena_alloc(&c->own, sizeof *u);
    if (!u)
        abort();
    *u = (struct arrival){ .user = user, .only = only };
    buf_init(&u->attributes, METADATA_TEXT_MAX);
    buf_init(&u->answer, CALL_ANSWER_MAX);
    if (!choose_form(c, only, &setup) || !read_metadata(u, c)) {
        arrival_end(u);
        return;
    }
    setup.owner = u;
    setup.user = user;
    setup.attributes = u->metadata;
    setup.n_attributes = u->n_metadata;
    json_writer_init(&u->writer, &u->answer, JSON_COMPACT);
    json_begin_array(&u->writer);
    upload_start(c, &setup);
}

const struct route routes_envd_files[] = {
    { H1_GET, VERB_FILES, "/files", 0, get, .face = &envd_files_face },
    { H1_POST, VERB_FILES, "/files", ROUTE_STREAM, post, .face = &envd_files_face },
    { .path = NULL },
};
