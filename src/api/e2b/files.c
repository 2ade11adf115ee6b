/* /files of E2B's envd: one file out, one or many in, whatever their size. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "api/e2b/entry.h"
#include "api/e2b/inside.h"
#include "api/e2b/multipart.h"
#include "api/file_op.h"
#include "api/file_take.h"
#include "extensions/records.h"
#include "gzip/gunzip.h"

enum { PIECE = 64 << 10, RAW_MAX = 4 << 20, FRAMED_MAX = 256 << 10, FILES_MAX = 10000 };
enum { METADATA_MAX = 32, METADATA_TEXT_MAX = 16 << 10 };

/* --- out --- */

static void get(struct call *c)
{
    const char **paths = arena_array(&c->arena, 2, sizeof *paths), *user = e2b_file_user(c);
    struct str path = { NULL, 0 };

    if (!user || call_query(c, "path", &path) < 0)
        return;
    paths[0] = e2b_path(c, user, path);
    if (paths[0])
        file_op_start(c, &file_face_read, paths, user, 0);
}

/* --- in ---
 *
 * Bytes of the body are unpacked, cut into parts and given to one write after the other. What a
 * write cannot take yet holds up the body. */

enum upload_state {
    UPLOAD_NEXT,     /* the next part is looked for */
    UPLOAD_MAKING,   /* the directory that the file is to be in … */
    UPLOAD_STARTING, /* … and the write */
    UPLOAD_WRITING,
    UPLOAD_ENDING, /* all of the file is given: waits for its end */
    UPLOAD_OVER,   /* answered */
};

struct upload {
    struct call *call;
    enum upload_state state;
    const char *user, *only; /* only: the query's path */
    bool is_multipart;
    struct multipart multipart;
    struct gunzip *gunzip; /* NULL: it comes as it is */
    struct buf packed;     /* what came, and is not unpacked */
    struct buf raw;        /* what came, and is not cut up */
    bool body_over, paused;
    struct file_take take;
    struct run_op op;
    bool running;
    int in;
    struct loop_fd input;
    struct buf framed; /* what has to go to the write's stdin */
    const char *path, *paths[2 + METADATA_MAX];
    const char *metadata[METADATA_MAX]; /* attributes */
    size_t n_metadata;
    struct buf attributes; /* the same, one behind the other */
    struct buf answer;
    struct json_writer writer;
    size_t files;
};

static void upload_end(struct call *c)
{
    struct upload *u = c->state;

    loop_fd_stop(&u->input);
    drop_fd(&u->in);
    gunzip_free(u->gunzip);
    file_take_done(&u->take);
    buf_done(&u->packed);
    buf_done(&u->raw);
    buf_done(&u->framed);
    buf_done(&u->attributes);
    buf_done(&u->answer);
    free(u);
}

/* A write whose data breaks off changes nothing, and ends. */
static void stop(struct upload *u)
{
    u->state = UPLOAD_OVER;
    loop_fd_stop(&u->input);
    drop_fd(&u->in);
}

static void upload_gone(struct call *c)
{
    stop(c->state);
}

static void fail(struct upload *u, const struct err *e)
{
    stop(u);
    if (e->code == ERR_TOO_BIG && (e->sys == ENOSPC || e->sys == EDQUOT))
        call_fail_with(u->call, 507, "too_big", "not enough disk space available");
    else
        call_fail(u->call, e);
}

static void advance(struct upload *u);

/* --- one file --- */

static void add_answer(struct upload *u)
{
    const char *slash = strrchr(u->path, '/');
    struct json_writer *w = &u->writer;

    json_begin_object(w);
    json_key(w, STR("path"));
    json_put_lossy(w, str_from(u->path));
    json_key(w, STR("name"));
    json_put_lossy(w, str_from(slash ? slash + 1 : u->path));
    json_key(w, STR("type"));
    json_put_str(w, STR("file"));
    metadata_attributes_write(w, buf_str(&u->attributes));
    json_end_object(w);
}

static void on_started(struct run_op *op, int r, const struct err *e)
{
    struct upload *u = container_of(op, struct upload, op);
    struct call *c = u->call;

    if (r < 0) {
        fail(u, e);
        call_unref(c);
        return;
    }
    u->running = true;
    u->in = take_fd(&op->process.stdio[0]);
    drop_fd(&op->process.stdio[1]);
    drop_fd(&op->process.stdio[2]);
    if (u->state == UPLOAD_OVER) { /* nobody is there any more */
        drop_fd(&u->in);
        return;
    }
    u->state = UPLOAD_WRITING;
    advance(u);
}

static void on_ended(struct run_op *op, const struct ext_end *end)
{
    struct upload *u = container_of(op, struct upload, op);
    bool whole = u->state == UPLOAD_ENDING;
    struct err e;

    u->running = false;
    file_failure(end, &e);
    if (!e.code && !whole)
        (void)err_set(&e, ERR_SYS, "the write ended early");
    if (u->state == UPLOAD_OVER) {
        call_unref(u->call);
        return;
    }
    if (e.code) {
        fail(u, &e);
    } else {
        loop_fd_stop(&u->input);
        drop_fd(&u->in);
        add_answer(u);
        u->state = UPLOAD_NEXT;
        advance(u);
    }
    call_unref(u->call); /* the operation's */
}

static const struct run_op_events write_events = { .started = on_started, .ended = on_ended };

static void then_write(struct file_take *t, const struct err *e)
{
    struct upload *u = container_of(t, struct upload, take);
    const struct ext_start start = {
        .what = EXT_WRITE, .flags = EXT_STDIN, .user = u->user, .cwd = "/", .argv = u->paths
    };

    if (u->state == UPLOAD_OVER)
        return;
    if (e) {
        fail(u, e);
        return;
    }
    u->state = UPLOAD_STARTING;
    u->paths[0] = u->path;
    memcpy(u->paths + 1, u->metadata, u->n_metadata * sizeof *u->metadata);
    u->op = (struct run_op){ .events = &write_events, .actor = &u->call->caller.actor };
    call_ref(u->call);
    sandbox_run(u->call->sandbox, &start, &u->op);
}

static bool begin_file(struct upload *u, const char *path)
{
    struct call *c = u->call;
    struct err e;

    if (++u->files > FILES_MAX) {
        (void)err_set(&e, ERR_TOO_BIG, "more than %d files at once", FILES_MAX);
        fail(u, &e);
        return false;
    }
    u->path = e2b_path(c, u->user, str_from(path));
    if (!u->path) {
        stop(u);
        return false;
    }
    u->state = UPLOAD_MAKING;
    u->paths[0] = arena_dup(&c->arena, str_from(e2b_parent(c, u->path)));
    u->paths[1] = NULL;
    file_take_start(&u->take, c, EXT_MKDIR, u->paths, u->user, 0, then_write);
    return true;
}

/* --- its bytes --- */

static void on_room(struct loop_fd *s, unsigned events)
{
    struct upload *u = container_of(s, struct upload, input);

    (void)events;
    loop_fd_stop(s);
    advance(u);
}

/* True: all of it is given. What the write does not take any more its end explains. */
static bool give(struct upload *u)
{
    while (u->in >= 0 && u->framed.n) {
        ssize_t n = write(u->in, u->framed.p, u->framed.n);

        if (n >= 0) {
            buf_drop(&u->framed, (size_t)n);
        } else if (errno == EAGAIN) {
            loop_fd_stop(&u->input);
            loop_fd_start(u->call->api->loop, &u->input, u->in, LOOP_WRITE, on_room, NULL);
            return false;
        } else if (errno != EINTR) {
            drop_fd(&u->in);
        }
    }
    if (u->in < 0)
        buf_clear(&u->framed);
    return true;
}

static void frame(struct upload *u, struct str data)
{
    char head[EXT_CHUNK_HEAD];

    ext_chunk_head((uint32_t)data.n, head);
    buf_add(&u->framed, (struct str){ head, sizeof head }); /* there is room: it was empty */
    buf_add(&u->framed, data);
}

static void end_file(struct upload *u)
{
    frame(u, STR(""));
    u->state = UPLOAD_ENDING;
    (void)give(u);
}

/* --- the body --- */

static void answer(struct upload *u)
{
    struct call *c = u->call;
    struct err e;

    u->state = UPLOAD_OVER;
    json_end_array(&u->writer);
    if (json_writer_finish(&u->writer, &e) < 0)
        call_fail(c, &e);
    else
        call_answer_bytes(c, 200, "application/json", buf_str(&u->answer));
}

/* There is no more than what is raw. */
static bool all_came(const struct upload *u)
{
    return u->body_over && !u->packed.n && (!u->gunzip || gunzip_over(u->gunzip));
}

/* False: nothing can be done before more comes. */
static bool take_part(struct upload *u)
{
    struct multipart_event v;
    struct str in = buf_str(&u->raw);
    struct err e;
    ssize_t n;

    if (u->state == UPLOAD_WRITING && in.n > PIECE)
        in.n = PIECE;
    n = multipart_next(&u->multipart, in, &v, &e);
    if (n == 0 && v.kind == MULTIPART_MORE && all_came(u))
        n = err_set(&e, ERR_INVALID, "multipart: the body ends in the middle");
    if (n < 0) {
        fail(u, &e);
        return false;
    }
    if (v.kind == MULTIPART_DATA)
        frame(u, v.data);
    buf_drop(&u->raw, (size_t)n);
    switch (v.kind) {
    case MULTIPART_PART:
        if (strcmp(u->multipart.name, "file") != 0 || !(u->only || u->multipart.filename[0])) {
            (void)err_set(&e, ERR_INVALID, "multipart: a part that is no file with a name");
            fail(u, &e);
            return false;
        }
        begin_file(u, u->only ? u->only : u->multipart.filename);
        return false;
    case MULTIPART_PART_END:
        end_file(u);
        return false;
    case MULTIPART_END:
        if (all_came(u))
            answer(u);
        return false;
    default:
        return n > 0;
    }
}

/* Everything is one file. */
static bool take_whole(struct upload *u)
{
    struct str in = buf_str(&u->raw);

    if (u->state == UPLOAD_NEXT && u->files) {
        answer(u);
        return false;
    }
    if (u->state == UPLOAD_NEXT) {
        begin_file(u, u->only);
        return false;
    }
    if (in.n) {
        in.n = in.n < PIECE ? in.n : PIECE;
        frame(u, in);
        buf_drop(&u->raw, in.n);
        return true;
    }
    if (all_came(u))
        end_file(u);
    return false;
}

/* From packed to raw, if it is packed. False: it is damaged, which is answered. */
static bool unpack(struct upload *u)
{
    struct str in = buf_str(&u->packed);
    struct err e;
    ssize_t n = 1;
    char *room;

    if (!u->gunzip)
        return true;
    while (n > 0 && u->raw.n < PIECE && buf_room(&u->raw, PIECE, &room) >= 0) {
        n = gunzip_some(u->gunzip, &in, room, PIECE, &e);
        if (n > 0)
            buf_grew(&u->raw, (size_t)n);
    }
    buf_drop(&u->packed, u->packed.n - in.n);
    if (n == 0 && u->body_over && !gunzip_over(u->gunzip))
        n = err_set(&e, ERR_INVALID, "gzip: the data ends in the middle");
    if (n < 0)
        fail(u, &e);
    return n >= 0;
}

static void pace_body(struct upload *u)
{
    bool full = u->raw.n + u->packed.n > PIECE;

    if (!u->call->x || u->body_over || full == u->paused)
        return;
    u->paused = full;
    if (full)
        http_body_pause(u->call->x);
    else
        http_body_resume(u->call->x);
}

static bool takes_bytes(const struct upload *u)
{
    return u->state == UPLOAD_NEXT || u->state == UPLOAD_WRITING;
}

static void advance(struct upload *u)
{
    if (u->state == UPLOAD_ENDING)
        (void)give(u);
    while (takes_bytes(u) && give(u) && unpack(u) &&
           (u->is_multipart ? take_part(u) : take_whole(u)))
        ;
    pace_body(u);
}

static void on_body(struct http_exchange *x, struct str data)
{
    struct call *c = http_state(x);
    struct upload *u = c->state;
    struct err e;

    if (u->state == UPLOAD_OVER)
        return;
    u->body_over = data.n == 0;
    if (buf_add(u->gunzip ? &u->packed : &u->raw, data) < 0) {
        (void)err_set(&e, ERR_BUG, "a piece of the body is too big");
        fail(u, &e);
        return;
    }
    call_ref(c);
    advance(u);
    call_unref(c);
}

/* Names of fields have no case: the small letters are the name. */
static bool add_metadata(struct upload *u, const struct h1_field *f)
{
    static const char field[] = "X-Metadata-";
    char name[H1_NAME_MAX + 1];
    struct str key = { f->name.p + sizeof field - 1, f->name.n - sizeof field + 1 };
    size_t at = u->attributes.n;

    if (u->n_metadata == METADATA_MAX || !str_copy(key, name, sizeof name))
        return false;
    for (char *p = name; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    if (!name[0] ||
        buf_addf(&u->attributes, ENTRY_METADATA "%s=" STR_FMT, name, STR_ARG(f->value)) < 0 ||
        buf_add_c(&u->attributes, '\0') < 0)
        return false;
    u->metadata[u->n_metadata++] = arena_dup(&u->call->arena, str_from(u->attributes.p + at));
    return true;
}

/* False: it is answered. */
static bool read_metadata(struct upload *u)
{
    const struct h1_head *h = &http_request(u->call->x)->head;

    for (size_t i = 0; i < h->n; i++)
        if (h->fields[i].name.n >= 11 && strncasecmp(h->fields[i].name.p, "X-Metadata-", 11) == 0 &&
            !add_metadata(u, &h->fields[i])) {
            call_fail_with(u->call, 400, "invalid",
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

static bool choose_form(struct upload *u, struct call *c)
{
    struct str type = call_header(c, "Content-Type"), coding = call_header(c, "Content-Encoding");
    struct err e;

    u->is_multipart = has_type(type, "multipart/form-data");
    if (u->is_multipart && multipart_init(&u->multipart, type, &e) < 0) {
        call_fail(c, &e);
        return false;
    }
    if (!u->is_multipart && !has_type(type, "application/octet-stream")) {
        call_fail_with(c, 400, "invalid",
                       "Content-Type: must be multipart/form-data or application/octet-stream");
        return false;
    }
    if (!u->is_multipart && !u->only) {
        call_fail_with(c, 400, "invalid", "path: is needed with application/octet-stream");
        return false;
    }
    if (coding.p && !h1_same(coding, STR("identity")) && !h1_same(coding, STR("gzip"))) {
        call_fail_with(c, 400, "invalid", "Content-Encoding: must be gzip, or nothing");
        return false;
    }
    if (coding.p && h1_same(coding, STR("gzip")))
        u->gunzip = gunzip_new();
    return true;
}

static void post(struct call *c)
{
    const char *user = e2b_file_user(c);
    struct str path = { NULL, 0 };
    struct upload *u;

    if (!user || call_query(c, "path", &path) < 0)
        return;
    u = calloc(1, sizeof *u);
    if (!u)
        abort();
    u->call = c;
    u->user = user;
    u->only = path.n ? arena_dup(&c->arena, path) : NULL;
    u->in = -1;
    buf_init(&u->packed, RAW_MAX);
    buf_init(&u->raw, RAW_MAX);
    buf_init(&u->framed, FRAMED_MAX);
    buf_init(&u->answer, CALL_ANSWER_MAX);
    c->state = u;
    c->on_end = upload_end;
    c->on_gone = upload_gone;
    buf_init(&u->attributes, METADATA_TEXT_MAX);
    if (!choose_form(u, c) || !read_metadata(u))
        return;
    json_writer_init(&u->writer, &u->answer, JSON_COMPACT);
    json_begin_array(&u->writer);
    http_stream(c->x, on_body);
}

const struct route routes_envd_files[] = {
    { H1_GET, VERB_FILES, "/files", 0, get, .face = &envd_files_face },
    { H1_POST, VERB_FILES, "/files", ROUTE_STREAM, post, .face = &envd_files_face },
    { .path = NULL },
};
