/* SPDX-License-Identifier: Apache-2.0 */
/* POST /sandbox of Daytona's control plane: creates a sandbox. */
#include "edge/core/bind_known.h"
#include "edge/daytona/internal.h"
#include "edge/core/launch.h"
#include "edge/core/template.h"
#include "edge/core/operation.h"
#include "base/clock.h"

enum { NAME_MAX_BYTES = 128, INTERVAL_MAX = 525600, DOCKERFILE_MAX = 64 << 10, IDLE_MINUTES = 15 };
#define MINUTE_NS (60 * NS_PER_S)

struct daytona_create {
    const char *name, *snapshot, *user;
    struct json_map env, labels;
    struct daytona_network network;
    bool public, kvm, spot;
    double cpu, memory, disk;
    int64_t gpu, auto_stop, auto_pause, auto_delete, ttl;
    bool auto_stop_given, auto_delete_given;
    struct {
        const char *dockerfile;
        struct json_strs hashes;
    } build;
    const char *proxy, *linked;
    const struct json *volumes, *secrets;
};

#define AT(member)   JSON_AT(struct daytona_create, member)
#define SEEN(member) .seen = offsetof(struct daytona_create, member)
#define WHOLE        .offset = 0, .size = sizeof(struct daytona_create)

static const struct json_field build_fields[] = {
    { "dockerfileContent", JSON_KIND_STR, AT(build.dockerfile), .max = DOCKERFILE_MAX },
    { "contextHashes", JSON_KIND_STRS, AT(build.hashes), .max = 256 },
};

static const struct json_field create_fields[] = {
    { "name", JSON_KIND_STR, AT(name), .max = NAME_MAX_BYTES },
    { "snapshot", JSON_KIND_STR, AT(snapshot), .max = RECORD_IMAGE_MAX - 1 },
    { "user", JSON_KIND_STR, AT(user), .max = 64 },
    { "env", JSON_KIND_MAP, AT(env), .max = REQUEST_ENV_MAX },
    { "labels", JSON_KIND_MAP, AT(labels), .max = REQUEST_LABELS_MAX },
    DAYTONA_NETWORK_FIELDS(struct daytona_create, network),
    { "public", JSON_KIND_BOOL, AT(public) },
    { "kvm", JSON_KIND_BOOL, AT(kvm) },
    { "spot", JSON_KIND_BOOL, AT(spot) },
    { "cpu", JSON_KIND_DOUBLE, AT(cpu) },
    { "memory", JSON_KIND_DOUBLE, AT(memory) },
    { "disk", JSON_KIND_DOUBLE, AT(disk) },
    { "gpu", JSON_KIND_INT, AT(gpu) },
    { "autoStopInterval", JSON_KIND_INT, AT(auto_stop), SEEN(auto_stop_given), .min = 0,
      .max = INTERVAL_MAX },
    { "autoPauseInterval", JSON_KIND_INT, AT(auto_pause), .min = 0, .max = INTERVAL_MAX },
    { "autoDeleteInterval", JSON_KIND_INT, AT(auto_delete), SEEN(auto_delete_given), .min = -1,
      .max = INTERVAL_MAX },
    { "ttlMinutes", JSON_KIND_INT, AT(ttl), .min = 0, .max = INTERVAL_MAX },
    { "buildInfo", JSON_KIND_OBJECT, WHOLE, JSON_FIELDS(build_fields) },
    { "outboundProxyUrl", JSON_KIND_STR, AT(proxy), .max = 4096 },
    { "linkedSandbox", JSON_KIND_STR, AT(linked), .max = 256 },
    { "volumes", JSON_KIND_ANY, AT(volumes) },
    { "secrets", JSON_KIND_ANY, AT(secrets) },
};

/* --- the source of the sandbox --- */

/* The image of a Dockerfile that consists of one FROM instruction; on the call's arena. */
static int read_dockerfile_image(struct call *c, const char *dockerfile, const char **ret,
                                 struct err *e)
{
    struct str rest = str_from(dockerfile), line, word;

    *ret = NULL;
    while (rest.n) {
        rest = str_cut(rest, '\n', &line);
        line = str_trim(line);
        if (!line.n || line.p[0] == '#')
            continue;
        line = str_trim(str_cut(line, ' ', &word));
        if (*ret || !h1_same(word, STR("FROM")) || !line.n || str_find(line, ' ') < line.n)
            return err_set(e, ERR_UNSUPPORTED,
                           "image: building images is not supported; use an existing image (a "
                           "Dockerfile with only FROM NAME)");
        *ret = arena_dup(&c->own, line);
    }
    return *ret ? 0 : err_set(e, ERR_INVALID, "buildInfo: the Dockerfile has no FROM");
}

/* Fills in the source: a profile, a snapshot, or a stored image. */
static int fill_origin(struct call *c, const struct daytona_create *q, struct create_request *ret,
                       struct err *e)
{
    const char *name = q->snapshot && q->snapshot[0] ? q->snapshot : "base";
    int r;

    ret->profile = TEMPLATE_IMAGE_PROFILE;
    if (q->build.dockerfile)
        return read_dockerfile_image(c, q->build.dockerfile, &ret->image, e);
    r = template_fill_request(c, name, ret, e);
    if (r == -(int)ERR_NOT_FOUND)
        return err_set(e, ERR_NOT_FOUND,
                       "snapshot '%.80s' not found: there is no profile, snapshot or image of "
                       "that name",
                       name);
    return r;
}

/* --- resources --- */

static int check_requested_size(const struct profile *p, const struct daytona_create *q,
                                struct err *e)
{
    double cpu = profile_cpu_milli(p) / 1000.0, memory = p->resources.memory_mb / 1024.0,
           disk = p->resources.disk_mb / 1024.0;

    if (q->cpu > cpu || q->memory > memory || q->disk > disk || q->cpu < 0 || q->memory < 0 ||
        q->disk < 0)
        return err_set(e, ERR_INVALID,
                       "resources: %s gives at most %g processors, %g GiB of memory and %g GiB of "
                       "disk",
                       p->id, cpu, memory, disk);
    return 0;
}

static int fill_size(struct call *c, const struct daytona_create *q, struct create_request *ret,
                     struct err *e)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    int r = catalog_find(control_catalog(c->api->control), str_from(ret->profile), &p, e);

    if (r >= 0)
        r = check_requested_size(p, q, e);
    if (r < 0)
        return r;
    ret->ttl_ns = q->ttl ? q->ttl * MINUTE_NS : p->ttl.max;
    if (q->cpu == 0 && q->memory == 0)
        return 0;
    ret->capabilities.given = true;
    ret->capabilities.cpu_quota = q->cpu;
    ret->capabilities.memory_mb = (int64_t)(q->memory * 1024);
    ret->capabilities.memory_given = q->memory != 0;
    return 0;
}

/* Rejects fields that are not supported instead of ignoring them. */
static int check_daytona_create(const struct daytona_create *q, struct err *e)
{
    const char *why = bind_given(q->volumes)      ? "volumes: not supported"
                      : bind_given(q->secrets)    ? "secrets: not supported"
                      : q->gpu > 0                ? "gpu: not supported"
                      : q->kvm                    ? "kvm: not supported"
                      : q->public                 ? "public: not supported; ports require a token"
                      : q->proxy && q->proxy[0]   ? "outboundProxyUrl: not supported"
                      : q->linked && q->linked[0] ? "linkedSandbox: not supported"
                      : q->auto_pause ? "autoPauseInterval: not supported; use autoStopInterval"
                      : q->user && q->user[0] && strcmp(q->user, DAYTONA_USER) != 0 &&
                              strcmp(q->user, "daytona") != 0
                          ? "user: not supported; programs run as 'user'"
                          : NULL;

    return why ? err_set(e, ERR_UNSUPPORTED, "%s", why) : 0;
}

static int fill_daytona_request(struct call *c, const struct daytona_create *q,
                                struct create_request *ret, struct err *e)
{
    int r = check_daytona_create(q, e);

    if (r >= 0)
        r = daytona_make_labels(c, &q->labels, q->name, &ret->labels, e);
    if (r >= 0)
        r = fill_origin(c, q, ret, e);
    if (r >= 0)
        r = fill_size(c, q, ret, e);
    if (r >= 0)
        r = daytona_network_fill(c, &q->network, ret, e);
    ret->env = q->env;
    return r < 0 ? r : create_request_check(ret, &c->arena, e);
}

/* --- create --- */

struct daytona_creation {
    struct creation creation;
    struct sandbox_rest rest;
};

/* Sets the idle policy of the new sandbox before the client gets the answer. */
static void set_new_sandbox_rest(struct call *c, int r, const struct err *e)
{
    const struct daytona_creation *m = c->state;

    sandbox_set_rest(c->sandbox, &c->caller.actor, &m->rest,
                     call_sandbox_op(c, daytona_settle_sandbox));
}

static void on_daytona_sandbox_created(struct create_op *op, int r, const struct err *e)
{
    struct creation *n = container_of(op, struct creation, op);
    struct call *c = n->call;

    if (r < 0)
        call_fail(c, e);
    else if (!op->record ||
             !control_find_now(c->api->control, &c->caller, str_from(op->record->id), &c->sandbox))
        call_fail_with(c, 409, "conflict", "the sandbox was destroyed right after its creation");
    else if (n->request.image)
        launch_image(c, set_new_sandbox_rest);
    else
        set_new_sandbox_rest(c, 0, NULL);
    call_unref(c);
}

static void create_daytona_sandbox(struct call *c)
{
    struct daytona_creation *m = creation_new(c, sizeof *m, on_daytona_sandbox_created);
    struct daytona_create q = { 0 };
    struct err e;

    if (!daytona_read_body(c, create_fields, COUNT_OF(create_fields), &q))
        return;
    m->rest = (struct sandbox_rest){
        .idle_ns = (q.auto_stop_given ? q.auto_stop : IDLE_MINUTES) * MINUTE_NS,
        .stops = !q.auto_delete_given || q.auto_delete != 0, /* else it is ephemeral */
        .keep_ns = q.auto_delete > 0 ? q.auto_delete * MINUTE_NS : 0,
    };
    if (fill_daytona_request(c, &q, &m->creation.request, &e) < 0)
        call_fail(c, &e);
    else
        creation_start(&m->creation);
}

const struct route routes_daytona_create[] = {
    { H1_POST, VERB_CREATE, DAYTONA "/sandbox", ROUTE_JSON | ROUTE_CONTENT,
      .handle = create_daytona_sandbox },
    { .path = NULL },
};
