/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/images: images that sandboxes can be created from. */

#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "base/own.h"
#include "edge/core/shares.h"
#include "edge/rest/routes.h"
#include "control/image/images.h"
#include "lib/json/reader.h"

/* --- JSON --- */

struct image_answer {
    const char *os, *architecture;
    const struct image *image;
    /* not in lists: */
    bool detailed, committed;
    size_t users;
    struct json_strs also; /* other images of the same archive */
    double pause_ms;       /* of the committed sandbox */
    /* The complete original configuration, also parts that are not used; NULL: unreadable. */
    const struct json *config;
};

#define AT(member)    JSON_AT(struct image_answer, member)
#define IMAGE(member) .via = offsetof(struct image_answer, image), JSON_AT(struct image, member)
#define DETAILED      .seen = offsetof(struct image_answer, detailed)

static const struct json_field image_fields[] = {
    { "ref", JSON_KIND_CHARS, IMAGE(ref), .required = true },
    { "digest", JSON_KIND_CHARS, IMAGE(digest), .required = true },
    { "id", JSON_KIND_CHARS, IMAGE(id), .required = true },
    { "os", JSON_KIND_TEXT, AT(os), .required = true },
    { "architecture", JSON_KIND_TEXT, AT(architecture), .required = true },
    { "bytes", JSON_KIND_UINT, IMAGE(bytes), .required = true },
    { "created_at", JSON_KIND_TIME, IMAGE(created_ns), .required = true },
    { "layers", JSON_KIND_TEXTS, IMAGE(layers), DETAILED },
    { "sandboxes", JSON_KIND_UINT, AT(users), DETAILED },
    { "also", JSON_KIND_TEXTS, AT(also), .optional = true },
    { "pause_ms", JSON_KIND_DOUBLE, AT(pause_ms),
      .seen = offsetof(struct image_answer, committed) },
    { "config", JSON_KIND_ANY, AT(config), .types = "object" },
};
static const struct json_shape image_answer = { "Image", JSON_FIELDS(image_fields) };

static struct image_answer answer_of_image(const struct image *im)
{
    const struct oci_platform *p = &im->config.platform;

    return (struct image_answer){ .os = p->os ? p->os : "",
                                  .architecture = p->architecture ? p->architecture : "",
                                  .image = im };
}

/* `pause_ns` of the committed sandbox; NULL: not a commit. */
static void answer_image_detail(struct call *c, int status, struct str ref, struct json_strs also,
                                const int64_t *pause_ns)
{
    const struct json_limits limits = { .bytes = OCI_DOCUMENT_MAX, .depth = 32 };
    const struct image *im;
    struct image_answer a;
    char one[ID_MAX];
    struct err e;

    if (images_find(c->api->control, ref, &im, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    a = answer_of_image(im);
    a.detailed = true;
    a.users = image_users(c->api->control, im, one);
    a.also = also;
    a.committed = pause_ns;
    a.pause_ms = pause_ns ? pause_ms(*pause_ns) : 0;
    (void)json_read(im->text, limits, &c->arena, &a.config, NULL);
    call_answer_as(c, status, &image_answer, &a);
}

static void write_images(struct json_writer *w, const void *call)
{
    const struct call *c = call;

    for (const struct image *im = NULL; (im = images_next(c->api->control, im));) {
        const struct image_answer a = answer_of_image(im);

        json_put_shape(w, &image_answer, &a);
    }
}

static const struct json_shape image_list = { "ImageList",
                                              JSON_LIST("images", "Image", write_images) };

static void rest_inspect_image(struct call *c)
{
    struct str ref = { NULL, 0 };

    if (call_query(c, "ref", &ref) >= 0)
        answer_image_detail(c, 200, ref, (struct json_strs){ NULL, 0 }, NULL);
}

/* --- operations --- */

enum { IMAGES_OF_ARCHIVE_MAX = 1024 }; /* names reported per archive */

struct image_call {
    struct call *call;
    struct image_op op;
    bool under_way;
    int status;
    const struct json_shape *shape; /* of the operation; NULL: answers with the image */
    /* for imports */
    struct image_import import;
    uint64_t size;
    const char *made[IMAGES_OF_ARCHIVE_MAX + 1]; /* all; the last at the end */
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

    if (o->n_made < IMAGES_OF_ARCHIVE_MAX && (ref = arena_dup(&o->call->arena, str_from(ref))))
        o->made[o->n_made++] = ref;
}

/* Answers with the first image of an archive and the names of the others. */
static void answer_imported_images(struct image_call *o)
{
    o->made[o->n_made] = o->op.ref;
    answer_image_detail(o->call, o->status, str_from(o->made[0]),
                        (struct json_strs){ o->made + 1, o->n_made }, NULL);
}

static void on_image_op_done(struct image_op *op, int r, const struct err *e)
{
    struct image_call *o = container_of(op, struct image_call, op);

    o->under_way = false;
    if (r < 0)
        call_fail(o->call, e);
    else if (o->shape)
        call_answer_as(o->call, o->status, o->shape, op);
    else
        answer_imported_images(o);
    call_unref(o->call);
}

static void on_image_progress(struct image_op *op, const char *step, uint64_t bytes, uint64_t total)
{
    call_progress_of(container_of(op, struct image_call, op)->call, step, bytes, total);
}

static struct image_call *new_image_call(struct call *c, int status, const struct json_shape *shape)
{
    struct image_call *o = call_state(c, sizeof *o, NULL);

    *o = (struct image_call){
        .call = c,
        .status = status,
        .shape = shape,
        .op = { .done = on_image_op_done, .at = on_image_progress, .made = on_image_made }
    };
    call_own_fd(c, &o->import.fd);
    c->on_gone = on_image_client_gone;
    return o;
}

/* The operation holds the call until it completes. */
static struct image_op *hold_image_call(struct image_call *o)
{
    o->under_way = true;
    call_ref(o->call);
    return &o->op;
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

static const struct json_field verify_fields[] = { REF_FIELD };

static void rest_pull_image(struct call *c)
{
    struct image_request q = { 0 };

    if (call_read(c, &q))
        images_pull(c->api->control, &c->caller,
                    &(struct image_pull){ .ref = str_from(q.ref),
                                          .platform = str_from(q.platform),
                                          .credentials = str_from(q.credentials),
                                          .squash = q.squash },
                    hold_image_call(new_image_call(c, 201, NULL)));
}

static const struct json_field verified_fields[] = {
    { "ref", JSON_KIND_CHARS, JSON_AT(struct image_op, ref), .required = true },
    { "layers", JSON_KIND_UINT, JSON_AT(struct image_op, removed), .required = true },
    { "first_time", JSON_KIND_UINT, JSON_AT(struct image_op, first), .required = true },
    { "bytes", JSON_KIND_UINT, JSON_AT(struct image_op, bytes), .required = true },
};
static const struct json_shape verified_answer = { "ImageVerified", JSON_FIELDS(verified_fields) };

static void rest_verify_image(struct call *c)
{
    struct image_request q = { 0 };

    if (call_read(c, &q))
        images_verify(c->api->control, &c->caller, str_from(q.ref),
                      hold_image_call(new_image_call(c, 200, &verified_answer)));
}

static const struct json_field removed_fields[] = {
    { "layers", JSON_KIND_UINT, JSON_AT(struct image_op, removed), .required = true },
    { "bytes", JSON_KIND_UINT, JSON_AT(struct image_op, bytes), .required = true },
};
static const struct json_shape removed_answer = { "ImagesRemoved", JSON_FIELDS(removed_fields) };

static void rest_remove_image(struct call *c)
{
    struct str ref = { NULL, 0 };

    if (call_query(c, "ref", &ref) >= 0)
        images_remove(c->api->control, &c->caller, ref,
                      hold_image_call(new_image_call(c, 200, &removed_answer)));
}

static void rest_prune_images(struct call *c)
{
    images_prune(c->api->control, &c->caller,
                 hold_image_call(new_image_call(c, 200, &removed_answer)));
}

/* --- import --- */

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

static void on_archive_body(struct http_exchange *x, struct str data)
{
    struct call *c = http_state(x);
    struct image_call *o = c->state;
    struct err e;

    if (o->import.fd < 0)
        return; /* refused */
    if (!data.n) {
        images_import(c->api->control, &c->caller, &o->import, hold_image_call(o));
    } else if ((o->size == 0 && check_archive_magic(data, &e) < 0) ||
               store_body_piece(o->import.fd, &o->size, c->api->config, data, &e) < 0) {
        drop_fd(&o->import.fd);
        call_fail(c, &e);
    }
}

static void rest_import_image(struct call *c)
{
    struct image_call *o = new_image_call(c, 201, NULL);
    struct str name = { NULL, 0 }, platform = { NULL, 0 };
    struct err e;

    if (call_query(c, "name", &name) < 0 || call_query(c, "platform", &platform) < 0 ||
        call_query_bool(c, "squash_owners", &o->import.squash) < 0)
        return;
    o->import.fd = control_scratch(c->api->control, &e);
    if (o->import.fd < 0) {
        call_fail(c, &e);
        return;
    }
    o->import.name = (struct str){ arena_dup(&c->own, name), name.n };
    o->import.platform = (struct str){ arena_dup(&c->own, platform), platform.n };
    http_stream(c->x, on_archive_body);
}

/* --- commit --- */

static const struct json_field commit_fields[] = {
    { "image", JSON_KIND_STR, .size = sizeof(const char *), .required = true, .min = 1,
      .max = OCI_REFERENCE_MAX, .doc = "Reference of the image: [HOST[:PORT]/]PATH[:TAG]." },
};

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
        answer_image_detail(c, 201, str_from(op->ref), (struct json_strs){ NULL, 0 },
                            &op->pause_ns);
    call_unref(c);
}

static void rest_commit_sandbox(struct call *c)
{
    const char *image = NULL;
    struct commit_call *x;

    if (!call_read(c, &image))
        return;
    x = call_state(c, sizeof *x, NULL);
    x->call = call_ref(c);
    x->op =
        (struct commit_op){ .caller = &c->caller, .image = image, .done = on_sandbox_committed };
    sandbox_commit(c->sandbox, &x->op);
}

const struct route routes_images[] = {
    { H1_POST, VERB_ADMIN, "/v1/sandboxes/{id}/commit",
      ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE | ROUTE_ADMIN | ROUTE_LONG, rest_commit_sandbox,
      "Commit a sandbox as a new image", ROUTE_FIELDS(commit_fields), .answer = "Image",
      .status = 201 },
    { H1_GET, VERB_READ, "/v1/images", 0, call_answer_route, "List images", .answer = "ImageList",
      .with = &image_list },
    { H1_GET, VERB_READ, "/v1/images/inspect", 0, rest_inspect_image, "Show an image",
      .answer = "Image", .query = "ref!" },
    { H1_DELETE, VERB_ADMIN, "/v1/images", ROUTE_ADMIN, rest_remove_image,
      "Remove an image that no sandbox uses", .answer = "ImagesRemoved", .query = "ref!" },
    { H1_POST, VERB_ADMIN, "/v1/images/pull", ROUTE_JSON | ROUTE_ADMIN | ROUTE_LONG,
      rest_pull_image, "Pull an image from a registry", ROUTE_FIELDS(pull_fields),
      .answer = "Image", .status = 201 },
    { H1_POST, VERB_ADMIN, "/v1/images/import", ROUTE_STREAM | ROUTE_ADMIN | ROUTE_LONG,
      rest_import_image, "Make an image of a tar archive", .answer = "Image",
      .query = "name platform squash_owners", .status = 201 },
    { H1_POST, VERB_ADMIN, "/v1/images/prune", ROUTE_ADMIN, rest_prune_images,
      "Remove layers that nothing uses", .answer = "ImagesRemoved" },
    { H1_POST, VERB_ADMIN, "/v1/images/verify", ROUTE_JSON | ROUTE_ADMIN | ROUTE_LONG,
      rest_verify_image, "Verify the layers of an image", ROUTE_FIELDS(verify_fields),
      .answer = "ImageVerified" },
    { .path = NULL },
};

const struct json_shape *const answers_images[] = { &image_answer, &image_list, &removed_answer,
                                                    &verified_answer, NULL };
