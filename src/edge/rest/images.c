/* /v1/images: what sandboxes can be created from. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/inside.h"
#include "api/keep_body.h"
#include "api/route.h"
#include "control/images.h"
#include "json/reader.h"

/* --- an image, shown --- */

static void put(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

static void put_number(struct json_writer *w, const char *key, uint64_t n)
{
    json_key(w, str_from(key));
    json_put_uint(w, n);
}

static void put_members(struct json_writer *w, const struct image *im)
{
    const struct oci_platform *p = &im->config.platform;

    put(w, "ref", im->ref);
    put(w, "digest", im->digest);
    put(w, "id", im->id);
    put(w, "os", p->os ? p->os : "");
    put(w, "architecture", p->architecture ? p->architecture : "");
    put_number(w, "bytes", im->bytes);
    time_write(w, "created_at", im->created_ns);
}

static void put_layers(struct json_writer *w, const struct image *im)
{
    json_key(w, STR("layers"));
    json_begin_array(w);
    for (size_t i = 0; i < im->layers.n; i++)
        json_put_str(w, str_from(im->layers.p[i]));
    json_end_array(w);
}

static void put_also(struct json_writer *w, const struct json_strs *refs)
{
    if (!refs->n)
        return;
    json_key(w, STR("also"));
    json_begin_array(w);
    for (size_t i = 0; i < refs->n; i++)
        json_put_lossy(w, str_from(refs->p[i]));
    json_end_array(w);
}

struct shown {
    const struct image *image;
    struct json_strs also;   /* that came with it */
    const int64_t *pause_ns; /* of the sandbox that it was made of; NULL: of none */
    struct arena *arena;
    size_t users;
};

/* The configuration as it came: all of it, also what we do not use. */
static void write_image(struct json_writer *w, const void *what)
{
    const struct json_limits limits = { .bytes = OCI_DOCUMENT_MAX, .depth = 32 };
    const struct shown *s = what;
    const struct json *config;

    json_begin_object(w);
    put_members(w, s->image);
    put_layers(w, s->image);
    put_number(w, "sandboxes", s->users);
    put_also(w, &s->also);
    if (s->pause_ns)
        pause_write(w, *s->pause_ns);
    if (json_read(s->image->text, limits, s->arena, &config, NULL) >= 0) {
        json_key(w, STR("config"));
        json_put_tree(w, config);
    }
    json_end_object(w);
}

static void answer_shown(struct call *c, int status, struct str ref, struct shown *s)
{
    char one[ID_MAX];
    struct err e;

    if (images_find(c->api->control, ref, &s->image, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    s->arena = &c->arena;
    s->users = image_users(c->api->control, s->image, one);
    call_answer(c, status, write_image, s);
}

static void answer_image(struct call *c, int status, struct str ref, struct json_strs also)
{
    answer_shown(c, status, ref, &(struct shown){ .also = also });
}

static void write_images(struct json_writer *w, const void *what)
{
    const struct call *c = what;

    json_begin_object(w);
    json_key(w, STR("images"));
    json_begin_array(w);
    for (const struct image *im = NULL; (im = images_next(c->api->control, im));) {
        json_begin_object(w);
        put_members(w, im);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static void list(struct call *c)
{
    call_answer(c, 200, write_images, c);
}

static void inspect(struct call *c)
{
    struct str ref = { NULL, 0 };

    if (call_query(c, "ref", &ref) >= 0)
        answer_image(c, 200, ref, (struct json_strs){ NULL, 0 });
}

/* --- operations --- */

enum { IMAGES_OF_ARCHIVE_MAX = 1024 }; /* that are told of: names of all images */

struct operation {
    struct call *call;
    struct image_op op;
    bool under_way;
    int status;
    call_write_fn *write; /* NULL: the image */
    /* of an import */
    struct image_import import;
    uint64_t size;
    const char *made[IMAGES_OF_ARCHIVE_MAX]; /* before the last */
    size_t n_made;
};

static void operation_gone(struct call *c)
{
    struct operation *o = c->state;

    if (!o->under_way)
        return;
    o->under_way = false;
    image_op_cancel(&o->op);
    call_unref(c);
}

static void operation_end(struct call *c)
{
    struct operation *o = c->state;

    drop_fd(&o->import.fd);
    free(o);
}

static void made(struct image_op *op, const char *ref)
{
    struct operation *o = container_of(op, struct operation, op);

    if (o->n_made < COUNT_OF(o->made) && (ref = arena_dup(&o->call->arena, str_from(ref))))
        o->made[o->n_made++] = ref;
}

/* The first of an archive, and what else was in it. */
static void answer_made(struct operation *o)
{
    const char *first = o->n_made ? o->made[0] : o->op.ref;

    for (size_t i = 1; i < o->n_made; i++)
        o->made[i - 1] = o->made[i];
    if (o->n_made)
        o->made[o->n_made - 1] = o->op.ref;
    answer_image(o->call, o->status, str_from(first), (struct json_strs){ o->made, o->n_made });
}

static void over(struct image_op *op, int r, const struct err *e)
{
    struct operation *o = container_of(op, struct operation, op);
    struct call *c = o->call;

    o->under_way = false;
    if (r < 0)
        call_fail(c, e);
    else if (o->write)
        call_answer(c, o->status, o->write, o);
    else
        answer_made(o);
    call_unref(c);
}

static void at(struct image_op *op, const char *step, uint64_t bytes, uint64_t total)
{
    call_progress_of(container_of(op, struct operation, op)->call, step, bytes, total);
}

static struct operation *operation_new(struct call *c, int status, call_write_fn *write)
{
    struct operation *o = calloc(1, sizeof *o);

    if (!o)
        abort();
    *o = (struct operation){ .call = c,
                             .status = status,
                             .write = write,
                             .import.fd = -1,
                             .op = { .done = over, .at = at, .made = made } };
    c->state = o;
    c->on_end = operation_end;
    c->on_gone = operation_gone;
    return o;
}

/* Before it is started: it may hold the call until it is over. */
static void operation_begin(struct operation *o)
{
    o->under_way = true;
    call_ref(o->call);
}

struct image_request {
    const char *ref, *platform, *credentials;
    bool squash;
};

#define FIELD(member) JSON_AT(struct image_request, member)
#define REF_FIELD                                                                                  \
    {                                                                                              \
        "ref", JSON_KIND_STR, FIELD(ref), .required = true, .min = 1, .max = OCI_REFERENCE_MAX,    \
                                          .doc = "[HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]."       \
    }
static const struct json_field pull_fields[] = {
    REF_FIELD,
    { "platform", JSON_KIND_STR, FIELD(platform), .max = 100,
      .doc = "OS/ARCHITECTURE[/VARIANT] of an image for several; by default this machine's." },
    { "credentials", JSON_KIND_STR, FIELD(credentials), .max = 4096,
      .doc = "USER:PASSWORD for the registry; kept nowhere." },
    { "squash_owners", JSON_KIND_BOOL, FIELD(squash),
      .doc = "Everything in it belongs to root: for users without subordinate ids." },
};
static const size_t pull_field_count = COUNT_OF(pull_fields);

static const struct json_field verify_fields[] = { REF_FIELD };
static const size_t verify_field_count = COUNT_OF(verify_fields);

static int read_request(struct call *c, struct image_request *q)
{
    struct err e;
    int r = json_bind(c->json, c->route->fields, *c->route->field_count, q, &c->arena, &e);

    if (r < 0)
        call_fail(c, &e);
    return r;
}

static void pull(struct call *c)
{
    struct image_request q = { 0 };
    struct operation *o;

    if (read_request(c, &q) < 0)
        return;
    o = operation_new(c, 201, NULL);
    operation_begin(o);
    images_pull(c->api->control, &c->caller,
                &(struct image_pull){ .ref = str_from(q.ref),
                                      .platform = str_from(q.platform),
                                      .credentials = str_from(q.credentials),
                                      .squash = q.squash },
                &o->op);
}

static void write_verified(struct json_writer *w, const void *what)
{
    const struct operation *o = what;

    json_begin_object(w);
    put(w, "ref", o->op.ref);
    put_number(w, "layers", o->op.removed);
    put_number(w, "first_time", o->op.first);
    put_number(w, "bytes", o->op.bytes);
    json_end_object(w);
}

static void verify(struct call *c)
{
    struct image_request q = { 0 };
    struct operation *o;

    if (read_request(c, &q) < 0)
        return;
    o = operation_new(c, 200, write_verified);
    operation_begin(o);
    images_verify(c->api->control, str_from(q.ref), &o->op);
}

static void write_removed(struct json_writer *w, const void *what)
{
    const struct operation *o = what;

    json_begin_object(w);
    put_number(w, "layers", o->op.removed);
    put_number(w, "bytes", o->op.bytes);
    json_end_object(w);
}

static void remove_image(struct call *c)
{
    struct str ref = { NULL, 0 };
    struct operation *o;

    if (call_query(c, "ref", &ref) < 0)
        return;
    o = operation_new(c, 200, write_removed);
    operation_begin(o);
    images_remove(c->api->control, &c->caller, ref, &o->op);
}

static void prune(struct call *c)
{
    struct operation *o = operation_new(c, 200, write_removed);

    operation_begin(o);
    images_prune(c->api->control, &o->op);
}

/* --- import: the body is an archive --- */

static void refuse(struct operation *o, int r, const struct err *e)
{
    (void)r;
    drop_fd(&o->import.fd);
    call_fail(o->call, e);
}

static int check_magic(struct str data, struct err *e)
{
    static const struct str packed[] = { STR("\x1f\x8b"), STR("\x28\xb5\x2f\xfd"),
                                         STR("\xfd"
                                             "7zXZ") };

    for (size_t i = 0; i < COUNT_OF(packed); i++)
        if (str_starts(data, packed[i]))
            return err_set(e, ERR_INVALID,
                           "the archive is compressed; decompress it first, as `sandboxer image "
                           "import` does");
    return 0;
}

static int take_piece(struct operation *o, struct str data, struct err *e)
{
    if (o->size == 0 && check_magic(data, e) < 0)
        return -(int)e->code;
    return keep_body(o->import.fd, &o->size, o->call->api->config, data, e);
}

static void on_body(struct http_exchange *x, struct str data)
{
    struct call *c = http_state(x);
    struct operation *o = c->state;
    struct err e;
    int r;

    if (o->import.fd < 0)
        return; /* it was refused */
    if (data.n) {
        r = take_piece(o, data, &e);
        if (r < 0)
            refuse(o, r, &e);
        return;
    }
    operation_begin(o);
    images_import(c->api->control, &c->caller, &o->import, &o->op);
}

static void import(struct call *c)
{
    struct operation *o = operation_new(c, 201, NULL);
    struct str name = { NULL, 0 }, platform = { NULL, 0 };
    struct err e;
    int fd;

    if (call_query(c, "name", &name) < 0 || call_query(c, "platform", &platform) < 0 ||
        call_query_bool(c, "squash_owners", &o->import.squash) < 0)
        return;
    fd = control_scratch(c->api->control, &e);
    if (fd < 0) {
        call_fail(c, &e);
        return;
    }
    o->import.fd = fd;
    o->import.name = (struct str){ arena_dup(&c->own, name), name.n };
    o->import.platform = (struct str){ arena_dup(&c->own, platform), platform.n };
    http_stream(c->x, on_body);
}

/* --- commit --- */

struct commit_request {
    const char *image;
};

static const struct json_field commit_fields[] = {
    { "image", JSON_KIND_STR, JSON_AT(struct commit_request, image), .required = true, .min = 1,
      .max = OCI_REFERENCE_MAX, .doc = "What to call it: [HOST[:PORT]/]PATH[:TAG]." },
};
static const size_t commit_field_count = COUNT_OF(commit_fields);

struct committing {
    struct call *call;
    struct commit_op op;
};

static void committed(struct commit_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct committing, op)->call;

    if (r < 0)
        call_fail(c, e);
    else
        answer_shown(c, 201, str_from(op->ref), &(struct shown){ .pause_ns = &op->pause_ns });
    call_unref(c);
}

static void committing_end(struct call *c)
{
    free(c->state);
}

static void commit(struct call *c)
{
    struct commit_request q = { 0 };
    struct committing *x;
    struct err e;

    if (json_bind(c->json, commit_fields, commit_field_count, &q, &c->arena, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    x = calloc(1, sizeof *x);
    if (!x)
        abort();
    x->call = call_ref(c);
    x->op = (struct commit_op){ .caller = &c->caller, .image = q.image, .done = committed };
    c->state = x;
    c->on_end = committing_end;
    sandbox_commit(c->sandbox, &x->op);
}

const struct route routes_images[] = {
    { H1_POST, VERB_ADMIN, "/v1/sandboxes/{id}/commit",
      ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE | ROUTE_ADMIN | ROUTE_LONG, commit,
      "Make an image of a sandbox that stands on one", commit_fields, &commit_field_count,
      .answer = "Image", .status = 201 },
    { H1_GET, VERB_READ, "/v1/images", 0, list, "List images", .answer = "ImageList" },
    { H1_GET, VERB_READ, "/v1/images/inspect", 0, inspect, "Look at an image", .answer = "Image",
      .query = "ref!" },
    { H1_DELETE, VERB_ADMIN, "/v1/images", ROUTE_ADMIN, remove_image,
      "Remove an image that no sandbox uses", .answer = "ImagesRemoved", .query = "ref!" },
    { H1_POST, VERB_ADMIN, "/v1/images/pull", ROUTE_JSON | ROUTE_ADMIN | ROUTE_LONG, pull,
      "Bring an image from a registry", pull_fields, &pull_field_count, .answer = "Image",
      .status = 201 },
    { H1_POST, VERB_ADMIN, "/v1/images/import", ROUTE_STREAM | ROUTE_ADMIN | ROUTE_LONG, import,
      "Make an image of a tar archive", .answer = "Image", .query = "name platform squash_owners",
      .status = 201 },
    { H1_POST, VERB_ADMIN, "/v1/images/prune", ROUTE_ADMIN, prune,
      "Remove layers that nothing uses", .answer = "ImagesRemoved" },
    { H1_POST, VERB_ADMIN, "/v1/images/verify", ROUTE_JSON | ROUTE_ADMIN | ROUTE_LONG, verify,
      "Look whether an image's layers are what they were", verify_fields, &verify_field_count,
      .answer = "ImageVerified" },
    { .path = NULL },
};
