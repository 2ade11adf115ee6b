/* What a sandbox has written, as an image: the layers of the one that it stands on, and its own on
 * top. Nothing is copied but what is captured, until there are so many that one is made of them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hook.h"
#include "control/images_inside.h"
#include "control/sandbox.h"
#include "control/snapshots.h"

enum { COMMIT_ARENA_MAX = 1 << 20 };

/* One on its way: frees itself when it is told. */
struct committing {
    struct commit_op *op;
    struct sandbox *sandbox; /* referenced */
    struct caller caller;
    char ref[OCI_REFERENCE_MAX], digest[OCI_DIGEST_MAX];
    struct capture capture;
    struct arena arena;
    struct json_strs layers; /* all of them, uppermost first; held */
    struct flatten_op flatten;
    struct measure_op measure; /* of those that were written */
    struct buf names, config;
    struct store_txn txn;
    struct event_record event;
    struct loop_later later;
    int r;
    struct err err;
};

static void on_later(struct loop_later *l)
{
    struct committing *x = container_of(l, struct committing, later);
    struct commit_op *op = x->op;
    struct sandbox *s = x->sandbox;
    int r = x->r;
    struct err e = x->err;

    layers_unref(s->control, &x->layers); /* the image names them, or nobody does */
    snprintf(op->ref, sizeof op->ref, "%s", x->ref);
    op->pause_ns = x->capture.pause_ns;
    buf_done(&x->names);
    buf_done(&x->config);
    arena_done(&x->arena);
    free(x);
    op->done(op, r, r < 0 ? &e : NULL);
    sandbox_unref(s);
}

static void finish(struct committing *x, int r, const struct err *e)
{
    x->r = r;
    if (r < 0)
        x->err = *e;
    loop_later(x->sandbox->control->loop, &x->later, on_later, NULL);
}

/* --- on record --- */

static void fill_record(const struct committing *x, struct image_record *ret)
{
    *ret = (struct image_record){ .created_ns = x->event.time_ns,
                                  .config = buf_str(&x->config),
                                  .layers = buf_str(&x->names) };
    snprintf(ret->ref, sizeof ret->ref, "%s", x->ref);
    snprintf(ret->digest, sizeof ret->digest, "%s", x->digest);
    snprintf(ret->id, sizeof ret->id, "%s", x->digest);
}

static bool is_written(const struct committing *x, size_t i)
{
    return layer_is_captured(x->layers.p[i]);
}

static void stored(struct store_txn *t, int r, const struct err *e)
{
    struct committing *x = container_of(t, struct committing, txn);
    struct control *c = x->sandbox->control;
    struct image_record record;
    struct err bad;

    c->changes--;
    if (r >= 0) {
        x->event.seq = t->first_seq;
        control_publish(c, &x->event);
        fill_record(x, &record);
        r = image_add(c->images, &record, &bad);
        e = &bad;
    }
    finish(x, r, e);
}

static void store(struct committing *x)
{
    struct control *c = x->sandbox->control;
    struct image_record record;

    hook_point("commit.record");
    event_fill(&x->event, &x->caller, "image.committed", x->ref);
    fill_record(x, &record);
    c->changes++;
    store_txn_begin(&x->txn, c->store);
    store_put_image(&x->txn, &record);
    store_add_event(&x->txn, &x->event);
    store_commit(&x->txn, stored);
}

/* --- its configuration --- */

static int diff_id(const struct committing *x, size_t i, char out[static OCI_DIGEST_MAX])
{
    if (is_written(x, i))
        return str_copy(str_from(layer_measure(x->sandbox->control, x->layers.p[i])), out,
                        OCI_DIGEST_MAX)
                   ? 0
                   : -1;
    snprintf(out, OCI_DIGEST_MAX, "sha256:%s", x->layers.p[i] + sizeof "sha256-" - 1);
    return 0;
}

static void put_or_keep(struct json_writer *w, const char *key, const char *own, const char *image)
{
    json_key(w, str_from(key));
    json_put_str(w, str_from(own && own[0] ? own : image));
}

/* As of the image; where the profile says who runs, and where, that counts as it did inside.
 * Variables that the sandbox was created with do not: credentials are given that way, and an image
 * is for everybody. */
static void put_run(struct json_writer *w, const struct sandbox *s)
{
    static const char *const ours[] = { "User", "WorkingDir" };
    const struct json *was = s->facts.base.config;

    json_begin_object(w);
    for (size_t k = 0; was && was->type == JSON_OBJECT && k < was->list.n; k++) {
        const struct json *v = &was->list.p[k];
        bool mine = false;

        for (size_t i = 0; i < COUNT_OF(ours); i++)
            mine = mine || str_eq(v->key, str_from(ours[i]));
        if (mine)
            continue;
        json_key(w, v->key);
        json_put_tree(w, v);
    }
    put_or_keep(w, "User",
                s->profile->user && strcmp(s->profile->user, "root") != 0 ? s->profile->user : "",
                s->image.user);
    put_or_keep(w, "WorkingDir", s->profile->workdir, s->image.workdir);
    json_end_object(w);
}

static void put_rootfs(struct json_writer *w, const struct committing *x)
{
    json_begin_object(w);
    json_key(w, STR("type"));
    json_put_str(w, STR("layers"));
    json_key(w, STR("diff_ids"));
    json_begin_array(w);
    for (size_t i = x->layers.n; i-- > 0;) {
        char id[OCI_DIGEST_MAX];

        if (diff_id(x, i, id) >= 0)
            json_put_str(w, str_from(id));
    }
    json_end_array(w);
    json_end_object(w);
}

static int write_config(struct committing *x, struct err *e)
{
    const struct oci_platform here = oci_platform_here();
    struct json_writer w;

    json_writer_init(&w, &x->config, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("architecture"));
    json_put_str(&w, str_from(here.architecture));
    json_key(&w, STR("os"));
    json_put_str(&w, str_from(here.os));
    json_key(&w, STR("config"));
    put_run(&w, x->sandbox);
    json_key(&w, STR("rootfs"));
    put_rootfs(&w, x);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

static int describe(struct committing *x, struct err *e)
{
    struct oci_config check;
    int r =
        x->sandbox->profile ? write_config(x, e) : err_set(e, ERR_CONFLICT, "its profile is gone");

    for (size_t i = x->layers.n; r >= 0 && i-- > 0;)
        r = buf_addf(&x->names, "%s%s", x->names.n ? " " : "", x->layers.p[i]);
    if (r >= 0)
        r = oci_config_read(buf_str(&x->config), &x->arena, &check, e);
    if (r < 0)
        return r;
    image_digest(buf_str(&x->config), x->digest); /* it has no manifest of its own */
    return 0;
}

/* --- its layers --- */

static void measured(struct measure_op *m, int r, const struct err *e)
{
    struct committing *x = container_of(m, struct committing, measure);
    struct err why;

    if (r >= 0) {
        r = describe(x, &why);
        e = &why;
    }
    if (r < 0)
        finish(x, r, e);
    else
        store(x);
}

static void measure(struct committing *x)
{
    x->measure = (struct measure_op){ .done = measured };
    for (size_t i = 0; i < x->layers.n; i++)
        if (is_written(x, i))
            measure_add(&x->measure, &(const struct json_strs){ &x->layers.p[i], 1 });
    measure_start(x->sandbox->control, &x->measure);
}

/* All that it shows, uppermost first. */
static int stack(struct committing *x, struct err *e)
{
    const struct facts *f = &x->sandbox->facts;
    size_t n = 1 + f->layers.n + f->base.layers.n, at = 0;
    const char **p = arena_array(&x->arena, n, sizeof *p);

    if (n > LAYERS_STACK_MAX || !p)
        return err_set(e, ERR_TOO_BIG, "the image would have %zu layers, and there may be %d", n,
                       LAYERS_STACK_MAX);
    p[at++] = arena_dup(&x->arena, str_from(x->capture.layer));
    for (size_t i = 0; i < f->layers.n; i++)
        p[at++] = arena_dup(&x->arena, str_from(f->layers.p[i]));
    for (size_t i = 0; i < f->base.layers.n; i++)
        p[at++] = arena_dup(&x->arena, str_from(f->base.layers.p[i]));
    x->layers = (struct json_strs){ p, n };
    layers_ref(x->sandbox->control, &x->layers);
    return 0;
}

/* What was written here, on what was not: the lowest of all is never part of it. */
static struct json_strs written(const struct committing *x)
{
    size_t n = 0;

    while (n + 1 < x->layers.n && is_written(x, n))
        n++;
    return (struct json_strs){ x->layers.p, n };
}

static void replace_written(struct committing *x, const char *one)
{
    struct json_strs old = x->layers;
    size_t from = written(x).n, n = old.n - from + 1;
    const char **p = arena_array(&x->arena, n, sizeof *p);

    if (!p || !(p[0] = arena_dup(&x->arena, str_from(one))))
        abort(); /* there was room for more */
    memcpy(p + 1, old.p + from, (n - 1) * sizeof *p);
    x->layers = (struct json_strs){ p, n };
    layers_ref(x->sandbox->control, &x->layers);
    layers_unref(x->sandbox->control, &old);
}

static void flattened(struct flatten_op *f)
{
    struct committing *x = container_of(f, struct committing, flatten);

    if (f->stack.n < written(x).n)
        replace_written(x, f->stack.p[0]);
    layers_unref(x->sandbox->control, &f->stack);
    measure(x);
}

static void captured(struct capture *c, int r, const struct err *e)
{
    struct committing *x = container_of(c, struct committing, capture);
    struct err why;

    if (r < 0) {
        finish(x, r, e);
        return;
    }
    r = stack(x, &why);
    layer_unref(x->sandbox->control, c->layer); /* the stack holds it */
    if (r < 0) {
        finish(x, r, &why);
        return;
    }
    x->flatten = (struct flatten_op){ .most = LAYERS_FLAT, .stack = written(x), .done = flattened };
    x->flatten.on = (struct layers_floor){
        FLOOR_IMAGE, { x->layers.p + x->flatten.stack.n, x->layers.n - x->flatten.stack.n }
    };
    layers_flatten(x->sandbox->control, &x->flatten);
}

static int check(const struct sandbox *s, const struct commit_op *op, struct committing *x,
                 struct err *e)
{
    struct oci_reference ref;
    int r = oci_reference_parse(str_from(op->image), &ref, e);

    if (r < 0)
        return err_wrap(e, r, "image");
    if (ref.digest[0])
        return err_set(e, ERR_INVALID, "image: one that is made here has no digest in its name");
    if (!s->facts.base.layers.n)
        return err_set(e, ERR_CONFLICT,
                       "sandbox %s stands on the system of this machine, which no image can hold: "
                       "create one with an image, or keep what it wrote as a snapshot",
                       s->record.id);
    oci_reference_text(&ref, x->ref);
    return 0;
}

void sandbox_commit(struct sandbox *s, struct commit_op *op)
{
    struct committing *x = calloc(1, sizeof *x);
    struct err e;
    int r;

    if (!x)
        abort();
    x->op = op;
    x->sandbox = sandbox_ref(s);
    x->caller = *op->caller;
    x->caller.labels = (struct json_map){ NULL, 0 }; /* borrowed, and not needed */
    x->capture = (struct capture){ .done = captured };
    arena_init(&x->arena, COMMIT_ARENA_MAX);
    buf_init(&x->names, LAYERS_NAMES_MAX);
    buf_init(&x->config, OCI_CONFIG_MAX);
    r = check(s, op, x, &e);
    if (r < 0)
        finish(x, r, &e);
    else
        capture_start(s, &x->capture);
}
