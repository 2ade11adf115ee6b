/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/images: images that sandboxes can be created from. */
#include <errno.h>
#include <unistd.h>

#include "edge/core/internal.h"
#include "base/own.h"
#include "edge/core/shares.h"
#include "edge/rest/routes.h"
#include "control/image/images.h"
#include "lib/json/reader.h"

/* --- JSON --- */

static void write_image_members(struct json_writer *w, const struct image *im)
{
    const struct oci_platform *p = &im->config.platform;

    json_field_text(w, "ref", im->ref);
    json_field_text(w, "digest", im->digest);
    json_field_text(w, "id", im->id);
    json_field_text(w, "os", p->os ? p->os : "");
    json_field_text(w, "architecture", p->architecture ? p->architecture : "");
    json_field_uint(w, "bytes", im->bytes);
    time_write(w, "created_at", im->created_ns);
}

static void write_image_layers(struct json_writer *w, const struct image *im)
{
    json_field_begin_array(w, "layers");
    for (size_t i = 0; i < im->layers.n; i++)
        json_put_str(w, str_from(im->layers.p[i]));
    json_end_array(w);
}

static void write_other_images(struct json_writer *w, const struct json_strs *refs)
{
    if (!refs->n)
        return;
    json_field_begin_array(w, "also");
    for (size_t i = 0; i < refs->n; i++)
        json_put_lossy(w, str_from(refs->p[i]));
    json_end_array(w);
}

struct image_detail {
    const struct image *image;
    struct json_strs also;   /* other images of the same archive */
    const int64_t *pause_ns; /* of the committed sandbox; NULL: not a commit */
    struct arena *arena;
    size_t users;
};

/* Includes the complete original configuration, also parts that are not used. */
static void write_image(struct json_writer *w, const void *what)
{
    const struct json_limits limits = { .bytes = OCI_DOCUMENT_MAX, .depth = 32 };
    const struct image_detail *s = what;
    const struct json *config;

    json_begin_object(w);
    write_image_members(w, s->image);
    write_image_layers(w, s->image);
    json_field_uint(w, "sandboxes", s->users);
    write_other_images(w, &s->also);
    if (s->pause_ns)
        pause_write(w, *s->pause_ns);
    if (json_read(s->image->text, limits, s->arena, &config, NULL) >= 0)
        json_field_tree(w, "config", config);
    json_end_object(w);
}

static void answer_image_detail(struct call *c, int status, struct str ref, struct image_detail *s)
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

static void answer_image_ref(struct call *c, int status, struct str ref, struct json_strs also)
{
    answer_image_detail(c, status, ref, &(struct image_detail){ .also = also });
}

static void write_image_list(struct json_writer *w, const void *what)
{
    const struct call *c = what;

    json_begin_object(w);
    json_field_begin_array(w, "images");
    for (const struct image *im = NULL; (im = images_next(c->api->control, im));) {
        json_begin_object(w);
        write_image_members(w, im);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static void rest_list_images(struct call *c)
{
    call_answer(c, 200, write_image_list, c);
}

static void rest_inspect_image(struct call *c)
{
    struct str ref = { NULL, 0 };

    if (call_query(c, "ref", &ref) >= 0)
        answer_image_ref(c, 200, ref, (struct json_strs){ NULL, 0 });
}

/* --- operations --- */

enum { IMAGES_OF_ARCHIVE_MAX = 1024 }; /* names reported per archive */

struct image_call {
    struct call *call;
    struct image_op op;
    bool under_way;
    int status;
    call_write_fn *write; /* NULL: the image */
    /* for imports */
    struct image_import import;
    uint64_t size;
    const char *made[IMAGES_OF_ARCHIVE_MAX]; /* all but the last */
    size_t n_made;
};

static void on_image_client_gone(struct call *c)
{
    struct image_call *o = c->state;

    if (!o->under_way)
        return;
    o->under_way = false;
    image_op_cancel(&o->op);
    call_unref(c);
}

static void on_image_made(struct image_op *op, const char *ref)
{
    struct image_call *o = container_of(op, struct image_call, op);

    if (o->n_made < COUNT_OF(o->made) && (ref = arena_dup(&o->call->arena, str_from(ref))))
        o->made[o->n_made++] = ref;
}

/* Answers with the first image of an archive and the names of the others. */
static void answer_imported_images(struct image_call *o)
{
    const char *first = o->n_made ? o->made[0] : o->op.ref;

    for (size_t i = 1; i < o->n_made; i++)
        o->made[i - 1] = o->made[i];
    if (o->n_made)
        o->made[o->n_made - 1] = o->op.ref;
    answer_image_ref(o->call, o->status, str_from(first), (struct json_strs){ o->made, o->n_made });
}

static void on_image_op_done(struct image_op *op, int r, const struct err *e)
{
    struct image_call *o = container_of(op, struct image_call, op);
    struct call *c = o->call;

    o->under_way = false;
    if (r < 0)
        call_fail(c, e);
    else if (o->write)
        call_answer(c, o->status, o->write, o);
    else
        answer_imported_images(o);
    call_unref(c);
}

static void on_image_progress(struct image_op *op, const char *step, uint64_t bytes, uint64_t total)
{
    call_progress_of(container_of(op, struct image_call, op)->call, step, bytes, total);
}

static struct image_call *new_image_call(struct call *c, int status, call_write_fn *write)
{
    struct image_call *o = call_state(c, sizeof *o, NULL);

    *o = (struct image_call){
        .call = c,
        .status = status,
        .write = write,
        .op = { .done = on_image_op_done, .at = on_image_progress, .made = on_image_made }
    };
    call_own_fd(c, &o->import.fd);
    c->on_gone = on_image_client_gone;
    return o;
}

/* Call before the operation starts: it holds the call until it completes. */
static void begin_image_call(struct image_call *o)
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
      .doc = "OS/ARCHITECTURE[/VARIANT] to take from a multi-platform image; default: this "
             "machine's." },
    { "credentials", JSON_KIND_STR, FIELD(credentials), .max = 4096,
      .doc = "USER:PASSWORD for the registry; not stored." },
    { "squash_owners", JSON_KIND_BOOL, FIELD(squash),
      .doc = "Make root the owner of all files: for users without subordinate ids." },
};
static const size_t pull_field_count = COUNT_OF(pull_fields);

static const struct json_field verify_fields[] = { REF_FIELD };
static const size_t verify_field_count = COUNT_OF(verify_fields);

static int read_image_request(struct call *c, struct image_request *q)
{
    struct err e;
    int r = json_bind(c->json, c->route->fields, *c->route->field_count, q, &c->arena, &e);

    if (r < 0)
        call_fail(c, &e);
    return r;
}

static void rest_pull_image(struct call *c)
{
    struct image_request q = { 0 };
    struct image_call *o;

    if (read_image_request(c, &q) < 0)
        return;
    o = new_image_call(c, 201, NULL);
    begin_image_call(o);
    images_pull(c->api->control, &c->caller,
                &(struct image_pull){ .ref = str_from(q.ref),
                                      .platform = str_from(q.platform),
                                      .credentials = str_from(q.credentials),
                                      .squash = q.squash },
                &o->op);
}

static void write_image_verification(struct json_writer *w, const void *what)
{
    const struct image_call *o = what;

    json_begin_object(w);
    json_field_text(w, "ref", o->op.ref);
    json_field_uint(w, "layers", o->op.removed);
    json_field_uint(w, "first_time", o->op.first);
    json_field_uint(w, "bytes", o->op.bytes);
    json_end_object(w);
}

static void rest_verify_image(struct call *c)
{
    struct image_request q = { 0 };
    struct image_call *o;

    if (read_image_request(c, &q) < 0)
        return;
    o = new_image_call(c, 200, write_image_verification);
    begin_image_call(o);
    images_verify(c->api->control, str_from(q.ref), &o->op);
}

static void write_removed_layers(struct json_writer *w, const void *what)
{
    const struct image_call *o = what;

    json_begin_object(w);
    json_field_uint(w, "layers", o->op.removed);
    json_field_uint(w, "bytes", o->op.bytes);
    json_end_object(w);
}

static void rest_remove_image(struct call *c)
{
    struct str ref = { NULL, 0 };
    struct image_call *o;

    if (call_query(c, "ref", &ref) < 0)
        return;
    o = new_image_call(c, 200, write_removed_layers);
    begin_image_call(o);
    images_remove(c->api->control, &c->caller, ref, &o->op);
}

static void rest_prune_images(struct call *c)
{
    struct image_call *o = new_image_call(c, 200, write_removed_layers);

    begin_image_call(o);
    images_prune(c->api->control, &o->op);
}

/* --- import --- */

static void refuse_import(struct image_call *o, int r, const struct err *e)
{
    drop_fd(&o->import.fd);
    call_fail(o->call, e);
}

static int check_archive_magic(struct str data, struct err *e)
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

static int store_archive_piece(struct image_call *o, struct str data, struct err *e)
{
    if (o->size == 0 && check_archive_magic(data, e) < 0)
        return -(int)e->code;
    return store_body_piece(o->import.fd, &o->size, o->call->api->config, data, e);
}

static void on_archive_body(struct http_exchange *x, struct str data)
{
    struct call *c = http_state(x);
    struct image_call *o = c->state;
    struct err e;
    int r;

    if (o->import.fd < 0)
        return; /* refused */
    if (data.n) {
        r = store_archive_piece(o, data, &e);
        if (r < 0)
            refuse_import(o, r, &e);
        return;
    }
    begin_image_call(o);
    images_import(c->api->control, &c->caller, &o->import, &o->op);
}

static void rest_import_image(struct call *c)
{
    struct image_call *o = new_image_call(c, 201, NULL);
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
    http_stream(c->x, on_archive_body);
}

/* --- commit --- */

struct commit_request {
    const char *image;
};

static const struct json_field commit_fields[] = {
    { "image", JSON_KIND_STR, JSON_AT(struct commit_request, image), .required = true, .min = 1,
      .max = OCI_REFERENCE_MAX, .doc = "Reference of the image: [HOST[:PORT]/]PATH[:TAG]." },
};
static const size_t commit_field_count = COUNT_OF(commit_fields);

struct commit_call {
    struct call *call;
    struct commit_op op;
};

static void on_sandbox_committed(struct commit_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct commit_call, op)->call;

    if (r < 0)
        call_fail(c, e);
    else
        answer_image_detail(c, 201, str_from(op->ref),
                            &(struct image_detail){ .pause_ns = &op->pause_ns });
    call_unref(c);
}

static void rest_commit_sandbox(struct call *c)
{
    struct commit_request q = { 0 };
    struct commit_call *x;
    struct err e;

    if (json_bind(c->json, commit_fields, commit_field_count, &q, &c->arena, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    x = call_state(c, sizeof *x, NULL);
    x->call = call_ref(c);
    x->op =
        (struct commit_op){ .caller = &c->caller, .image = q.image, .done = on_sandbox_committed };
    sandbox_commit(c->sandbox, &x->op);
}

const struct route routes_images[] = {
    { H1_POST, VERB_ADMIN, "/v1/sandboxes/{id}/commit",
      ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE | ROUTE_ADMIN | ROUTE_LONG, rest_commit_sandbox,
      "Commit a sandbox as a new image", commit_fields, &commit_field_count, .answer = "Image",
      .status = 201 },
    { H1_GET, VERB_READ, "/v1/images", 0, rest_list_images, "List images", .answer = "ImageList" },
    { H1_GET, VERB_READ, "/v1/images/inspect", 0, rest_inspect_image, "Show an image",
      .answer = "Image", .query = "ref!" },
    { H1_DELETE, VERB_ADMIN, "/v1/images", ROUTE_ADMIN, rest_remove_image,
      "Remove an image that no sandbox uses", .answer = "ImagesRemoved", .query = "ref!" },
    { H1_POST, VERB_ADMIN, "/v1/images/pull", ROUTE_JSON | ROUTE_ADMIN | ROUTE_LONG,
      rest_pull_image, "Pull an image from a registry", pull_fields, &pull_field_count,
      .answer = "Image", .status = 201 },
    { H1_POST, VERB_ADMIN, "/v1/images/import", ROUTE_STREAM | ROUTE_ADMIN | ROUTE_LONG,
      rest_import_image, "Make an image of a tar archive", .answer = "Image",
      .query = "name platform squash_owners", .status = 201 },
    { H1_POST, VERB_ADMIN, "/v1/images/prune", ROUTE_ADMIN, rest_prune_images,
      "Remove layers that nothing uses", .answer = "ImagesRemoved" },
    { H1_POST, VERB_ADMIN, "/v1/images/verify", ROUTE_JSON | ROUTE_ADMIN | ROUTE_LONG,
      rest_verify_image, "Verify the layers of an image", verify_fields, &verify_field_count,
      .answer = "ImageVerified" },
    { .path = NULL },
};
