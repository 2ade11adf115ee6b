/* SPDX-License-Identifier: Apache-2.0 */
/* Commits a sandbox as an image: the layers of the image that it is built on, with its own on top.
 * Only the captured files are copied, until there are so many layers that they are flattened. */
#include <stdio.h>
#include <stdlib.h>

#include "base/fault_point.h"
#include "base/own.h"
#include "control/image/images_internal.h"
#include "control/layer/layer_slots.h"
#include "control/sandbox/sandbox.h"
#include "control/snapshot/snapshots.h"
#include "domain/model/event.h"

enum { COMMIT_ARENA_MAX = 1 << 20 };

/* A commit under way: frees itself at its end. */
struct image_commit {
    struct commit_op *op;
    struct sandbox *sandbox; /* referenced */
    struct caller caller;
    char ref[OCI_REFERENCE_MAX], digest[OCI_DIGEST_MAX];
    struct capture capture;
    struct arena arena;
    struct json_strs layers; /* all, uppermost first; referenced */
    struct flatten_op flatten;
    struct digest_op digesting; /* of the written layers */
    struct buf names, config;
    struct store_txn txn;
    struct event_record event;
    struct loop_later later;
    int r;
    struct err err;
};

static void on_commit_later(struct loop_later *l)
{
    struct image_commit *x = container_of(l, struct image_commit, later);
    struct commit_op *op = x->op;
    struct sandbox *s = x->sandbox;
    int r = x->r;
    struct err e = x->err;

    layers_unref(s->control, &x->layers); /* the image references them, or the commit failed */
    snprintf(op->ref, sizeof op->ref, "%s", x->ref);
    op->pause_ns = x->capture.pause_ns;
    buf_done(&x->names);
    buf_done(&x->config);
    arena_done(&x->arena);
    free(x);
    op->done(op, r, r < 0 ? &e : NULL);
    sandbox_unref(s);
}

static void finish_commit(struct image_commit *x, int r, const struct err *e)
{
    x->r = r;
    if (r < 0)
        x->err = *e;
    loop_later(x->sandbox->control->loop, &x->later, on_commit_later, NULL);
}

/* --- on record --- */

static void fill_commit_record(const struct image_commit *x, struct image_record *ret)
{
    *ret = (struct image_record){ .created_ns = x->event.time_ns,
                                  .config = buf_str(&x->config),
                                  .layers = buf_str(&x->names) };
    snprintf(ret->ref, sizeof ret->ref, "%s", x->ref);
    snprintf(ret->digest, sizeof ret->digest, "%s", x->digest);
    snprintf(ret->id, sizeof ret->id, "%s", x->digest);
}

static void on_commit_stored(struct store_txn *t, int r, const struct err *e)
{
    struct image_commit *x = container_of(t, struct image_commit, txn);
    struct control *c = x->sandbox->control;
    struct image_record record;
    struct err bad;

    c->changes--;
    if (r >= 0) {
        control_publish_first(c, t, &x->event);
        fill_commit_record(x, &record);
        r = image_add(c->images, &record, &bad);
        e = &bad;
    }
    finish_commit(x, r, e);
}

static void store_committed_image(struct image_commit *x)
{
    struct control *c = x->sandbox->control;
    struct image_record record;

    fault_point("commit.record");
    event_fill(&x->event, &x->caller.actor, x->caller.owner, "image.committed", x->ref);
    fill_commit_record(x, &record);
    c->changes++;
    store_txn_begin(&x->txn, c->store);
    store_put_image(&x->txn, &record);
    store_add_event(&x->txn, &x->event);
    store_commit(&x->txn, on_commit_stored);
}

/* --- its configuration --- */

static const char *choose_own(const char *own, const char *image)
{
    return own && own[0] ? own : image;
}

/* The image's run configuration, with the user and directory of the profile, as inside the sandbox.
 * Variables of the create request are left out: they may hold credentials, and an image is visible
 * to all owners. */
static void write_run_config(struct json_writer *w, const struct sandbox *s)
{
    const struct json *was = s->detail.base.config;
    const char *user = s->profile->user;

    json_field_begin_object(w, "config");
    for (size_t k = 0; was && was->type == JSON_OBJECT && k < was->list.n; k++) {
        const struct json *v = &was->list.p[k];

        if (str_eq(v->key, STR("User")) || str_eq(v->key, STR("WorkingDir")))
            continue;
        json_key(w, v->key);
        json_put_tree(w, v);
    }
    json_field_cstr(w, "User",
                    choose_own(user && strcmp(user, "root") == 0 ? "" : user, s->image.user));
    json_field_cstr(w, "WorkingDir", choose_own(s->profile->workdir, s->image.workdir));
    json_end_object(w);
}

static int write_commit_config(struct image_commit *x, struct err *e)
{
    const struct oci_platform here = oci_platform_here();
    struct json_writer w;

    json_writer_init(&w, &x->config, JSON_COMPACT);
    json_begin_object(&w);
    json_field_cstr(&w, "architecture", here.architecture);
    json_field_cstr(&w, "os", here.os);
    write_run_config(&w, x->sandbox);
    json_field_begin_object(&w, "rootfs");
    json_field_cstr(&w, "type", "layers");
    json_field_begin_array(&w, "diff_ids");
    for (size_t i = x->layers.n; i-- > 0;) {
        const char *name = x->layers.p[i];
        char id[OCI_DIGEST_MAX];

        if (layer_is_captured(name))
            snprintf(id, sizeof id, "%s", layer_digest(x->sandbox->control, name));
        else
            snprintf(id, sizeof id, "sha256:%s", name + sizeof "sha256-" - 1);
        json_put_str(&w, str_from(id));
    }
    json_end_array(&w);
    json_end_object(&w);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

static int describe_commit(struct image_commit *x, struct err *e)
{
    struct oci_config parsed;
    int r = x->sandbox->profile
                ? write_commit_config(x, e)
                : err_set(e, ERR_CONFLICT, "profile %s of sandbox %s no longer exists",
                          x->sandbox->record.profile, x->sandbox->record.id);

    for (size_t i = x->layers.n; r >= 0 && i-- > 0;)
        r = buf_addf(&x->names, "%s%s", x->names.n ? " " : "", x->layers.p[i]);
    r = r < 0 ? r : oci_config_read(buf_str(&x->config), &x->arena, &parsed, e);
    if (r < 0)
        return r;
    image_digest(buf_str(&x->config), x->digest); /* it has no manifest */
    return 0;
}

/* --- its layers --- */

static void on_commit_digested(struct digest_op *m, int r, const struct err *e)
{
    struct image_commit *x = container_of(m, struct image_commit, digesting);
    struct err why;

    if (r >= 0) {
        r = describe_commit(x, &why);
        e = &why;
    }
    if (r < 0)
        finish_commit(x, r, e);
    else
        store_committed_image(x);
}

/* All layers of the sandbox, uppermost first. */
static int build_commit_stack(struct image_commit *x, struct err *e)
{
    const struct sandbox_detail *f = &x->sandbox->detail;
    size_t n = 1 + f->layers.n + f->base.layers.n, at = 0;
    const char **p = arena_array(&x->arena, n, sizeof *p);

    if (n > LAYERS_STACK_MAX || !p)
        return err_set(e, ERR_TOO_BIG,
                       "the image would have %zu layers, more than the maximum of %d", n,
                       LAYERS_STACK_MAX);
    p[at++] = x->capture.layer;
    for (size_t i = 0; i < f->layers.n; i++)
        p[at++] = f->layers.p[i];
    for (size_t i = 0; i < f->base.layers.n; i++)
        p[at++] = f->base.layers.p[i];
    x->layers = (struct json_strs){ p, n };
    if (!json_strs_copy(&x->layers, &x->arena))
        return err_set(e, ERR_TOO_BIG,
                       "the %zu layers of the image need more memory than the allowed %d bytes", n,
                       COMMIT_ARENA_MAX);
    layers_ref(x->sandbox->control, &x->layers);
    return 0;
}

/* The captured layers at the top of the stack; never the lowest layer. */
static struct json_strs list_written_layers(const struct image_commit *x)
{
    size_t n = 0;

    while (n + 1 < x->layers.n && layer_is_captured(x->layers.p[n]))
        n++;
    return (struct json_strs){ x->layers.p, n };
}

static void replace_written_layers(struct image_commit *x, const char *one)
{
    struct json_strs old = x->layers;
    size_t from = list_written_layers(x).n, n = old.n - from + 1;
    const char **p = arena_array(&x->arena, n, sizeof *p);

    if (!p || !(p[0] = arena_dup(&x->arena, str_from(one))))
        abort(); /* the arena had room for more */
    memcpy(p + 1, old.p + from, (n - 1) * sizeof *p);
    x->layers = (struct json_strs){ p, n };
    layers_ref(x->sandbox->control, &x->layers);
    layers_unref(x->sandbox->control, &old);
}

static void on_commit_flattened(struct flatten_op *f)
{
    struct image_commit *x = container_of(f, struct image_commit, flatten);

    if (f->stack.n < list_written_layers(x).n)
        replace_written_layers(x, f->stack.p[0]);
    layers_unref(x->sandbox->control, &f->stack);
    x->digesting = (struct digest_op){ .caller = &x->caller, .done = on_commit_digested };
    for (size_t i = 0; i < x->layers.n; i++)
        if (layer_is_captured(x->layers.p[i]))
            digest_add(&x->digesting, &(const struct json_strs){ &x->layers.p[i], 1 });
    digest_start(x->sandbox->control, &x->digesting);
}

static void on_commit_captured(struct capture *c, int r, const struct err *e)
{
    struct image_commit *x = container_of(c, struct image_commit, capture);
    struct layer_charge charge;
    struct err why;

    if (r < 0) {
        finish_commit(x, r, e);
        return;
    }
    r = build_commit_stack(x, &why);
    layer_unref(x->sandbox->control, c->layer); /* the stack holds a reference */
    if (r < 0) {
        finish_commit(x, r, &why);
        return;
    }
    x->flatten = (struct flatten_op){ .most = LAYERS_FLAT,
                                      .stack = list_written_layers(x),
                                      .done = on_commit_flattened };
    x->flatten.on = (struct layers_floor){
        FLOOR_IMAGE, { x->layers.p + x->flatten.stack.n, x->layers.n - x->flatten.stack.n }
    };
    charge = layer_charge_caller(x->sandbox->control, &x->caller);
    charge.must = true;
    layers_flatten(x->sandbox->control, &charge, &x->flatten);
}

static int check_committable(const struct sandbox *s, const struct commit_op *op,
                             struct image_commit *x, struct err *e)
{
    struct oci_reference ref;
    int r = oci_reference_parse(str_from(op->image), &ref, e);

    if (r < 0)
        return err_wrap(e, r, "image");
    if (ref.digest[0])
        return err_set(e, ERR_INVALID, "image: the name of a committed image cannot have a digest");
    if (!s->detail.base.layers.n)
        return err_set(e, ERR_CONFLICT,
                       "sandbox %s is built on the system of this machine, which cannot be part of "
                       "an image: create a sandbox with an image, or take a snapshot",
                       s->record.id);
    oci_reference_text(&ref, x->ref);
    return 0;
}

void sandbox_commit(struct sandbox *s, struct commit_op *op)
{
    struct image_commit *x = new0(sizeof *x);
    struct err e;
    int r;

    x->op = op;
    x->sandbox = sandbox_ref(s);
    x->caller = *op->caller;
    x->caller.labels = (struct json_map){ NULL, 0 }; /* borrowed, and not needed */
    x->capture = (struct capture){ .caller = &x->caller, .done = on_commit_captured };
    arena_init(&x->arena, COMMIT_ARENA_MAX);
    buf_init(&x->names, LAYERS_NAMES_MAX);
    buf_init(&x->config, OCI_CONFIG_MAX);
    r = check_committable(s, op, x, &e);
    if (r < 0)
        finish_commit(x, r, &e);
    else
        capture_start(s, &x->capture);
}
