/* SPDX-License-Identifier: Apache-2.0 */
/* Templates in E2B's control plane: profiles, images, and templates that clients have built. */
#include <errno.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#include "edge/e2b/builds.h"
#include "edge/e2b/internal.h"
#include "edge/core/answers.h"
#include "edge/core/template.h"
#include "edge/core/json_members.h"
#include "edge/core/operation.h"
#include "edge/core/shares.h"
#include "edge/core/snapshots.h"
#include "edge/core/guard.h"
#include "base/disk_space.h"
#include "control/image/images.h"

enum { STATUS_LOGS_MAX = 100 };

/* --- templates as JSON --- */

static void write_template(struct json_writer *w, const char *id, const char *build,
                           const char *name, const struct profile *p, bool public,
                           int64_t created_ns)
{
    const struct e2b_size size = p ? e2b_profile_size(p) : (struct e2b_size){ .processors = 1 };

    json_begin_object(w);
    json_field_text(w, "templateID", id);
    json_field_text(w, "buildID", build);
    json_field_text(w, "buildStatus", "ready");
    write_name_list(w, "aliases", name);
    write_name_list(w, "names", name);
    e2b_write_size(w, &size);
    json_field_bool(w, "public", public);
    for (size_t i = 0; i < 2; i++) {
        const char *key = i ? "updatedAt" : "createdAt";

        if (created_ns)
            time_write(w, key, created_ns);
        else
            json_field_text(w, key,
                            "1970-01-01T00:00:00Z"); /* unknown, but clients require a time */
    }
    json_field_int(w, "spawnCount", 0);
    json_field_int(w, "buildCount", 1);
    json_field_text(w, "envdVersion", E2B_ENVD_VERSION);
    json_end_object(w);
}

static void write_profile_template(struct json_writer *w, const struct profile *p)
{
    const char *name = template_profile_name(p->id);
    char build[24];

    snprintf(build, sizeof build, "%u", p->version);
    write_template(w, name, build, name, p, true, 0);
}

/* Images have the size of the profile that they are used with. */
static void write_image_templates(struct json_writer *w, const struct call *c)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;

    (void)catalog_find(control_catalog(c->api->control), STR(TEMPLATE_IMAGE_PROFILE), &p, NULL);
    for (const struct image *im = NULL; (im = images_next(c->api->control, im));)
        write_template(w, im->ref, im->id, im->ref, p, true, im->created_ns);
}

struct template_listing {
    const struct call *call;
    struct json_writer *writer;
};

static void write_built_template(void *user, const struct built *b)
{
    const struct template_listing *l = user;
    const struct snapshot *s =
        snapshot_find(l->call->api->control, &l->call->caller, str_from(b->snapshot));
    AUTO(profile_unrefp_) struct profile *p = NULL;

    if (s)
        (void)catalog_find(control_catalog(l->call->api->control), str_from(s->record.profile), &p,
                           NULL);
    write_template(l->writer, b->id, b->build, b->name, p, false, b->created_ns);
}

/* Lists only the highest version of each profile, which is followed by an entry with another
 * name. */
static void write_e2b_templates(struct json_writer *w, const void *what)
{
    const struct call *c = what;
    const struct catalog *all = control_catalog(c->api->control);
    struct template_listing l = { c, w };

    json_begin_array(w);
    for (size_t i = 0; i < all->n; i++) {
        bool last =
            i + 1 == all->n || strcmp(all->entries[i].name.id, all->entries[i + 1].name.id) != 0;

        if (last && all->entries[i].profile)
            write_profile_template(w, all->entries[i].profile);
    }
    write_image_templates(w, c);
    built_each(c, write_built_template, &l);
    json_end_array(w);
}

static void list_e2b_templates(struct call *c)
{
    call_answer(c, 200, write_e2b_templates, c);
}

struct template_alias {
    const char *id;
    bool public;
};

static const struct json_field alias_fields[] = {
    { "templateID", JSON_KIND_TEXT, JSON_AT(struct template_alias, id) },
    { "public", JSON_KIND_BOOL, JSON_AT(struct template_alias, public) },
};
static const struct json_shape alias_answer = { NULL, JSON_FIELDS(alias_fields) };

/* Searches in the same order as a create. */
static void show_template_alias(struct call *c)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct template_alias found = { .id = NULL };
    const struct image *im;
    const struct built *b;
    char name[PROFILE_ID_MAX + 16];

    snprintf(name, sizeof name, "profile.%.*s",
             (int)(c->params[0].n < PROFILE_ID_MAX ? c->params[0].n : PROFILE_ID_MAX),
             c->params[0].p);
    if (catalog_find(control_catalog(c->api->control), str_from(name), &p, NULL) >= 0)
        found = (struct template_alias){ template_profile_name(p->id), true };
    else if ((b = built_find(c, c->params[0])))
        found.id = b->id;
    else if (images_find(c->api->control, c->params[0], &im, NULL) >= 0)
        found = (struct template_alias){ im->ref, true };
    if (found.id)
        call_answer_as(c, 200, &alias_answer, &found);
    else
        call_fail_missing(c, "template", c->params[0]);
}

/* --- deleting --- */

/* Deletes the snapshot after the template was removed. */
static void on_template_removed(void *user, int r, const struct err *e)
{
    struct call *c = user;
    const char *id = c->state;
    const struct snapshot *s = snapshot_find(c->api->control, &c->caller, str_from(id));

    if (r < 0)
        call_fail(c, e);
    else if (s)
        snapshot_delete_for(c, s);
    else
        call_answer_empty(c);
    call_unref(c);
}

static void delete_template(struct call *c)
{
    const struct built *b = built_find(c, c->params[0]);
    const struct snapshot *s = snapshot_find(c->api->control, &c->caller, c->params[0]);

    if (b) {
        snprintf(call_state(c, ID_MAX, NULL), ID_MAX, "%s", b->snapshot);
        built_remove(c->api, b->id, on_template_removed, call_ref(c));
    } else if (s) {
        snapshot_delete_for(c, s);
    } else {
        call_fail_missing(c, "template or snapshot", c->params[0]);
    }
}

/* --- a new build --- */

struct new_request {
    const char *name, *alias;
    struct json_strs tags;
};

static const struct json_field new_fields[] = {
    { "name", JSON_KIND_STR, JSON_AT(struct new_request, name), .max = BUILT_NAME_MAX },
    { "alias", JSON_KIND_STR, JSON_AT(struct new_request, alias), .max = BUILT_NAME_MAX },
    { "tags", JSON_KIND_STRS, JSON_AT(struct new_request, tags), .max = 16 },
};

/* cpuCount and memoryMB are ignored: sandboxes get the resources of the base's profile. */
static int check_new(struct call *c, const struct new_request *q, const char *name, struct err *e)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;

    if (q->tags.n)
        return err_set(e, ERR_UNSUPPORTED, "tags: not supported; a template has one version");
    if (!name || !name[0])
        return err_set(e, ERR_INVALID, "name: is required");
    for (const char *s = name; *s; s++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *s))
            return err_set(e, ERR_INVALID,
                           "name: must consist of letters, digits, '.', '_' and '-'");
    if (catalog_find(control_catalog(c->api->control), str_from(template_profile_id(c, name)), &p,
                     NULL) >= 0)
        return err_set(e, ERR_CONFLICT, "name: '%s' is the name of a profile", name);
    return 0;
}

struct new_build {
    char id[ID_MAX], template[ID_MAX];
    const char *name;
};

static void write_new(struct json_writer *w, const void *what)
{
    const struct new_build *b = what;

    json_begin_object(w);
    json_field_text(w, "templateID", b->template);
    json_field_text(w, "buildID", b->id);
    write_name_list(w, "names", b->name);
    write_name_list(w, "aliases", b->name);
    write_name_list(w, "tags", "");
    json_field_bool(w, "public", false);
    json_end_object(w);
}

/* Answers after the build is stored, so that a client can always query the state of a build that it
 * knows of. */
static void on_new_build_saved(void *user, int r, const struct err *e)
{
    struct call *c = user;

    call_settle_with(c, r, e, 202, write_new, c->state);
}

static void new_template(struct call *c)
{
    struct new_build *n = call_state(c, sizeof *n, NULL);
    struct new_request q = { 0 };
    struct e2b_build *b;
    struct err e;
    int r = e2b_bind(c, c->json, new_fields, COUNT_OF(new_fields), &q, &e);

    if (r >= 0)
        n->name = q.name ? q.name : q.alias;
    if (r >= 0 && !e2b_may_enter(c))
        r = err_set(&e, ERR_DENIED, "this API key may not run programs, which a build requires");
    if (r >= 0)
        r = check_new(c, &q, n->name, &e);
    if (r >= 0)
        r = build_new(c, n->name, &b, &e);
    if (r < 0) {
        call_fail(c, &e);
        return;
    }
    memcpy(n->id, b->id, sizeof n->id);
    memcpy(n->template, b->template, sizeof n->template);
    builds_save(c->api, on_new_build_saved, call_ref(c));
}

static struct e2b_build *find_build(struct call *c, struct str id)
{
    struct e2b_build *b = build_find(c, c->params[0], id);

    if (!b)
        call_fail_missing(c, "build", id.n ? id : c->params[0]);
    return b;
}

/* --- files for a build --- */

struct upload_location {
    bool present;
    char url[512];
};

static const struct json_field location_fields[] = {
    { "present", JSON_KIND_BOOL, JSON_AT(struct upload_location, present) },
    { "url", JSON_KIND_CHARS, JSON_AT(struct upload_location, url) },
};
static const struct json_shape location_answer = { NULL, JSON_FIELDS(location_fields) };

static void show_upload_location(struct call *c)
{
    struct e2b_build *b = find_build(c, STR(""));
    struct build_file *f = b ? build_get_file(b, c->params[1]) : NULL;
    char token[SANDBOX_TOKEN_CODE_TEXT];
    struct upload_location p;

    if (!b)
        return;
    if (!f) {
        call_fail_with(
            c, 400, "invalid",
            "files: the hash is empty or longer than %d bytes, or the build has %d files, "
            "the maximum",
            BUILD_HASH_MAX - 1, BUILD_FILES_MAX);
        return;
    }
    e2b_upload_token(c->api, b->id, f->hash, token);
    p.present = f->whole;
    snprintf(p.url, sizeof p.url, "%s://" STR_FMT "/templates/%s/files/%s?build=%s&token=%s",
             call_scheme(c), STR_ARG(call_header(c, "Host")), b->template, f->hash, b->id, token);
    call_answer_as(c, 201, &location_answer, &p);
}

/* Receives an uploaded file. Each upload replaces the previous one. */
static void on_build_file_data(struct http_exchange *x, struct str data)
{
    struct call *c = http_state(x);
    struct e2b_build *b = build_find(c, c->params[0], STR(""));
    struct build_file *f = b ? build_get_file(b, c->params[1]) : NULL;
    struct err e;

    if (!f || f->fd < 0 || b->state != BUILD_WAITING) {
        call_fail_with(c, 409, "conflict",
                       "build '%.*s' no longer accepts files; start a new build",
                       (int)(c->params[0].n < ID_MAX ? c->params[0].n : ID_MAX), c->params[0].p);
        return;
    }
    if (!data.n) {
        f->whole = true;
        call_answer_bytes(c, 200, "application/json", STR("{}"));
        return;
    }
    if (data.n > BUILD_FILE_BYTES_MAX - f->size) {
        build_drop_file(f);
        call_fail_with(c, 413, "too_big", "the files of one step exceed 512 MiB");
        return;
    }
    if (shares_take_upload(c->api, b->owner, b->family, data.n, &f->counted, &e) < 0 ||
        room_check(f->fd, c->api->config->images.free_min, f->size, data.n, &e) < 0) {
        build_drop_file(f);
        call_fail(c, &e);
        return;
    }
    while (data.n) {
        ssize_t n = pwrite(f->fd, data.p, data.n, (off_t)f->size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            build_drop_file(f);
            call_fail_with(c, 507, "too_big", "not enough disk space for the files");
            return;
        }
        f->size += (uint64_t)n;
        data = (struct str){ data.p + n, data.n - (size_t)n };
    }
}

static void upload_build_file(struct call *c)
{
    struct e2b_build *b = find_build(c, STR(""));
    struct build_file *f = b ? build_get_file(b, c->params[1]) : NULL;
    struct err e;

    if (!b)
        return;
    if (!f || b->state != BUILD_WAITING) {
        call_fail_with(c, 409, "conflict",
                       "build '%.*s' no longer accepts files; start a new build",
                       (int)(c->params[0].n < ID_MAX ? c->params[0].n : ID_MAX), c->params[0].p);
        return;
    }
    build_drop_file(f);
    build_wait(c->api, b);
    f->fd = control_scratch(c->api->control, &e);
    if (f->fd < 0)
        call_fail(c, &e);
    else
        http_stream(c->x, on_build_file_data);
}

/* --- the steps of a build --- */

#define STEP(member)  JSON_AT(struct e2b_build_step, member)
#define BUILD(member) JSON_AT(struct build_request, member)

static const struct json_field step_fields[] = {
    { "type", JSON_KIND_STR, STEP(type), .required = true, .max = 32 },
    { "args", JSON_KIND_STRS, STEP(args), .max = 2 * REQUEST_ENV_MAX },
    { "filesHash", JSON_KIND_STR, STEP(hash), .max = BUILD_HASH_MAX - 1 },
};

static const struct json_field build_fields[] = {
    { "fromImage", JSON_KIND_STR, BUILD(from_image), .max = 1024 },
    { "fromTemplate", JSON_KIND_STR, BUILD(from_template), .max = TEMPLATE_NAME_MAX },
    { "startCmd", JSON_KIND_STR, BUILD(start), .max = BUILT_TEXT_MAX },
    { "readyCmd", JSON_KIND_STR, BUILD(ready), .max = BUILT_TEXT_MAX },
    { "steps", JSON_KIND_OBJECTS, BUILD(steps), .max = BUILD_STEPS_MAX,
      .item_size = sizeof(struct e2b_build_step), JSON_FIELDS(step_fields) },
};

/* A build whose sandbox is being authorized by the policy. */
struct starting_build {
    struct build_request request;
    struct create_request create;
    struct create_op op;
};

/* Returns NULL after it has answered the call. */
static struct e2b_build *find_waiting(struct call *c)
{
    struct e2b_build *b = find_build(c, c->params[1]);

    if (!b || b->state == BUILD_WAITING)
        return b;
    call_fail_with(c, 409, "conflict", "build %s was already started; start a new one", b->id);
    return NULL;
}

static void begin_build(struct call *c)
{
    const struct starting_build *s = c->state;
    struct e2b_build *b = find_waiting(c);

    if (!b)
        return;
    call_ref(c); /* the build continues after the answer */
    call_answer_bytes(c, 202, "application/json", STR("{}"));
    build_start(b, c, &s->request);
}

static void start_build(struct call *c)
{
    struct starting_build *s = call_state(c, sizeof *s, NULL);
    struct err e;

    s->op = (struct create_op){ .caller = &c->caller, .request = &s->create };
    if (!find_waiting(c))
        return;
    if (!e2b_may_enter(c))
        call_fail_with(c, 403, "denied",
                       "this API key may not run programs, which a build requires");
    else if (e2b_bind(c, c->json, build_fields, COUNT_OF(build_fields), &s->request, &e) < 0)
        call_fail(c, &e);
    else if (build_fill_base(c, &s->request, &s->create, &e) < 0)
        guard_request(c, NULL, begin_build); /* the build reports the error */
    else
        guard_request_create(c, &s->op, begin_build);
}

/* --- the status of a build --- */

struct build_status {
    const struct e2b_build *build;
    size_t from;
};

static const struct json_field log_fields[] = {
    { "timestamp", JSON_KIND_TIME, JSON_AT(struct build_log, time_ns) },
    { "level", JSON_KIND_TEXT, JSON_AT(struct build_log, level) },
    { "message", JSON_KIND_TEXT, JSON_AT(struct build_log, text) },
};
static const struct json_shape log_shape = { NULL, JSON_FIELDS(log_fields) };

static void write_build_status(struct json_writer *w, const void *what)
{
    const struct build_status *s = what;
    const struct e2b_build *b = s->build;
    size_t end = b->n_logs - s->from < STATUS_LOGS_MAX ? b->n_logs : s->from + STATUS_LOGS_MAX;

    json_begin_object(w);
    json_field_text(w, "templateID", b->template);
    json_field_text(w, "buildID", b->id);
    json_field_text(w, "status", build_state_names[b->state]);
    json_field_begin_array(w, "logs");
    for (size_t i = s->from; i < end; i++)
        json_put_lossy(w, str_from(b->logs[i].text));
    json_end_array(w);
    json_field_begin_array(w, "logEntries");
    for (size_t i = s->from; i < end; i++)
        json_put_shape(w, &log_shape, &b->logs[i]);
    json_end_array(w);
    if (b->state == BUILD_ERROR) {
        json_field_begin_object(w, "reason");
        json_field_text(w, "message", b->reason);
        json_field_optional(w, "step", b->failed);
        json_end_object(w);
    }
    json_end_object(w);
}

static void show_build_status(struct call *c)
{
    const struct e2b_build *b = find_build(c, c->params[1]);
    uint64_t from = 0;
    struct build_status s;

    if (!b || call_query_number(c, "logsOffset", INT64_MAX, &from) < 0)
        return;
    s = (struct build_status){ b, from < b->n_logs ? (size_t)from : b->n_logs };
    call_answer(c, 200, write_build_status, &s);
}

/* --- tags and publishing --- */

static void fail_unsupported(struct call *c)
{
    call_fail_with(c, 501, "unsupported", "%s", c->route->summary);
}

#define NO_TAGS                                                                                    \
    .handle = fail_unsupported, .summary = "tags are not supported: a template has one version"
#define NO_PUBLIC                                                                                  \
    .handle = fail_unsupported,                                                                    \
    .summary = "publishing templates is not supported: profiles are visible to all users, built "  \
               "templates to the owner of their API key"

const struct route routes_e2b_templates[] = {
    { H1_GET, VERB_READ, "/templates", 0, .handle = list_e2b_templates },
    { H1_GET, VERB_READ, "/v2/templates", 0, .handle = list_e2b_templates },
    { H1_GET, VERB_READ, "/templates/aliases/{alias}", 0, .handle = show_template_alias },
    { H1_POST, VERB_CREATE, "/templates/tags", 0, NO_TAGS },
    { H1_DELETE, VERB_DESTROY, "/templates/tags", 0, NO_TAGS },
    { H1_GET, VERB_READ, "/templates/{id}/tags", 0, NO_TAGS },
    { H1_DELETE, VERB_DESTROY, "/templates/{id}", 0, .handle = delete_template },
    { H1_PATCH, VERB_CREATE, "/templates/{id}", 0, NO_PUBLIC },
    { H1_PATCH, VERB_CREATE, "/v2/templates/{id}", 0, NO_PUBLIC },
    { H1_POST, VERB_CREATE, "/v2/templates", ROUTE_JSON | ROUTE_CONTENT, .handle = new_template },
    { H1_POST, VERB_CREATE, "/v3/templates", ROUTE_JSON | ROUTE_CONTENT, .handle = new_template },
    { H1_GET, VERB_CREATE, "/templates/{id}/files/{hash}", 0, .handle = show_upload_location },
    { H1_POST, VERB_CREATE, "/v2/templates/{id}/builds/{build}",
      ROUTE_JSON | ROUTE_CONTENT | ROUTE_LONG, .handle = start_build },
    { H1_GET, VERB_READ, "/templates/{id}/builds/{build}/status", 0, .handle = show_build_status },
    { .path = NULL },
};

const struct route routes_e2b_upload[] = {
    { H1_PUT, VERB_CREATE, "/templates/{id}/files/{hash}", ROUTE_STREAM,
      .handle = upload_build_file },
    { .path = NULL },
};
