/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/profile/profile.h"

#include "base/clock.h"
#include "domain/policy/egress_ceiling.h"
#include "domain/profile/words.h"
#include "lib/yaml/file.h"
#include "lib/yaml/reader.h"

#define MINUTE (60 * NS_PER_S)
#define DAY    (24 * 60 * MINUTE)

static const struct json_limits limits = {
    .bytes = PROFILE_BYTES_MAX,
    .depth = PROFILE_DEPTH_MAX,
    .places = true,
};

/* Each list is in the order of its enum. */
const char *const isolation_names[] = {
    "process", "container", "gvisor", "microvm", "policy", NULL
};
static const char *const systems[] = { "auto", "shared", "apart", NULL };
static const char *const side_channel_modes[] = { "auto", "open", "guarded", NULL };
static const char *const networks[] = { "deny", NULL };
static const char *const workers[] = { "auto", "shared", "owner", "own", NULL };
static const char *const workspace_modes[] = { "mirror", "remote-canonical", NULL };
static const char *const workspace_accesses[] = { "none", "ro", "rw", NULL };
static const char *const scopes[] = { "session", "agent", "shared", NULL };
static const char *const reachabilities[] = { "exec", "ssh", "http", NULL };
static const char *const strategies[] = { "prefer-self-hosted", "lowest-cost", "lowest-latency",
                                          "explicit", NULL };
static const char *const calls[] = { "standard", "strict", NULL };
static const char *const costs[] = { "self-hosted", "saas-metered", NULL };
static const char *const latencies[] = { "instant", "seconds", "minutes", NULL };

/* Objects are members of struct profile, so their fields' offsets count from the member. */
#define IN(object, member) JSON_AT(__typeof__(((struct profile *)NULL)->object), member)
#define AT(member)         JSON_AT(struct profile, member)

static const struct json_field isolation_fields[] = {
    { "level", JSON_KIND_ENUM, IN(isolation, level), .names = isolation_names, .preset = "process",
      .doc = "Isolation of the workload from the machine." },
    { "system", JSON_KIND_ENUM, IN(isolation, system), .names = systems, .preset = "auto",
      .doc = "The host's files inside are the host's own inodes (`shared`), or shown through an "
             "overlay (`apart`), so that watches, locks and leases stay inside. `auto`: apart; a "
             "daemon that only its own user can reach shares them where no overlay can be made." },
    { "side_channels", JSON_KIND_ENUM, IN(isolation, side_channels), .names = side_channel_modes,
      .preset = "auto",
      .doc = "`guarded` gives the sandbox a clock of its own, disables speculation across "
             "processes and keeps other sandboxes off the processor cores in use, as far as "
             "`sandboxer doctor` reports that this machine can. It costs throughput. `auto`: "
             "guarded where others than the daemon's own user can reach it." },
};

static const struct json_field network_fields[] = {
    { "default", JSON_KIND_ENUM, IN(network, otherwise), .names = networks, .preset = "deny",
      .doc = "Treatment of destinations that no egress entry allows." },
    { "worker", JSON_KIND_ENUM, IN(network, worker), .names = workers, .preset = "auto",
      .doc =
          "Which sandboxes share an egress worker: all, those of one owner, or none. If the daemon "
          "serves tenants, `auto` and `shared` mean `owner`; otherwise `auto` means `shared`." },
    { "most", JSON_KIND_ENUM, IN(network, most), .names = egress_reach_names, .preset = "local",
      .doc = "Ceiling of the destinations that callers may allow for sandboxes of this profile; "
             "`local` means no ceiling." },
    { "egress", JSON_KIND_OBJECTS, IN(network, egress), .max = PROFILE_EGRESS_MAX,
      JSON_FIELDS(egress_endpoint_fields), .item_size = sizeof(struct egress_endpoint),
      .doc = "Allowed destinations: endpoints as in docs/egress-policy.md." },
};

static const struct json_field workspace_fields[] = {
    { "mode", JSON_KIND_ENUM, IN(workspace, mode), .names = workspace_modes, .preset = "mirror",
      .doc = "Which copy of the workspace is authoritative: the caller's or the sandbox's." },
    { "access", JSON_KIND_ENUM, IN(workspace, access), .names = workspace_accesses,
      .preset = "none", .doc = "Access of the workload to the workspace." },
};

static const struct json_field ttl_fields[] = {
    { "default", JSON_KIND_DURATION, IN(ttl, usual), .min = NS_PER_S, .max = 30 * DAY,
      .preset = "1h", .doc = "Default time to live of a sandbox." },
    { "max", JSON_KIND_DURATION, IN(ttl, max), .min = NS_PER_S, .max = 30 * DAY, .preset = "24h",
      .doc = "Maximum time to live, also after extensions." },
    { "idle_reap", JSON_KIND_DURATION, IN(ttl, idle_reap), .min = 0, .max = 30 * DAY,
      .preset = "30m", .doc = "Idle time (see above) after which it is reaped; 0 means never." },
};

static const struct json_field resource_fields[] = {
    { "cpu", JSON_KIND_DOUBLE, IN(resources, cpu), .min = 0, .max = 1024, .preset = "1",
      .doc = "Number of processors, also fractions such as 0.5." },
    { "memory_mb", JSON_KIND_UINT, IN(resources, memory_mb), .min = 8, .max = 16 << 20,
      .preset = "512",
      .doc = "Memory of processes in MiB. On the storage driver `memory` the control group gets "
             "this and `disk_mb`." },
    { "pids", JSON_KIND_UINT, IN(resources, pids), .min = 4, .max = 1 << 22, .preset = "256",
      .doc = "Processes and threads." },
    { "disk_mb", JSON_KIND_UINT, IN(resources, disk_mb), .min = 1, .max = 64 << 20,
      .preset = "1024", .doc = "Disk space of the workload in MiB, in addition to `memory_mb`." },
    { "terminals", JSON_KIND_UINT, IN(resources, terminals), .min = 1, .max = 256, .preset = "16",
      .doc = "Concurrently open terminals." },
};

static const struct json_field kernel_fields[] = {
    { "calls", JSON_KIND_ENUM, IN(kernel, calls), .names = calls, .preset = "standard",
      .doc = "Table of allowed system calls." },
    { "allow", JSON_KIND_STRS, IN(kernel, allow), .max = 3,
      .doc = "Additional kernel features: `nested-seccomp`, `socket-filters`, `page-cache`." },
};

static const struct json_field setup_fields[] = {
    { "instructions", JSON_KIND_STR, IN(setup, instructions), .max = 16 << 10,
      .doc = "Instructions for users of the sandbox." },
    { "secret_refs", JSON_KIND_STRS, IN(setup, secret_refs), .max = 64,
      .doc = "Names of the secrets it needs; never their values." },
};

static const struct json_field placement_fields[] = {
    { "prefer", JSON_KIND_STR, IN(placement, prefer), .max = 253,
      .doc = "Host (`local` is this machine) or backend to try first." },
    { "fallback", JSON_KIND_STRS, IN(placement, fallback), .max = 16,
      .doc = "Hosts or backends to try after it, in this order." },
};

static const struct json_field route_fields[] = {
    { "strategy", JSON_KIND_ENUM, IN(route, strategy), .names = strategies,
      .preset = "prefer-self-hosted", .doc = "How one of several backends is chosen." },
    { "max_cost_per_hour", JSON_KIND_UINT, IN(route, max_cost_per_hour), .min = 0, .max = INT64_MAX,
      .doc = "Maximum cost, in micro-credits; 0 means no limit." },
    { "require_isolation", JSON_KIND_ENUM, IN(route, require_isolation), .names = isolation_names,
      .seen = offsetof(__typeof__(((struct profile *)NULL)->route), has_require_isolation),
      .doc = "Isolation that another backend must provide, too." },
    { "region", JSON_KIND_STR, IN(route, region), .max = 63, .doc = "Region that it must run in." },
    { "gpu", JSON_KIND_STR, IN(route, gpu), .max = 63, .doc = "The GPU it needs, such as `a10g`." },
    { "attestation", JSON_KIND_BOOL, IN(route, attestation), .preset = "false",
      .doc = "Whether the backend must attest what it runs." },
};

static const struct json_field pool_fields[] = {
    { "min", JSON_KIND_UINT, IN(pool, min), .min = 0, .max = 1024, .preset = "0",
      .doc = "Sandboxes to keep prepared." },
    { "max", JSON_KIND_UINT, IN(pool, max), .min = 0, .max = 1024, .preset = "0",
      .doc = "Maximum number of sandboxes to prepare under load." },
};

static const struct json_field metadata_fields[] = {
    { "cost_class", JSON_KIND_ENUM, IN(metadata, cost_class), .names = costs,
      .preset = "self-hosted", .doc = "Whether using the backend is billed." },
    { "latency_class", JSON_KIND_ENUM, IN(metadata, latency_class), .names = latencies,
      .preset = "instant", .doc = "Typical duration of a create." },
};

const struct json_field profile_fields[] = {
    { "id", JSON_KIND_STR, AT(id), .max = 128, .required = true,
      .doc = "`profile.NAME`; NAME has lower-case letters, digits and `-`." },
    { "version", JSON_KIND_UINT, AT(version), .min = 1, .max = PROFILE_VERSION_MAX,
      .required = true, .doc = "Whole number; the highest version of an id is its default." },
    { "description", JSON_KIND_STR, AT(description), .max = 1024,
      .doc = "Purpose of the profile." },
    { "extension", JSON_KIND_STR, AT(extension), .max = 128, .preset = "ext.local",
      .doc = "Backend that runs it: `ext.NAME`." },
    { "isolation", JSON_KIND_OBJECT, AT(isolation), JSON_FIELDS(isolation_fields) },
    { "network", JSON_KIND_OBJECT, AT(network), JSON_FIELDS(network_fields) },
    { "workspace", JSON_KIND_OBJECT, AT(workspace), JSON_FIELDS(workspace_fields) },
    { "scope_default", JSON_KIND_ENUM, AT(scope_default), .names = scopes, .preset = "session",
      .doc = "Default scope of sharing." },
    { "ttl", JSON_KIND_OBJECT, AT(ttl), JSON_FIELDS(ttl_fields) },
    { "resources", JSON_KIND_OBJECT, AT(resources), JSON_FIELDS(resource_fields) },
    { "kernel", JSON_KIND_OBJECT, AT(kernel), JSON_FIELDS(kernel_fields) },
    { "image", JSON_KIND_STR, AT(image), .max = 512,
      .doc = "Root file system: a stored image, or a directory of this machine; default: the "
             "host's system directories, read-only." },
    { "writable_system", JSON_KIND_BOOL, AT(writable_system), .preset = "false",
      .doc = "Without an image: whether system directories are writable, in the sandbox's own "
             "layer." },
    { "workdir", JSON_KIND_STR, AT(workdir), .max = 255,
      .doc = "Working directory of programs, such as /workspace; created if it is missing. "
             "Default: the user's home." },
    { "user", JSON_KIND_STR, AT(user), .max = 32, .preset = "root",
      .doc = "User inside that programs run as: a name or a number up to 65535." },
    { "env", JSON_KIND_MAP, AT(env), .max = 128, .doc = "Environment variables of every program." },
    { "caps", JSON_KIND_STRS, AT(caps), .max = 7,
      .doc = "Capabilities inside: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETUID, SETGID, KILL." },
    { "setup", JSON_KIND_OBJECT, AT(setup), JSON_FIELDS(setup_fields) },
    { "placement", JSON_KIND_OBJECT, AT(placement), JSON_FIELDS(placement_fields) },
    { "reachability", JSON_KIND_ENUM, AT(reachability), .names = reachabilities, .preset = "exec",
      .doc = "Transport: built-in exec, ssh to a host, or a provider's HTTP API." },
    { "route", JSON_KIND_OBJECT, AT(route), JSON_FIELDS(route_fields) },
    { "record_commands", JSON_KIND_ENUM, AT(record_commands), .names = command_recording_names,
      .preset = "masked",
      .doc = "Record of the programs that callers start: with arguments of which values that look "
             "like secrets are masked (`masked`), with arguments as they are (`full`), or none "
             "(`none`)." },
    { "pool", JSON_KIND_OBJECT, AT(pool), JSON_FIELDS(pool_fields) },
    { "metadata", JSON_KIND_OBJECT, AT(metadata), JSON_FIELDS(metadata_fields) },
};
const size_t profile_field_count = COUNT_OF(profile_fields);

/* On success, takes over the arena, which has the profile and the document. */
static int bind_profile(struct arena *a, const struct json *document, struct profile **ret,
                        struct err *e)
{
    struct profile *p = arena_alloc(a, sizeof *p);
    int r;

    if (!p)
        return err_set(e, ERR_TOO_BIG, "the profile needs more memory than is allowed");
    r = json_bind(document, profile_fields, profile_field_count, p, a, e);
    if (r >= 0)
        r = profile_check_(p, document, a, NULL, e);
    if (r < 0)
        return r;
    p->arena_ = *a;
    p->refs_ = 1;
    *a = (struct arena){ 0 };
    *ret = p;
    return 0;
}

int profile_read(struct str yaml, struct profile **ret, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(PROFILE_MEMORY_MAX);
    const struct json *document;
    int r = yaml_read(yaml, limits, &a, &document, e);

    return r < 0 ? r : bind_profile(&a, document, ret, e);
}

/* --- all mistakes; of egress rules, which are checked as a whole, the first --- */

enum { WRONG_MAX = 32 }; /* more than the number of sections */

/* The sections (members of the document) that the table of fields rejected: their values are not
 * known, so checks that compare values skip them. */
struct mistakes {
    const struct json_mistakes *to;
    struct str wrong[WRONG_MAX]; /* in the document */
    size_t n;
    const struct json *document;
};

/* The section of "line 3: ttl.max: …". */
static struct str section_of(const struct err *e)
{
    struct str rest = str_from(e->msg), part, after = str_cut(rest, ':', &part);
    size_t n = 0;

    if (str_starts(part, STR("line ")))
        rest = str_trim(after);
    while (n < rest.n && !strchr(".:[", rest.p[n]))
        n++;
    return (struct str){ rest.p, n };
}

static bool is_wrong(const struct mistakes *m, struct str section)
{
    for (size_t i = 0; i < m->n; i++)
        if (str_eq(m->wrong[i], section))
            return true;
    return false;
}

static void on_bind_mistake(void *user, const struct err *e)
{
    struct mistakes *m = user;
    struct str section = section_of(e);
    const struct json *member = json_get(m->document, section);

    if (member && m->n < WRONG_MAX && !is_wrong(m, section))
        m->wrong[m->n++] = member->key;
    m->to->each(m->to->user, e);
}

static void on_check_mistake(void *user, const struct err *e)
{
    struct mistakes *m = user;

    if (!is_wrong(m, section_of(e)))
        m->to->each(m->to->user, e);
}

int profile_read_all(struct str yaml, const struct json_mistakes *all, struct profile **ret,
                     struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(PROFILE_MEMORY_MAX);
    struct mistakes m = { .to = all };
    const struct json_mistakes bound = { on_bind_mistake, &m }, checked = { on_check_mistake, &m };
    struct profile *p = arena_alloc(&a, sizeof *p);
    int first, r = p ? yaml_read(yaml, limits, &a, &m.document, e)
                     : err_set(e, ERR_TOO_BIG, "the profile needs more memory than is allowed");

    if (r < 0) {
        all->each(all->user, e);
        return r;
    }
    first = json_bind_all(m.document, profile_fields, profile_field_count, p, &a, &bound, e);
    r = m.document->type == JSON_OBJECT && (first >= 0 || first == -(int)ERR_INVALID)
            ? profile_check_(p, m.document, &a, &checked, e)
            : first;
    first = first < 0 ? first : r;
    return first < 0 ? first : profile_read(yaml, ret, e);
}

int profile_read_file(int dir, const char *file, unsigned flags, struct profile **ret,
                      struct profile_name *ret_name, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(PROFILE_MEMORY_MAX);
    const struct json *document, *id, *version;
    int r;

    *ret_name = (struct profile_name){ 0 };
    r = yaml_file_read(dir, file, flags, limits, &a, &document, e);
    if (r < 0)
        return r;
    id = json_get(document, STR("id"));
    version = json_get(document, STR("version"));
    if (id && id->type == JSON_STR && word_profile(id->s) && version && version->type == JSON_INT &&
        version->i >= 1 && version->i <= PROFILE_VERSION_MAX &&
        str_copy(id->s, ret_name->id, sizeof ret_name->id))
        ret_name->version = (uint32_t)version->i;
    return bind_profile(&a, document, ret, e);
}

struct profile *profile_ref(struct profile *p)
{
    __atomic_add_fetch(&p->refs_, 1, __ATOMIC_RELAXED);
    return p;
}

void profile_unref(struct profile *p)
{
    struct profile *base;
    struct arena a;

    if (!p || __atomic_sub_fetch(&p->refs_, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    a = p->arena_; /* p itself is on it */
    base = p->base_;
    arena_done(&a);
    profile_unref(base);
}

void profile_unrefp_(struct profile **p)
{
    profile_unref(*p);
}

int profile_available(const struct profile *p, struct json_strs backends, struct err *e)
{
    for (size_t i = 0; i < backends.n; i++)
        if (strcmp(backends.p[i], p->extension) == 0)
            return 0;
    return err_set(e, ERR_UNSUPPORTED, "backend %s is not part of this build", p->extension);
}

void profile_write(const struct profile *p, struct json_writer *w)
{
    json_unbind(p, profile_fields, profile_field_count, w);
}

uint32_t profile_cpu_milli(const struct profile *p)
{
    return (uint32_t)(p->resources.cpu * 1000 + 0.5);
}
