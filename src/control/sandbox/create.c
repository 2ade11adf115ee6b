/* SPDX-License-Identifier: Apache-2.0 */
/* Creating: resolves a request against its profile and records the sandbox. */
#include <stdio.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/units.h"
#include "control/egress/ceiling.h"
#include "control/owner/event_share.h"
#include "control/image/images.h"
#include "control/owner/owner_share.h"
#include "control/egress/places.h"
#include "control/egress/reach.h"
#include "control/sandbox/pool.h"
#include "control/sandbox/resources.h"
#include "control/sandbox/sandbox.h"
#include "control/snapshot/snapshots.h"
#include "control/sandbox/spec.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"

/* The profile's max, within the configuration's. */
static int64_t longest_ttl(const struct control *c, const struct profile *p)
{
    return p->ttl.max < c->config->ttl.max ? p->ttl.max : c->config->ttl.max;
}

/* A peer's sandbox has a network only if the peer declares it, because the tool policy was asked
 * about the declaration. */
static int declare_network(const struct profile *p, const struct caller *who,
                           struct create_request *q, struct err *e)
{
    if (!who->peer || q->capabilities.network_given || !policy_wanted(p, q))
        return 0;
    if (q->egress.given)
        return err_set(
            e, ERR_DENIED,
            "egress: a sandbox with a network must declare it: set capabilities.network, too");
    create_request_network(q, false);
    return 0;
}

/* Under the ceiling `none` a sandbox has no network, and a request that asks for a network is
 * refused. */
static int close_network(const struct control *c, const struct profile *p, const struct caller *who,
                         struct create_request *q, struct err *e)
{
    const struct policy_author author = ceiling_author(who);
    char from[EGRESS_FROM_MAX];

    if (!policy_wanted(p, q) || ceiling_reach(c, &author, p, from) != EGRESS_REACH_NONE)
        return 0;
    if (q->egress.given || q->capabilities.network_given)
        return err_set(e, ERR_DENIED, "egress: %s allows no network; ask an administrator", from);
    create_request_network(q, false);
    return 0;
}

/* The least of the access that the profile allows, the request asks for and the capabilities
 * declare. More than the profile allows is refused; a declaration only if there is a workspace. */
static int resolve_access(const struct profile *p, struct create_request *q, struct err *e)
{
    enum workspace_access most = (enum workspace_access)(p->workspace.access + 1),
                          declared = q->capabilities.filesystem;
    const char *beyond = q->workspace.access > most        ? "workspace.access"
                         : declared > most && spec_repo(q) ? "capabilities.filesystem"
                                                           : NULL;

    if (beyond)
        return err_set(e, ERR_DENIED, "%s: %s allows no more than %s", beyond, p->id,
                       workspace_access_names[most]);
    if (!q->workspace.access)
        q->workspace.access = most;
    if (declared && declared < q->workspace.access)
        q->workspace.access = declared;
    return 0;
}

/* Fills in the request's defaults from the profile. */
static int fill_from_profile(const struct control *c, const struct profile *p,
                             const struct caller *who, struct create_request *q, struct err *e)
{
    int64_t max = longest_ttl(c, p), ttl = q->ttl_ns ? q->ttl_ns : p->ttl.usual;
    char asked[48], most[48];

    if (q->ttl_ns > max) {
        units_show_duration(ttl, asked);
        units_show_duration(max, most);
        return err_set(e, ERR_INVALID, "ttl: %s is more than the %s that %s allows", asked, most,
                       p->id);
    }
    ttl = ttl > max ? max : ttl;
    if (q->capabilities.duration_s && q->capabilities.duration_s * NS_PER_S < ttl)
        ttl = q->capabilities.duration_s * NS_PER_S;
    q->ttl_ns = ttl;
    if (!q->scope)
        q->scope = (enum request_scope)(p->scope_default + 1);
    if (!q->workspace.mode)
        q->workspace.mode = (enum workspace_mode)(p->workspace.mode + 1);
    if (resolve_access(p, q, e) < 0)
        return -(int)ERR_DENIED;
    if (!q->consumer.actor_given) {
        q->consumer.actor_given = true;
        q->consumer.actor = who->actor.kind;
    }
    q->profile = p->id;
    if (declare_network(p, who, q, e) < 0)
        return -(int)ERR_DENIED;
    return close_network(c, p, who, q, e);
}

/* The supervisor opens a directory with the rights of the client at the other end of a unix socket,
 * so there must be such a client. */
static int check_host_paths(const struct create_op *op, const struct create_request *q,
                            struct err *e)
{
    if (q->workspace.access == ASK_ACCESS_NONE || !spec_repo(q))
        return 0;
    if (op->caller->host_paths && op->client && op->client->connection >= 0)
        return 0;
    return err_set(e, ERR_DENIED,
                   "inputs.repo: names a directory of the daemon's machine, which only users and "
                   "administrators on its unix socket may name; copy files with the API instead");
}

static bool is_inherited(const struct create_op *op)
{
    return op->recreated_from || op->fork;
}

/* Refuses an input that would have no effect. */
static int check_inputs(const struct create_op *op, const struct profile *p,
                        const struct create_request *q, struct err *e)
{
    for (size_t i = 0; !is_inherited(op) && i < q->inputs.n; i++)
        if (strcmp(q->inputs.p[i].key, SPEC_REPO) != 0)
            return err_set(e, ERR_INVALID,
                           "inputs.%.60s: unknown input; the only one is " SPEC_REPO
                           ", the directory of the workspace",
                           q->inputs.p[i].key);
    if (!spec_repo(q) || q->workspace.access != ASK_ACCESS_NONE || is_inherited(op))
        return 0;
    if (p->workspace.access + 1 == (int)ASK_ACCESS_NONE)
        return err_set(e, ERR_INVALID,
                       "inputs.repo: %s has no workspace, so the directory would be ignored; use a "
                       "profile with workspace.access ro or rw, such as profile.agent-dev",
                       p->id);
    return err_set(e, ERR_INVALID,
                   "inputs.repo: the directory would be ignored, since the request asks for no "
                   "access to the workspace (%s none)",
                   op->request->workspace.access == ASK_ACCESS_NONE ? "workspace.access"
                                                                    : "capabilities.filesystem");
}

/* Labels that only the daemon sets: a request may name the caller's own. */
static int check_reserved(const struct create_op *op, const struct create_request *q, struct err *e)
{
    for (size_t i = 0; !is_inherited(op) && i < q->labels.n; i++)
        if (label_is_reserved(q->labels.p[i].key) &&
            !caller_label_fits(&op->caller->labels, &q->labels.p[i]))
            return err_set(
                e, ERR_DENIED,
                "labels.%s: is reserved: only the daemon sets it, for sandboxes of a session",
                q->labels.p[i].key);
    return 0;
}

/* Adds the token's labels. Reserved labels are not inherited from another sandbox's request. */
static int add_labels(const struct create_op *op, struct create_request *q, struct arena *a,
                      struct err *e)
{
    const struct caller *who = op->caller;
    struct json_pair *all = arena_array(a, q->labels.n + who->labels.n + 1, sizeof *all);
    size_t n = 0;

    if (!all)
        return err_set(
            e, ERR_TOO_BIG,
            "labels: %zu labels of request and token need more memory than the %zu bytes "
            "of a record",
            q->labels.n + who->labels.n, a->max);
    for (size_t i = 0; i < who->labels.n; i++)
        all[n++] = who->labels.p[i];
    for (size_t i = 0; i < q->labels.n; i++) {
        const struct json_pair *asked = &q->labels.p[i];
        const char *own = json_map_get(&who->labels, asked->key);

        if (is_inherited(op) && label_is_reserved(asked->key))
            continue;
        if (!own)
            all[n++] = *asked;
        else if (strcmp(own, asked->value) != 0)
            return err_set(e, ERR_DENIED,
                           "labels.%s: this token can only create sandboxes with the value '%s'",
                           asked->key, own);
    }
    q->labels = (struct json_map){ all, n };
    return 0;
}

static int write_create_request(const struct create_request *q, struct arena *a, struct str *ret,
                                struct err *e)
{
    struct buf text AUTO(buf_done) = BUF_INIT(REQUEST_JSON_MAX);
    struct json_writer w;
    int r;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_unbind(q, create_request_fields, create_request_field_count, &w);
    r = json_writer_finish(&w, e);
    if (r < 0)
        return r;
    ret->p = arena_dup(a, buf_str(&text));
    ret->n = text.n;
    return ret->p ? 0
                  : err_set(e, ERR_TOO_BIG,
                            "the request needs more memory than the %zu bytes of a record", a->max);
}

static void fill_times(const struct control *c, const struct profile *p,
                       const struct create_request *q, struct sandbox_record *r)
{
    r->created_ns = r->updated_ns = clock_wall();
    r->ttl_ns = q->ttl_ns;
    r->ttl_max_ns = longest_ttl(c, p);
    r->idle_ns = p->ttl.idle_reap;
}

int control_estimate(struct control *c, const struct caller *who, const struct create_request *q,
                     struct backend_quote *ret, struct err *e)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    const struct backend_ops *ops;
    struct create_request resolved = *q;
    int r = resources_find_profile(c, who, q, &p, e);

    r = r < 0 ? r : fill_from_profile(c, p, who, &resolved, e);
    if (r < 0)
        return r;
    control_backend(c, p->extension, &ops);
    return ops->estimate(p, resolved.ttl_ns, ret, e);
}

/* The egress policy of the sandbox; NULL: no network. */
static int make_policy(struct control *c, const struct profile *p, const struct caller *who,
                       const struct create_request *q, struct policy_text **ret, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(CEILING_ARENA_MAX);
    const struct policy_author author = ceiling_author(who);
    const struct backend_ops *ops = NULL;
    struct policy_bounds bounds;
    int r;

    *ret = NULL;
    if (!policy_wanted(p, q))
        return q->egress.given ? err_set(e, ERR_INVALID,
                                         "egress: cannot be set with capabilities.network false")
                               : 0;
    control_backend(c, p->extension, &ops);
    if (!(ops->can & BACKEND_CAN_EGRESS))
        return err_set(e, ERR_UNSUPPORTED, "%s does not support egress policies", p->extension);
    r = ceiling_make(c, &author, p, &a, &bounds, e);
    return r < 0 ? r : policy_text_make(p, q, &bounds, ret, e);
}

/* Whether the sandbox can be built on a stored image. */
static int check_image_usable(struct control *c, const struct profile *p,
                              const struct create_request *q, struct err *e)
{
    const struct backend_ops *ops = NULL;

    if (p->writable_system)
        return err_set(e, ERR_INVALID, "image: %s can only be used with the system of this machine",
                       p->id);
    control_backend(c, p->extension, &ops);
    if (!(ops->can & BACKEND_CAN_IMAGES))
        return err_set(e, ERR_UNSUPPORTED, "%s does not support images", p->extension);
    if (q->egress.packages)
        return err_set(e, ERR_UNSUPPORTED,
                       "egress.packages: the package configuration inside an image cannot be read; "
                       "name hosts with allow");
    return 0;
}

/* The stored image that the sandbox is built on; without layers: none, or a host directory that the
 * profile names. */
static int find_image(struct control *c, const struct profile *p, struct create_request *q,
                      struct arena *a, struct base_image *ret, struct err *e)
{
    const char *name = q->image ? q->image : p->image;
    const struct image *im;
    int r;

    *ret = (struct base_image){ 0 };
    if (!name || (!q->image && name[0] == '/'))
        return 0;
    r = check_image_usable(c, p, q, e);
    r = r < 0 ? r : images_find(c, str_from(name), &im, e);
    r = r < 0 ? r : base_image_of(im, a, ret, e);
    return r;
}

/* The layers that a sandbox starts with: of a snapshot, or given by the creator. layers NULL:
 * none. */
struct create_origin {
    const struct json_strs *layers;
    struct base_image base;
    const struct snapshot_record *snapshot; /* NULL: none */
};

/* The profile defaults to the snapshot's, and so do settings with it; another one must be built on
 * the same image. */
static int find_origin(struct control *c, const struct create_op *op, struct create_request *q,
                       struct arena *a, struct create_origin *ret, struct err *e)
{
    const struct snapshot *s;

    *ret = (struct create_origin){ .layers = op->layers };
    if (op->layers)
        ret->base = *op->base;
    if (op->layers || !q->snapshot)
        return 0;
    s = snapshot_find(c, op->caller, str_from(q->snapshot));
    if (!s)
        return err_set(e, ERR_NOT_FOUND, "snapshot: there is no '%.80s'", q->snapshot);
    q->snapshot = s->record.id;
    *ret = (struct create_origin){ &s->layers, s->base, &s->record };
    if (!q->profile)
        q->profile = s->record.profile;
    if (strcmp(q->profile, s->record.profile) != 0)
        return 0;
    return err_wrap(e, request_settings_inherit(&q->settings, s->record.settings, a, e),
                    "snapshot: %s", s->record.id);
}

static const char *show_snapshot_image(const struct snapshot_record *s)
{
    return s->image.n ? s->image.p : "the system of this machine";
}

/* A profile without an image can be used on any stored image. */
static bool has_same_image(const struct profile *p, const struct create_origin *o)
{
    const struct snapshot_record *s = o->snapshot;

    if (str_eq(s->image, str_from(p->image ? p->image : "")))
        return true;
    return o->base.layers.n && (!p->image || strcmp(p->id, s->profile) == 0);
}

/* The layers of a snapshot need the image that they were written on. */
static int check_origin(struct control *c, const struct profile *p, const struct create_request *q,
                        const struct create_origin *o, struct err *e)
{
    const struct snapshot_record *s = o->snapshot;
    size_t high = o->layers->n + o->base.layers.n;
    const struct backend_ops *ops;

    if (!control_backend(c, p->extension, &ops) || !(ops->can & BACKEND_CAN_SNAPSHOT))
        return err_set(e, ERR_UNSUPPORTED, "%s does not support snapshots", p->extension);
    if (high > LAYERS_STACK_MAX)
        return err_set(e, ERR_TOO_BIG,
                       "the sandbox would have %zu layers, more than the maximum of %d", high,
                       LAYERS_STACK_MAX);
    if (s && q->image && !str_eq(s->image, str_from(q->image)))
        return err_set(e, ERR_INVALID,
                       "image: the snapshot was taken on %.150s; leave out the image",
                       show_snapshot_image(s));
    if (s && !has_same_image(p, o))
        return err_set(e, ERR_CONFLICT, "snapshot: was taken on %.100s, but %s uses another image",
                       show_snapshot_image(s), p->id);
    return o->base.layers.n ? check_image_usable(c, p, q, e) : 0;
}

/* Whether the policy takes loopback ports for the host: these are fixed when a box is built. */
static bool takes_loopback(const struct policy_text *policy)
{
    const struct listeners_taken taken = policy_taken(policy);

    return taken.v4[0] || taken.v6[0];
}

/* A prepared box has an id already, and no files. */
static int choose_sandbox_id(struct create_op *op, struct profile *p,
                             const struct create_request *q, bool fresh,
                             struct backend_box **ret_box, char ret[static ID_MAX], struct err *e)
{
    struct account account = account_of(op->control_, op->caller->owner, op->caller->family);

    op->assigned_ = false;
    *ret_box = fresh && !op->unpooled_ ? pool_take(op->control_, account.name, p, q, &op->assigned_)
                                       : NULL;
    if (!*ret_box)
        return id_make("sbx_", ret, e);
    snprintf(ret, ID_MAX, "%s", (*ret_box)->id);
    return 0;
}

/* A request after all checks, with everything that it needs. */
struct resolved_create {
    struct profile *profile; /* referenced */
    struct create_request request;
    struct create_origin from;
    struct policy_text *policy; /* referenced; NULL: no network */
    struct str text;            /* of the request, on the arena */
};

static void resolved_done(struct resolved_create *x)
{
    profile_unref(take_ptr(x->profile));
    policy_text_unref(take_ptr(x->policy));
}

static int resolve_request(struct control *c, const struct create_op *op, struct arena *a,
                           struct resolved_create *x, struct err *e)
{
    struct create_request *q = &x->request;
    int r;

    *x = (struct resolved_create){ .request = *op->request };
    r = find_origin(c, op, q, a, &x->from, e);
    r = r < 0 ? r : resources_find_profile(c, op->caller, q, &x->profile, e);
    if (r >= 0)
        r = x->from.layers ? check_origin(c, x->profile, q, &x->from, e)
                           : find_image(c, x->profile, q, a, &x->from.base, e);
    /* Records the image itself: the name may point to another one later. */
    if (x->from.base.ref)
        q->image = x->from.base.ref;
    r = r < 0 ? r : fill_from_profile(c, x->profile, op->caller, q, e);
    r = r < 0 ? r : check_inputs(op, x->profile, q, e);
    r = r < 0 ? r : workspace_check(c, op->caller, q, e);
    r = r < 0 ? r : check_host_paths(op, q, e);
    r = r < 0 ? r : mounts_check(c, op->caller, q, op->client, e);
    if (r >= 0 && q->name)
        r = names_check_free(c, op->caller, q->name, op->instead_of, e);
    r = r < 0 ? r : check_reserved(op, q, e);
    r = r < 0 ? r : add_labels(op, q, a, e);
    r = r < 0 ? r : write_create_request(q, a, &x->text, e);
    r = r < 0 ? r : make_policy(c, x->profile, op->caller, q, &x->policy, e);
    /* The sandbox of a gated caller has no network unless the tool policy was asked about it; this
     * holds for every interface. */
    if (r >= 0 && op->caller->gated && !op->caller->network_asked && policy_lets_out(x->policy))
        r = err_set(
            e, ERR_DENIED,
            "the sandbox would have a network, but the tool policy was not asked about one");
    return r;
}

/* The sandbox for a request, in memory only. */
static int prepare_sandbox(struct control *c, struct create_op *op, struct sandbox **ret,
                           struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(SANDBOX_ARENA_MAX);
    AUTO(resolved_done) struct resolved_create x = { 0 };
    struct sandbox_record record = { .state = SANDBOX_REQUESTED, .host = "local" };
    struct backend_box *box = NULL;
    int r = resolve_request(c, op, &a, &x, e);
    const struct profile *p = x.profile;

    if (r >= 0)
        r = choose_sandbox_id(op, x.profile, &x.request,
                              !x.from.layers && !takes_loopback(x.policy), &box, record.id, e);
    if (r < 0)
        return r;
    snprintf(record.owner, sizeof record.owner, "%s", op->caller->owner);
    if (op->caller->by_token)
        snprintf(record.maker, sizeof record.maker, "%s", op->caller->actor.id);
    snprintf(record.family, sizeof record.family, "%s", op->caller->family);
    snprintf(record.name, sizeof record.name, "%s", x.request.name ? x.request.name : "");
    snprintf(record.profile, sizeof record.profile, "%s", p->id);
    snprintf(record.extension, sizeof record.extension, "%s", p->extension);
    record.profile_version = p->version;
    record.labels = x.request.labels;
    record.request = x.text;
    record.detail = STR("{}");
    fill_times(c, x.profile, &x.request, &record);
    r = sandbox_new(c, &record, ret, e);
    if (r >= 0 && (r = sandbox_take_base(*ret, &x.from.base, e)) < 0)
        sandbox_unref(take_ptr(*ret));
    if (r < 0) {
        pool_destroy_box(c, box);
        return r;
    }
    if (op->recreated_from)
        (*ret)->detail.recreated_from = arena_dup(&(*ret)->arena, str_from(op->recreated_from));
    (*ret)->detail.one_shot = op->one_shot;
    workspace_take_client(*ret, op->client);
    if (x.from.layers)
        sandbox_take_layers(*ret, x.from.layers, op->layers ? NULL : x.request.snapshot);
    if (x.from.layers || x.from.base.layers.n)
        sandbox_write_detail(*ret, &(*ret)->record);
    sandbox_take_policy(*ret, x.policy, 1, op->approved_for);
    sandbox_take_box(*ret, box);
    (*ret)->profile = take_ptr(x.profile);
    control_backend(c, record.extension, &(*ret)->ops);
    return 0;
}

int control_plan(struct control *c, const struct create_op *op, struct create_plan *ret,
                 struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(SANDBOX_ARENA_MAX);
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct create_request q = *op->request;
    struct policy_text *policy = NULL;
    struct create_origin from;
    int r = find_origin(c, op, &q, &a, &from, e);

    r = r < 0 ? r : resources_find_profile(c, op->caller, &q, &p, e);
    r = r < 0 ? r : fill_from_profile(c, p, op->caller, &q, e);
    r = r < 0 ? r : check_reserved(op, &q, e);
    if (r >= 0 && q.name)
        r = names_check_free(c, op->caller, q.name, op->instead_of, e);
    r = r < 0 ? r : make_policy(c, p, op->caller, &q, &policy, e);
    if (r < 0)
        return r;
    *ret = (struct create_plan){
        .policy = policy,
        .ttl_ns = q.ttl_ns,
        .memory_mb = (int64_t)(spec_memory(p, &q) >> 20),
        .cpu_milli = (int64_t)profile_cpu_milli(p),
        .access = spec_repo(&q) ? q.workspace.access : ASK_ACCESS_NONE,
    };
    if (request_mounts_access(&q.mounts) > ret->access)
        ret->access = request_mounts_access(&q.mounts);
    if (q.capabilities.cpu_quota != 0 && q.capabilities.cpu_quota * 1000 < (double)ret->cpu_milli)
        ret->cpu_milli = (int64_t)(q.capabilities.cpu_quota * 1000);
    return 0;
}

void create_plan_done(struct create_plan *p)
{
    policy_text_unref(take_ptr(p->policy));
}

/* The answer is a copy: the sandbox may be freed before it is read. */
static struct sandbox_record *copy_record(const struct sandbox_record *from, struct arena *a)
{
    struct sandbox_record *r = arena_alloc(a, sizeof *r);

    if (!r)
        return NULL;
    *r = *from;
    r->request.p = arena_dup(a, from->request);
    r->detail.p = arena_dup(a, from->detail);
    return r->request.p && r->detail.p && json_map_copy(&r->labels, a) ? r : NULL;
}

static void finish_create(struct create_op *op, int r, const struct err *e)
{
    struct sandbox *s = take_ptr(op->sandbox_);

    link_leave(&op->link_);
    if (s && s->stored) {
        op->record = copy_record(&s->record, &op->arena);
        op->expires_ns = sandbox_view(s).expires_ns;
        op->deadline_ns = sandbox_view(s).deadline_ns;
    }
    op->done(op, r, e);
    if (s)
        sandbox_unref(s);
}

/* At most one creator does not wait: the one whose request created the sandbox. */
void sandbox_notify_granted(struct sandbox *s)
{
    LIST_EACH (struct create_op, op, &s->creators, link_) {
        if (op->no_wait) {
            finish_create(op, 0, NULL);
            return;
        }
    }
}

void sandbox_notify_creators(struct sandbox *s, int r, const struct err *e)
{
    for (struct link *m; (m = list_take(&s->creators));)
        finish_create(container_of(m, struct create_op, link_), r, e);
}

static void report_create_step(struct create_op *op)
{
    const struct sandbox *s = op->sandbox_;

    if (op->at && s->step)
        op->at(op, s->step, s->copied);
}

void sandbox_report_step(struct sandbox *s, const char *step, uint64_t bytes)
{
    s->step = step;
    s->copied = bytes;
    for (struct link *m = list_first(&s->creators); m; m = list_after(&s->creators, m))
        report_create_step(container_of(m, struct create_op, link_));
}

/* Answers at once if the sandbox is past provisioning, else waits for that. A client that does not
 * wait closes its connection after the answer, but that connection identifies it to the supervisor
 * for the grant. */
static void join_creation(struct create_op *op, struct sandbox *s)
{
    if (op->sandbox_ != s) {
        sandbox_unref(op->sandbox_);
        op->sandbox_ = sandbox_ref(s);
    }
    if (s->record.state <= SANDBOX_PROVISIONING &&
        (!op->no_wait || (s->awaits_grant && !op->repeated))) {
        list_append(&s->creators, &op->link_);
        report_create_step(op);
        sandbox_retry_now(s);
    } else {
        finish_create(op, 0, NULL);
    }
}

static void find_idempotency_key(struct create_op *op, bool shared);

/* Callers of the unix socket share the keys of their user. */
static bool has_own_keys(const struct caller *who)
{
    return who->by_token && who->actor.id[0];
}

static void store_create_extras(struct change *c, struct store_txn *t)
{
    const struct create_op *op = c->user;
    struct idempotency_record key = { .created_ns = clock_wall() };

    sandbox_store_policy(c->sandbox, t);
    if (!op || !op->idempotency_key.n)
        return;
    snprintf(key.owner, sizeof key.owner, "%s", op->caller->owner);
    snprintf(key.key, sizeof key.key, "%s", op->key_);
    snprintf(key.sandbox, sizeof key.sandbox, "%s", c->sandbox->record.id);
    memcpy(key.body, op->digest_, sizeof key.body);
    store_put_idempotency(t, &key);
}

/* The record is on disk: the sandbox exists from now on. */
static void on_requested(struct change *ch, int r, const struct err *e)
{
    struct create_op *op = ch->user;
    struct sandbox *s = ch->sandbox;

    if (r < 0) {
        pool_destroy_box(s->control, take_ptr(s->box));
        sandbox_unref(s); /* the map's reference */
        if (r == -(int)ERR_CONFLICT && op->idempotency_key.n) {
            sandbox_unref(take_ptr(op->sandbox_));
            find_idempotency_key(op, false); /* a concurrent request used the same key first */
        } else {
            finish_create(op, r, e);
        }
        return;
    }
    fault_point("create.recorded");
    if (s->record.state == SANDBOX_READY)
        ttl_start(s);
    else if (s->box && !s->destroying)
        sandbox_open_egress_link(s);
    else
        sandbox_provision(s);
    join_creation(op, s);
}

static void edit_created(struct change *c, struct sandbox_record *next)
{
    if (next->state == SANDBOX_READY)
        sandbox_enter_ready(c->sandbox, next);
}

/* replaced: a sandbox that is about to go; NULL: none. */
static int check_owner_sandboxes(const struct control *c, const struct account *a,
                                 const struct sandbox *replaced, struct err *e)
{
    size_t own = owner_count(&c->owners, a->name), related = 0;
    uint64_t most = config_share(c->config->limits.sandboxes_per_owner,
                                 c->config->limits.sandboxes_max),
             part = quota_token_part(most);

    if (a->part.n)
        related = owner_count(&c->families, a->part.p);
    if (replaced && replaced->record.state != SANDBOX_FAILED) {
        struct account other = sandbox_account(replaced);

        own -= own > 0 && account_is(&other, a);
        related -= related > 0 && str_eq(other.part, a->part);
    }
    if (own >= most)
        return err_set(e, ERR_QUOTA,
                       "%s has %zu sandbox%s, the maximum of one owner "
                       "(limits.sandboxes_per_owner); destroy some",
                       a->name, own, own == 1 ? "" : "es");
    if (a->part.n && related >= part)
        return err_set(e, ERR_QUOTA,
                       "this token's family has %zu of %llu sandboxes (a token's part: seven "
                       "eighths of limits.sandboxes_per_owner); destroy some",
                       related, (unsigned long long)part);
    return 0;
}

static int check_sandbox_room(const struct control *c, const struct caller *who,
                              const struct sandbox *replaced, struct err *e)
{
    struct account a = account_of(c, who->owner, who->family);
    size_t all = c->sandboxes.n - c->failed, most = c->config->limits.sandboxes_max;
    int r = a.exempt ? 0 : check_owner_sandboxes(c, &a, replaced, e);

    if (r < 0)
        return r;
    if (!a.exempt)
        most -= most / QUOTA_RESERVE_PART;
    if (replaced && replaced->record.state != SANDBOX_FAILED)
        all -= all > 0;
    if (all >= most)
        return err_set(e, ERR_BUSY,
                       "the daemon has %zu sandbox%s, the maximum "
                       "(limits.sandboxes_max%s)",
                       all, all == 1 ? "" : "es",
                       a.exempt ? "" : ", of which a sixteenth is for administrators");
    if (event_share_check(c, who->owner, &who->actor, e) < 0)
        return -(int)ERR_QUOTA;
    return store_check_room(c->store, e);
}

static void on_grant_tried(struct control_request *q, int r, const struct err *e, int *fd)
{
    struct create_op *op = container_of(q, struct create_op, granting_);
    struct err why = { 0 };

    op->control_->changes--;
    if (r < 0)
        why = *e;
    if (r == -(int)ERR_TIMEOUT)
        (void)err_wrap(&why, r, "%.120s", spec_granted_path(op->request));
    finish_create(op, r, &why);
}

/* Makes every check of a create, without creating anything. */
static void try_create(struct create_op *op)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(SANDBOX_ARENA_MAX);
    AUTO(resolved_done) struct resolved_create x = { 0 };
    struct control *c = op->control_;
    struct err e;
    int r = check_sandbox_room(c, op->caller, op->instead_of, &e);

    op->granting_.done = on_grant_tried;
    r = r < 0 ? r : resolve_request(c, op, &a, &x, &e);
    r = r < 0 ? r : workspace_try_grant(c, op->caller, &x.request, op->client, &op->granting_, &e);
    /* Closing waits for it. */
    if (r > 0)
        c->changes++;
    else
        finish_create(op, r, &e);
}

static void submit_create(struct create_op *op)
{
    struct sandbox *s = op->sandbox_;
    struct change *ch = change_new(s, &op->caller->actor, "create");

    fault_point("create.record");
    change_to(ch, SANDBOX_REQUESTED);
    change_to(ch, SANDBOX_PROVISIONING);
    if (s->box && !s->policy) /* else it becomes ready when its policy is in force */
        change_to(ch, SANDBOX_READY);
    if (s->record.name[0]) {
        snprintf(ch->text, sizeof ch->text, "{\"name\":\"%s\"}", s->record.name);
        ch->detail = str_from(ch->text);
    }
    ch->edit = edit_created;
    ch->also = store_create_extras;
    ch->done = on_requested;
    ch->user = op;
    change_submit(ch);
}

static void begin_create(struct create_op *op);

/* After a failure nothing was recorded or answered: retries the create without the pool. If that
 * fails, too, the record names the step. */
void sandbox_on_assigned(struct backend_box *b, int r, const struct err *e)
{
    struct sandbox *s = b->owner;
    struct create_op *op = take_ptr(s->assigning);

    s->control->changes--;
    if (r >= 0) {
        pool_note_owner(s->control, s->profile, &s->request, sandbox_account(s).name);
        submit_create(op);
        return;
    }
    LOG(WARN, "sandbox.not_assigned", LOG_S("sandbox", b->id), LOG_S("error", e->msg));
    op->sandbox_ = NULL;
    pool_destroy_box(s->control, take_ptr(s->box));
    sandbox_unref(s);
    sandbox_unref(s); /* the map's reference */
    op->unpooled_ = true;
    if (r == -(int)ERR_FULL) /* the owner has used up its share of the disk */
        finish_create(op, r, e);
    else
        begin_create(op);
}

/* A record must not name a prepared box that can still be lost: the create is recorded when the box
 * is in the control groups of its owner. After a crash before that, there is no record, and the
 * orphan sweep removes the box; after a later crash, the box is adopted. */
static void begin_create(struct create_op *op)
{
    struct control *c = op->control_;
    struct backend_owner share;
    struct sandbox *s = NULL;
    struct err e;
    int r;

    if (op->instead_of) {
        try_create(op);
        return;
    }
    r = check_sandbox_room(c, op->caller, NULL, &e);
    r = r < 0 ? r : prepare_sandbox(c, op, &s, &e);
    if (r < 0) {
        finish_create(op, r, &e);
        return;
    }
    op->sandbox_ = sandbox_ref(s);
    if (!s->box || op->assigned_) {
        submit_create(op);
        return;
    }
    s->assigning = op;
    c->changes++; /* closing waits for it */
    owner_share_of(c, sandbox_account(s).name, &share);
    s->ops->assign(s->box, &share);
}

/* A key belongs to one caller. A row from before tokens had their own keys belongs to the token
 * that made its sandbox. */
static bool is_own_key(const struct create_op *op, const struct find_op *f)
{
    const struct sandbox_record *r = f->sandbox ? &f->sandbox->record : f->record;

    return r && (!op->shared_key_ || strcmp(r->maker, op->caller->actor.id) == 0);
}

static void refuse_key(struct create_op *op, const char *sandbox)
{
    struct err e;
    int r = err_set(&e, ERR_CONFLICT, "Idempotency-Key: was used with another request%s%s",
                    sandbox && !op->caller->peer ? ", for " : "",
                    sandbox && !op->caller->peer ? sandbox : "");

    finish_create(op, r, &e);
}

static void on_first_create_found(struct find_op *f, int r, const struct err *e)
{
    struct create_op *op = container_of(f, struct create_op, find_);
    bool hidden = r == -(int)ERR_NOT_FOUND || (r >= 0 && !is_own_key(op, f));

    if (hidden && op->shared_key_) {
        begin_create(op);
    } else if (hidden) { /* a session sees its own sandboxes only */
        refuse_key(op, NULL);
    } else if (r < 0) {
        finish_create(op, r, e);
    } else if (op->other_body_) {
        refuse_key(op, op->first_);
    } else if (f->sandbox) {
        op->repeated = true;
        join_creation(op, f->sandbox);
    } else {
        op->repeated = true;
        op->record = copy_record(f->record, &op->arena);
        finish_create(op, r, e);
    }
    find_op_done(f);
}

static void on_key_answered(struct store_query *q, int r, const struct err *e)
{
    struct create_op *op = container_of(q, struct create_op, query_);
    bool found = r >= 0 && q->n;

    if (found) {
        op->other_body_ = memcmp(q->idempotency[0].body, op->digest_, sizeof op->digest_) != 0;
        memcpy(op->first_, q->idempotency[0].sandbox, sizeof op->first_);
        op->find_ = (struct find_op){ .caller = op->caller,
                                      .id = str_from(op->first_),
                                      .done = on_first_create_found };
    }
    arena_done(&q->arena);
    if (r < 0)
        finish_create(op, r, e);
    else if (found)
        control_find(op->control_, &op->find_);
    else if (op->shared_key_ || !has_own_keys(op->caller))
        begin_create(op);
    else
        find_idempotency_key(op, true);
}

static void find_idempotency_key(struct create_op *op, bool shared)
{
    struct err e;
    int r;

    op->shared_key_ = shared;
    op->query_ = (struct store_query){ .kind = STORE_IDEMPOTENCY,
                                       .text = shared ? op->idempotency_key : str_from(op->key_),
                                       .owner = str_from(op->caller->owner),
                                       .limit = 1 };
    arena_init(&op->query_.arena, CONTROL_ARENA_MAX);
    r = store_ask(op->control_->store, &op->query_, on_key_answered, &e);
    if (r < 0)
        finish_create(op, r, &e);
}

/* A token's key is stored as its id and a digest, on lines of their own: no field of a request has
 * a line break, so no other caller can have the same key. */
static void on_create_later(struct loop_later *l)
{
    struct create_op *op = container_of(l, struct create_op, later_);
    AUTO(buf_done) struct buf text = BUF_INIT(sizeof op->key_ - 1);
    unsigned char digest[32];
    struct err e;
    int r;

    if (!op->idempotency_key.n) {
        begin_create(op);
        return;
    }
    crypto_sha256(op->body, op->digest_);
    if (has_own_keys(op->caller)) {
        crypto_sha256(op->idempotency_key, digest);
        r = buf_addf(&text, "%s\n", op->caller->actor.id);
        crypto_hex((struct str){ (const char *)digest, sizeof digest }, &text);
    } else {
        r = buf_add(&text, op->idempotency_key);
    }
    if (r >= 0 && str_copy(buf_str(&text), op->key_, sizeof op->key_))
        find_idempotency_key(op, false);
    else
        finish_create(op, err_set(&e, ERR_INVALID, "Idempotency-Key: longer than 127 bytes"), &e);
}

void control_create(struct control *c, struct create_op *op)
{
    op->control_ = c;
    op->sandbox_ = NULL;
    op->record = NULL;
    op->repeated = op->unpooled_ = false;
    arena_init(&op->arena, CONTROL_ARENA_MAX);
    loop_later(c->loop, &op->later_, on_create_later, NULL);
}
