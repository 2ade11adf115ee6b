/* E2B's templates: our profiles, our images, and what clients have built. */
#include <errno.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#include "api/e2b/builds.h"
#include "api/e2b/inside.h"
#include "api/e2b/shown.h"
#include "api/e2b/template.h"
#include "api/e2b/write.h"
#include "api/operation.h"
#include "api/shares.h"
#include "api/snapshots.h"
#include "api/guard.h"
#include "base/room.h"
#include "control/images.h"

enum { STATUS_LOGS_MAX = 100 };

/* --- how they look --- */

static void put_rest(struct json_writer *w, const char *id, const char *build, const char *name,
                     const struct e2b_size *size, bool public, int64_t created_ns)
{
    put(w, "templateID", id);
    put(w, "buildID", build);
    put(w, "buildStatus", "ready");
    put_names(w, "aliases", name);
    put_names(w, "names", name);
    e2b_put_size(w, size);
    put_flag(w, "public", public);
    for (size_t i = 0; i < 2; i++) {
        const char *key = i ? "updatedAt" : "createdAt";

        if (created_ns)
            time_write(w, key, created_ns);
        else
            put(w, key, "1970-01-01T00:00:00Z"); /* nobody knows; clients want a time */
    }
    put_number(w, "spawnCount", 0);
    put_number(w, "buildCount", 1);
    put(w, "envdVersion", E2B_ENVD_VERSION);
}

static void put_profile(struct json_writer *w, const struct profile *p)
{
    const char *name = e2b_profile_name(p->id);
    const struct e2b_size size = e2b_profile_size(p);
    char build[24];

    snprintf(build, sizeof build, "%u", p->version);
    json_begin_object(w);
    put_rest(w, name, build, name, &size, true, 0);
    json_end_object(w);
}

/* They are as large as the profile that they are used with. */
static void put_image(struct json_writer *w, const struct image *im, const struct e2b_size *size)
{
    json_begin_object(w);
    put_rest(w, im->ref, im->id, im->ref, size, true, im->created_ns);
    json_end_object(w);
}

static void put_images(struct json_writer *w, const struct call *c)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct e2b_size size = { .processors = 1 };

    if (catalog_find(control_catalog(c->api->control), STR(E2B_IMAGE_PROFILE), &p, NULL) >= 0)
        size = e2b_profile_size(p);
    for (const struct image *im = NULL; (im = images_next(c->api->control, im));)
        put_image(w, im, &size);
}

struct listing {
    const struct call *call;
    struct json_writer *writer;
};

static void put_built(void *user, const struct built *b)
{
    const struct listing *l = user;
    const struct snapshot *s =
        snapshot_find(l->call->api->control, &l->call->caller, str_from(b->snapshot));
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct e2b_size size = { .processors = 1 };

    if (s && catalog_find(control_catalog(l->call->api->control), str_from(s->record.profile), &p,
                          NULL) >= 0)
        size = e2b_profile_size(p);
    json_begin_object(l->writer);
    put_rest(l->writer, b->id, b->build, b->name, &size, false, b->created_ns);
    json_end_object(l->writer);
}

/* Of profiles the highest version: the next entry is another's. */
static void write_list(struct json_writer *w, const void *what)
{
    const struct call *c = what;
    const struct catalog *all = control_catalog(c->api->control);
    struct listing l = { c, w };

    json_begin_array(w);
    for (size_t i = 0; i < all->n; i++) {
        bool last =
            i + 1 == all->n || strcmp(all->entries[i].name.id, all->entries[i + 1].name.id) != 0;

        if (last && all->entries[i].profile)
            put_profile(w, all->entries[i].profile);
    }
    put_images(w, c);
    built_each(c, put_built, &l);
    json_end_array(w);
}

static void list(struct call *c)
{
    call_answer(c, 200, write_list, c);
}

struct alias {
    const char *id;
    bool public;
};

static void write_alias(struct json_writer *w, const void *what)
{
    const struct alias *a = what;

    json_begin_object(w);
    put(w, "templateID", a->id);
    put_flag(w, "public", a->public);
    json_end_object(w);
}

/* In the order in which a create looks for it. */
static void alias(struct call *c)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct alias found = { .id = NULL };
    const struct image *im;
    const struct built *b;
    char name[PROFILE_ID_MAX + 16];

    snprintf(name, sizeof name, "profile.%.*s",
             (int)(c->params[0].n < PROFILE_ID_MAX ? c->params[0].n : PROFILE_ID_MAX),
             c->params[0].p);
    if (catalog_find(control_catalog(c->api->control), str_from(name), &p, NULL) >= 0)
        found = (struct alias){ e2b_profile_name(p->id), true };
    else if ((b = built_find(c, c->params[0])))
        found.id = b->id;
    else if (images_find(c->api->control, c->params[0], &im, NULL) >= 0)
        found = (struct alias){ im->ref, true };
    if (found.id)
        call_answer(c, 200, write_alias, &found);
    else
        call_fail_with(c, 404, "not_found", "there is no template of that name");
}

/* --- deleting --- */

/* Its snapshot goes when nobody can find it by the template any more. */
static void forgotten(void *user, int r, const struct err *e)
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

static void delete_built(struct call *c, const struct built *b)
{
    c->state = arena_dup(&c->own, str_from(b->snapshot));
    built_remove(c->api, b->id, forgotten, call_ref(c));
}

static void delete_template(struct call *c)
{
    const struct built *b = built_find(c, c->params[0]);
    const struct snapshot *s = snapshot_find(c->api->control, &c->caller, c->params[0]);

    if (b)
        delete_built(c, b);
    else if (s)
        snapshot_delete_for(c, s);
    else
        call_fail_with(c, 404, "not_found", "there is no such snapshot or template of yours");
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

/* Sandboxes of it get what its base's profile says, whatever cpuCount and memoryMB are. */
static int check_new(struct call *c, const struct new_request *q, const char *name, struct err *e)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;

    if (q->tags.n)
        return err_set(e, ERR_UNSUPPORTED, "tags: a template has one version here");
    if (!name || !name[0])
        return err_set(e, ERR_INVALID, "name: is required");
    for (const char *s = name; *s; s++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *s))
            return err_set(e, ERR_INVALID, "name: is made of letters, digits, '.', '_' and '-'");
    if (catalog_find(control_catalog(c->api->control), str_from(e2b_profile_id(c, name)), &p,
                     NULL) >= 0)
        return err_set(e, ERR_CONFLICT, "name: '%s' is a profile's", name);
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
    put(w, "templateID", b->template);
    put(w, "buildID", b->id);
    put_names(w, "names", b->name);
    put_names(w, "aliases", b->name);
    put_names(w, "tags", "");
    put_flag(w, "public", false);
    json_end_object(w);
}

/* It is on disk: whoever hears of it will hear what became of it. */
static void new_kept(void *user, int r, const struct err *e)
{
    struct call *c = user;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 202, write_new, c->state);
    call_unref(c);
}

static void announce(struct call *c, const struct build *b, struct new_build *n)
{
    memcpy(n->id, b->id, sizeof n->id);
    memcpy(n->template, b->template, sizeof n->template);
    c->state = n;
    builds_keep(c->api, new_kept, call_ref(c));
}

static void new_template(struct call *c)
{
    struct new_build *n = arena_alloc(&c->arena, sizeof *n);
    struct new_request q = { 0 };
    struct build *b;
    struct err e;
    int r = n ? e2b_bind(c, c->json, new_fields, COUNT_OF(new_fields), &q, &e)
              : err_set(&e, ERR_TOO_BIG, "the request is too big");

    if (r >= 0)
        n->name = q.name ? q.name : q.alias;
    if (r >= 0 && !e2b_may_enter(c))
        r = err_set(&e, ERR_DENIED, "this key may not run programs, which a build does");
    if (r >= 0)
        r = check_new(c, &q, n->name, &e);
    if (r >= 0)
        r = build_new(c, n->name, &b, &e);
    if (r < 0)
        call_fail(c, &e);
    else
        announce(c, b, n);
}

static struct build *find_build(struct call *c, struct str id)
{
    struct build *b = build_find(c, c->params[0], id);

    if (!b)
        call_fail_with(c, 404, "not_found", "there is no such build");
    return b;
}

/* --- files for it --- */

struct place {
    bool present;
    char url[512];
};

static void write_place(struct json_writer *w, const void *what)
{
    const struct place *p = what;

    json_begin_object(w);
    put_flag(w, "present", p->present);
    put(w, "url", p->url);
    json_end_object(w);
}

static void show_place(struct call *c)
{
    struct build *b = find_build(c, STR(""));
    struct build_file *f = b ? build_file(b, c->params[1]) : NULL;
    char token[E2B_TOKEN_TEXT];
    struct place p;

    if (!b)
        return;
    if (!f) {
        call_fail_with(c, 400, "invalid", "files: the hash is too long, or there are too many");
        return;
    }
    e2b_upload_token(c->api, b->id, f->hash, token);
    p.present = f->whole;
    snprintf(p.url, sizeof p.url, "%s://" STR_FMT "/templates/%s/files/%s?build=%s&token=%s",
             call_scheme(c), STR_ARG(call_header(c, "Host")), b->template, f->hash, b->id, token);
    call_answer(c, 201, write_place, &p);
}

/* Who has the link may write this one file, once for every time it is asked for. */
static void take_file(struct http_exchange *x, struct str data)
{
    struct call *c = http_state(x);
    struct build *b = build_find(c, c->params[0], STR(""));
    struct build_file *f = b ? build_file(b, c->params[1]) : NULL;
    struct err e;

    if (!f || f->fd < 0 || b->state != BUILD_WAITING) {
        call_fail_with(c, 409, "conflict", "the build does not wait for files any more");
        return;
    }
    if (!data.n) {
        f->whole = true;
        call_answer_bytes(c, 200, "application/json", STR("{}"));
        return;
    }
    if (data.n > BUILD_FILE_BYTES_MAX - f->size) {
        build_drop_file(f);
        call_fail_with(c, 413, "too_big", "the files of one step have more than 512 MiB");
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
            call_fail_with(c, 507, "too_big", "there is no room for the files");
            return;
        }
        f->size += (uint64_t)n;
        data = (struct str){ data.p + n, data.n - (size_t)n };
    }
}

static void upload(struct call *c)
{
    struct build *b = find_build(c, STR(""));
    struct build_file *f = b ? build_file(b, c->params[1]) : NULL;
    struct err e;

    if (!b)
        return;
    if (!f || b->state != BUILD_WAITING) {
        call_fail_with(c, 409, "conflict", "the build does not wait for files any more");
        return;
    }
    build_drop_file(f);
    build_wait(c->api, b);
    f->fd = control_scratch(c->api->control, &e);
    if (f->fd < 0)
        call_fail(c, &e);
    else
        http_stream(c->x, take_file);
}

/* --- its steps --- */

#define STEP(member)  JSON_AT(struct build_step, member)
#define BUILD(member) JSON_AT(struct build_request, member)

static const struct json_field step_fields[] = {
    { "type", JSON_KIND_STR, STEP(type), .required = true, .max = 32 },
    { "args", JSON_KIND_STRS, STEP(args), .max = 2 * REQUEST_ENV_MAX },
    { "filesHash", JSON_KIND_STR, STEP(hash), .max = BUILD_HASH_MAX - 1 },
};

static const struct json_field build_fields[] = {
    { "fromImage", JSON_KIND_STR, BUILD(from_image), .max = 1024 },
    { "fromTemplate", JSON_KIND_STR, BUILD(from_template), .max = E2B_TEMPLATE_MAX },
    { "startCmd", JSON_KIND_STR, BUILD(start), .max = BUILT_TEXT_MAX },
    { "readyCmd", JSON_KIND_STR, BUILD(ready), .max = BUILT_TEXT_MAX },
    { "steps", JSON_KIND_OBJECTS, BUILD(steps), .max = BUILD_STEPS_MAX,
      .item_size = sizeof(struct build_step), JSON_FIELDS(step_fields) },
};

/* A build that the policy is asked about: what it would create. */
struct starting_build {
    struct build_request request;
    struct create_request create;
    struct create_op op;
};

/* NULL: it is answered. */
static struct build *find_waiting(struct call *c)
{
    struct build *b = find_build(c, c->params[1]);

    if (!b || b->state == BUILD_WAITING)
        return b;
    call_fail_with(c, 409, "conflict", "this build was begun before");
    return NULL;
}

static void begin_build(struct call *c)
{
    const struct starting_build *s = c->state;
    struct build *b = find_waiting(c);

    if (!b)
        return;
    call_ref(c); /* it goes on when it is answered */
    call_answer_bytes(c, 202, "application/json", STR("{}"));
    build_start(b, c, &s->request);
}

static void start_build(struct call *c)
{
    struct starting_build *s = arena_alloc(&c->own, sizeof *s);
    struct err e;

    if (!s)
        abort();
    *s = (struct starting_build){ .op = { .caller = &c->caller, .request = &s->create } };
    c->state = s;
    if (!find_waiting(c))
        return;
    if (!e2b_may_enter(c))
        call_fail_with(c, 403, "denied", "this key may not run programs, which a build does");
    else if (e2b_bind(c, c->json, build_fields, COUNT_OF(build_fields), &s->request, &e) < 0)
        call_fail(c, &e);
    else if (build_base(c, &s->request, &s->create, &e) < 0)
        guard_ask(c, NULL, begin_build); /* the build says what is wrong */
    else
        guard_ask_create(c, &s->op, begin_build);
}

/* --- how far it is --- */

struct status {
    const struct build *build;
    size_t from;
};

static void write_log(struct json_writer *w, const struct build_log *l)
{
    json_begin_object(w);
    time_write(w, "timestamp", l->time_ns);
    put(w, "level", l->level);
    put(w, "message", l->text);
    json_end_object(w);
}

static void write_status(struct json_writer *w, const void *what)
{
    const struct status *s = what;
    const struct build *b = s->build;
    size_t end = b->n_logs - s->from < STATUS_LOGS_MAX ? b->n_logs : s->from + STATUS_LOGS_MAX;

    json_begin_object(w);
    put(w, "templateID", b->template);
    put(w, "buildID", b->id);
    put(w, "status", build_state_names[b->state]);
    json_key(w, STR("logs"));
    json_begin_array(w);
    for (size_t i = s->from; i < end; i++)
        json_put_lossy(w, str_from(b->logs[i].text));
    json_end_array(w);
    json_key(w, STR("logEntries"));
    json_begin_array(w);
    for (size_t i = s->from; i < end; i++)
        write_log(w, &b->logs[i]);
    json_end_array(w);
    if (b->state == BUILD_ERROR) {
        json_key(w, STR("reason"));
        json_begin_object(w);
        put(w, "message", b->reason);
        if (b->failed[0])
            put(w, "step", b->failed);
        json_end_object(w);
    }
    json_end_object(w);
}

static void show_status(struct call *c)
{
    const struct build *b = find_build(c, c->params[1]);
    uint64_t from = 0;
    struct status s;

    if (!b || call_query_number(c, "logsOffset", INT64_MAX, &from) < 0)
        return;
    s = (struct status){ b, from < b->n_logs ? (size_t)from : b->n_logs };
    call_answer(c, 200, write_status, &s);
}

/* --- tags --- */

static void no_tags(struct call *c)
{
    call_fail_with(c, 501, "unsupported", "a template has one version here, and no tags");
}

/* --- publishing --- */

static void no_public(struct call *c)
{
    call_fail_with(c, 501, "unsupported",
                   "templates are not published here: profiles are for everybody, and what was "
                   "built is for the owner of its key");
}

#define FACE .face = &e2b_face

const struct route routes_e2b_templates[] = {
    { H1_GET, VERB_READ, "/templates", 0, list, FACE },
    { H1_GET, VERB_READ, "/v2/templates", 0, list, FACE },
    { H1_GET, VERB_READ, "/templates/aliases/{alias}", 0, alias, FACE },
    { H1_POST, VERB_CREATE, "/templates/tags", 0, no_tags, FACE },
    { H1_DELETE, VERB_DESTROY, "/templates/tags", 0, no_tags, FACE },
    { H1_GET, VERB_READ, "/templates/{id}/tags", 0, no_tags, FACE },
    { H1_DELETE, VERB_DESTROY, "/templates/{id}", 0, delete_template, FACE },
    { H1_PATCH, VERB_CREATE, "/templates/{id}", 0, no_public, FACE },
    { H1_PATCH, VERB_CREATE, "/v2/templates/{id}", 0, no_public, FACE },
    { H1_POST, VERB_CREATE, "/v2/templates", ROUTE_JSON | ROUTE_CONTENT, new_template, FACE },
    { H1_POST, VERB_CREATE, "/v3/templates", ROUTE_JSON | ROUTE_CONTENT, new_template, FACE },
    { H1_GET, VERB_CREATE, "/templates/{id}/files/{hash}", 0, show_place, FACE },
    { H1_PUT, VERB_CREATE, "/templates/{id}/files/{hash}", ROUTE_STREAM, upload,
      .face = &e2b_upload_face },
    { H1_POST, VERB_CREATE, "/v2/templates/{id}/builds/{build}",
      ROUTE_JSON | ROUTE_CONTENT | ROUTE_LONG, start_build, FACE },
    { H1_GET, VERB_READ, "/templates/{id}/builds/{build}/status", 0, show_status, FACE },
    { .path = NULL },
};
