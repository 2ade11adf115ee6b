/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/request.h"

#include "base/id.h"
#include "lib/json/reader.h"

const char *const actor_kind_names[] = { "adm", "agt", "atm", NULL };
const char *const request_scope_names[] = { "", "session", "agent", "shared", NULL };
const char *const workspace_mode_names[] = { "", "mirror", "remote-canonical", NULL };
const char *const workspace_access_names[] = { "", "none", "ro", "rw", NULL };
const char *const request_end_names[] = { "", "destroy", "pause", NULL };
const char *const at_end_names[] = { "", "sync", "keep", NULL };
const char *const mount_access_names[] = { "", "ro", "rw", NULL };

#define AT(member) JSON_AT(struct request_mount, member)
const struct json_field mount_request_fields[MOUNT_REQUEST_FIELD_COUNT] = {
    { "source", JSON_KIND_STR, AT(source), .required = true, .min = 1, .max = REQUEST_PATH_MAX,
      .doc = "Path on the host, as the client sees it." },
    { "target", JSON_KIND_STR, AT(target), .required = true, .min = 2, .max = 255,
      .doc = "Absolute path inside." },
    { "access", JSON_KIND_ENUM, AT(access), .names = mount_access_names,
      .doc = "Read-only (the default) or writable." },
};
#undef AT

const struct json_field egress_request_fields[EGRESS_REQUEST_FIELD_COUNT] = {
    { "allow", JSON_KIND_STRS, JSON_AT(struct egress_request, allow), .max = REQUEST_ALLOW_MAX,
      .doc = "Destinations as HOST[:PORT[,PORT]]; default port: 443." },
    { "packages", JSON_KIND_BOOL, JSON_AT(struct egress_request, packages),
      .doc = "Whether to also allow the hosts that package managers inside are configured for." },
    { "policy", JSON_KIND_ANY, JSON_AT(struct egress_request, policy),
      .doc = "A policy as an object, or as YAML or JSON text." },
    { "allow_out", JSON_KIND_STRS, JSON_AT(struct egress_request, allow_out),
      .max = REQUEST_ALLOW_MAX,
      .doc = "Addresses, prefixes and names that are allowed; takes precedence over deny_out." },
    { "deny_out", JSON_KIND_STRS, JSON_AT(struct egress_request, deny_out),
      .max = REQUEST_ALLOW_MAX,
      .doc = "Addresses and prefixes that are denied. If one of the lists is given, other "
             "destinations are allowed." },
};

#define AT(member) JSON_AT(__typeof__(((struct request_settings *)NULL)->resources), member)
const struct json_field resource_request_fields[RESOURCE_REQUEST_FIELD_COUNT] = {
    { "cpu", JSON_KIND_DOUBLE, AT(cpu), .min = 0, .max = 1024, .optional = true,
      .doc = "Number of processors, also fractions such as 0.5." },
    { "memory_mb", JSON_KIND_UINT, AT(memory_mb), .min = 8, .max = 16 << 20, .optional = true,
      .doc = "Memory of processes in MiB." },
    { "pids", JSON_KIND_UINT, AT(pids), .min = 4, .max = 1 << 22, .optional = true,
      .doc = "Processes and threads." },
    { "disk_mb", JSON_KIND_UINT, AT(disk_mb), .min = 1, .max = 64 << 20, .optional = true,
      .doc = "Disk space in MiB." },
};
#undef AT

#define AT(member) JSON_AT(struct create_request, member)
#define TEXT(field, member, help)                                                                  \
    {                                                                                              \
        field, JSON_KIND_STR, AT(member), .min = 1, .max = REQUEST_TEXT_MAX, .doc = help           \
    }

static const struct json_field workspace_fields[] = {
    { "mode", JSON_KIND_ENUM, AT(workspace.mode), .names = workspace_mode_names,
      .doc = "Copied from the host and back, or only in the sandbox." },
    { "access", JSON_KIND_ENUM, AT(workspace.access), .names = workspace_access_names,
      .doc = "Access of the sandbox to the workspace." },
    { "at_end", JSON_KIND_ENUM, AT(workspace.at_end), .names = at_end_names,
      .doc =
          "Whether its end brings changes back by itself (sync, the default), or stores them as a "
          "snapshot, unless its destroy asks for a sync (keep)." },
};

static const struct json_field setup_fields[] = {
    TEXT("instructions_ref", setup.instructions_ref, "Location of the instructions."),
    { "secret_refs", JSON_KIND_STRS, AT(setup.secret_refs), .max = 32,
      .doc = "Names of secrets; never their values." },
};

const struct json_field capability_fields[CAPABILITY_FIELDS] = {
    { "network", JSON_KIND_ANY, AT(capabilities.network_asked), .types = "boolean array",
      .doc = "Network access: false, true (what the profile allows), or a list of HOST, HOST:PORT "
             "or, for a name at an address that is not public, HOST:PORT=ADDRESS." },
    { "filesystem", JSON_KIND_ENUM, AT(capabilities.filesystem), .names = workspace_access_names,
      .doc = "Access to the workspace that it needs." },
    { "duration_s", JSON_KIND_INT, AT(capabilities.duration_s), .min = 1, .max = 1800,
      .seen = offsetof(struct create_request, capabilities.duration_given),
      .doc = "Lifetime that it needs, in seconds." },
    { "memory_mb", JSON_KIND_INT, AT(capabilities.memory_mb), .min = 16, .max = 4096,
      .seen = offsetof(struct create_request, capabilities.memory_given),
      .doc = "Memory it needs, in MiB." },
    { "cpu_quota", JSON_KIND_DOUBLE, AT(capabilities.cpu_quota), .doc = "Processors, 0.1 to 4." },
};

static const struct json_field consumer_fields[] = {
    { "actor", JSON_KIND_ENUM, AT(consumer.actor), .names = actor_kind_names,
      .seen = offsetof(struct create_request, consumer.actor_given),
      .doc = "Administrator, agent or automation." },
    TEXT("harness", consumer.harness, "Program that drives the agent."),
    TEXT("session_id", consumer.session_id, "The session this is for."),
    TEXT("run_id", consumer.run_id, "The run this is for."),
    TEXT("job_id", consumer.job_id, "The job this is for."),
};

/* Tables of nested objects have offsets from the whole request, so the member is at 0. */
#define NESTED(name, table, help)                                                                  \
    {                                                                                              \
        name, JSON_KIND_OBJECT, .offset = 0, .size = sizeof(struct create_request), .doc = help,   \
                                JSON_FIELDS(table)                                                 \
    }

const struct json_field create_request_fields[] = {
    { "name", JSON_KIND_STR, AT(name), .min = 1, .max = SANDBOX_NAME_MAX - 1,
      .doc = "Name, unique among the live sandboxes of its owner; an id anywhere may be a name." },
    TEXT("profile", profile, "Profile: profile.NAME or profile.NAME@VERSION."),
    TEXT("snapshot", snapshot, "Snapshot to start from: its id or name."),
    { "image", JSON_KIND_STR, AT(image), .min = 1, .max = 1024,
      .doc = "A stored image as its root file system, instead of the profile's." },
    { "scope", JSON_KIND_ENUM, AT(scope), .names = request_scope_names,
      .doc = "Scope of sharing." },
    NESTED("workspace", workspace_fields, "Workspace: how files get in and out."),
    { "inputs", JSON_KIND_MAP, AT(inputs), .max = REQUEST_INPUTS_MAX,
      .doc = "Named inputs; repo is the host directory of the workspace." },
    { "labels", JSON_KIND_MAP, AT(labels), .max = REQUEST_LABELS_MAX,
      .doc = "Labels, for searches." },
    { "env", JSON_KIND_MAP, AT(env), .max = REQUEST_ENV_MAX,
      .doc = "Environment variables of every program in it." },
    MOUNTS_REQUEST_FIELD(struct create_request),
    REQUEST_LIMIT_FIELDS(struct create_request),
    REQUEST_PROGRAM_FIELDS(struct create_request),
    { "ttl", JSON_KIND_DURATION, AT(ttl_ns), .min = 1000000000, .max = INT64_C(31536000000000000),
      .doc = "Time to live, at most the profile's maximum." },
    { "on_timeout", JSON_KIND_ENUM, AT(on_timeout), .names = request_end_names,
      .doc = "The end of its time to live: destroy (the default), or pause." },
    { "checkpoint_every", JSON_KIND_DURATION, AT(checkpoint_ns), .min = INT64_C(5000000000),
      .max = INT64_C(86400000000000), .optional = true,
      .doc = "Interval of checkpoints of its files, taken when they have changed; default: none." },
    NESTED("setup_metadata", setup_fields, "References for the setup of the sandbox."),
    { "capabilities", JSON_KIND_OBJECT, .offset = 0, .size = sizeof(struct create_request),
      .seen = offsetof(struct create_request, capabilities.given),
      .doc = "Capabilities that the code needs; they determine the trust tier.",
      JSON_FIELDS(capability_fields) },
    EGRESS_REQUEST_FIELD(struct create_request),
    NESTED("consumer", consumer_fields, "The caller on whose behalf it is created."),
};
const size_t create_request_field_count = COUNT_OF(create_request_fields);

bool label_is_reserved(const char *key)
{
    return strcmp(key, LABEL_PEER) == 0;
}

static bool is_name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (!first && (c == '.' || c == '_' || c == '-'));
}

bool sandbox_name_fits(struct str name)
{
    char id[ID_MAX];

    if (!name.n || name.n >= SANDBOX_NAME_MAX || str_starts(name, STR("sbx_")) ||
        str_starts(name, STR("sbx-")) || id_read("sbx_", name, id))
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (!is_name_char(name.p[i], i == 0))
            return false;
    return true;
}

int sandbox_name_check(struct str name, struct err *e)
{
    if (sandbox_name_fits(name))
        return 0;
    return err_set(e, ERR_INVALID,
                   "name: '%.*s': must consist of a-z 0-9 . _ -, begin with a letter or digit, not "
                   "begin with sbx_ or sbx-, not be an id, and be at most %d characters long",
                   name.n < SANDBOX_NAME_MAX ? (int)name.n : SANDBOX_NAME_MAX, name.p,
                   SANDBOX_NAME_MAX - 1);
}

int label_check(struct str key, struct str value, struct err *e)
{
    if (key.n == 0 || key.n > 63)
        return err_set(e, ERR_INVALID, "labels: names must have 1 to 63 characters");
    for (size_t i = 0; i < key.n; i++)
        if (!key.p[i] || !strchr("abcdefghijklmnopqrstuvwxyz0123456789._/-", key.p[i]))
            return err_set(e, ERR_INVALID,
                           "labels: '" STR_FMT "': label names must consist of a-z 0-9 . _ / -",
                           STR_ARG(key));
    if (value.n > REQUEST_TEXT_MAX)
        return err_set(e, ERR_INVALID, "labels." STR_FMT ": longer than %d bytes", STR_ARG(key),
                       REQUEST_TEXT_MAX);
    for (size_t i = 0; i < value.n; i++)
        if ((unsigned char)value.p[i] < 0x20 || value.p[i] == 0x7f)
            return err_set(e, ERR_INVALID, "labels." STR_FMT ": contains a control character",
                           STR_ARG(key));
    return 0;
}

/* Labels of letters, digits and hyphens, with dots between. */
static bool is_hostname(struct str s)
{
    struct str label;

    while (s.p) {
        s = str_cut(s, '.', &label);
        if (!label.n || label.p[0] == '-' || label.p[label.n - 1] == '-')
            return false;
        for (size_t i = 0; i < label.n; i++)
            if (!is_name_char(label.p[i], true) && label.p[i] != '-' &&
                !(label.p[i] >= 'A' && label.p[i] <= 'Z'))
                return false;
    }
    return true;
}

int request_settings_check(const struct request_settings *s, struct err *e)
{
    if (s->resources_given && s->resources.cpu != 0 && s->resources.cpu < 0.01)
        return err_set(e, ERR_INVALID, "resources.cpu: must be at least 0.01");
    if (s->hostname && !is_hostname(str_from(s->hostname)))
        return err_set(e, ERR_INVALID,
                       "hostname: '%s': must consist of letters, digits and hyphens, with dots "
                       "between its labels",
                       s->hostname);
    return 0;
}

struct kept_settings {
    struct request_settings settings;
};

static const struct json_field kept_fields[] = {
    REQUEST_LIMIT_FIELDS(struct kept_settings),
    REQUEST_PROGRAM_FIELDS(struct kept_settings),
};

void request_settings_put(const struct request_settings *s, struct json_writer *w)
{
    static const struct json_shape shape = { NULL, JSON_FIELDS(kept_fields) };
    const struct kept_settings kept = { *s };

    json_put_members(w, &shape, &kept);
}

int request_settings_write(const struct request_settings *s, struct buf *out, struct err *e)
{
    struct request_settings kept = *s;
    struct json_writer w;

    kept.hostname = NULL; /* it belongs to one sandbox */
    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    request_settings_put(&kept, &w);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

static void inherit_resources(struct request_settings *s, const struct request_settings *from)
{
    s->resources_given |= from->resources_given;
    if (s->resources.cpu == 0)
        s->resources.cpu = from->resources.cpu;
    if (!s->resources.memory_mb)
        s->resources.memory_mb = from->resources.memory_mb;
    if (!s->resources.pids)
        s->resources.pids = from->resources.pids;
    if (!s->resources.disk_mb)
        s->resources.disk_mb = from->resources.disk_mb;
}

int request_settings_inherit(struct request_settings *s, struct str text, struct arena *a,
                             struct err *e)
{
    const struct json_limits limits = { .bytes = REQUEST_JSON_MAX, .depth = 8 };
    struct kept_settings kept = { 0 };
    const struct json *v;
    int r;

    if (!text.n)
        return 0;
    r = json_read(text, limits, a, &v, e);
    r = r < 0 ? r : json_bind(v, kept_fields, COUNT_OF(kept_fields), &kept, a, e);
    if (r < 0)
        return r;
    inherit_resources(s, &kept.settings);
    s->user = s->user ? s->user : kept.settings.user;
    s->workdir = s->workdir ? s->workdir : kept.settings.workdir;
    if (!s->caps_given) {
        s->caps = kept.settings.caps;
        s->caps_given = kept.settings.caps_given;
    }
    return 0;
}

static int read_hosts(const struct json *v, struct json_strs *ret, struct arena *a, struct err *e)
{
    const char **hosts = arena_array(a, v->list.n + 1, sizeof *hosts);
    size_t n = 0;

    if (!hosts || v->list.n > REQUEST_ALLOW_MAX)
        return err_set(e, ERR_TOO_BIG, "network: more than %d hosts", REQUEST_ALLOW_MAX);
    for (const struct json *m = json_first(v); m != json_end(v); m++) {
        if (m->type != JSON_STR || !m->s.n || m->s.n > HOST_TEXT_MAX || memchr(m->s.p, 0, m->s.n))
            return err_set(e, ERR_INVALID, "network[%zu]: must be HOST[:PORT]", n);
        hosts[n] = arena_dup(a, m->s);
        if (!hosts[n++])
            return err_set(e, ERR_TOO_BIG,
                           "network: the hosts need more memory than the allowed %zu bytes",
                           a->max);
    }
    *ret = (struct json_strs){ hosts, n };
    return 0;
}

int network_read(const struct json *v, bool *ret, struct json_strs *hosts, struct arena *a,
                 struct err *e)
{
    int r = 0;

    if (!v || v->type == JSON_NULL)
        return 0;
    if (v->type == JSON_ARRAY) {
        r = read_hosts(v, hosts, a, e);
        *ret = r >= 0 && hosts->n > 0;
        return r;
    }
    if (v->type != JSON_BOOL)
        return err_set(e, ERR_INVALID, "network: must be true, false or a list of HOST[:PORT]");
    *ret = v->b;
    return 0;
}

void create_request_network(struct create_request *q, bool network)
{
    static const struct json yes = { .type = JSON_BOOL, .b = true }, no = { .type = JSON_BOOL };

    q->capabilities.given = q->capabilities.network_given = true;
    q->capabilities.network = network;
    q->capabilities.network_asked = network ? &yes : &no;
}

static bool list_contains(const struct json_strs *all, const char *one)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->p[i], one) == 0)
            return true;
    return false;
}

/* Adds hosts to egress.allow, except those that it has already, as in a request restored from a
 * record. */
static int add_hosts(struct create_request *q, const struct json_strs *hosts, struct arena *a,
                     struct err *e)
{
    struct json_strs *allow = &q->egress.allow;
    const char **all = arena_array(a, allow->n + hosts->n + 1, sizeof *all);
    size_t n = 0;

    if (!all)
        return err_set(
            e, ERR_TOO_BIG,
            "capabilities.network: %zu hosts need more memory than the allowed %zu bytes",
            allow->n + hosts->n, a->max);
    for (size_t i = 0; i < allow->n; i++)
        all[n++] = allow->p[i];
    for (size_t i = 0; i < hosts->n; i++)
        if (!list_contains(allow, hosts->p[i]))
            all[n++] = hosts->p[i];
    if (n > REQUEST_ALLOW_MAX)
        return err_set(e, ERR_INVALID,
                       "capabilities.network: more than %d hosts together with egress.allow",
                       REQUEST_ALLOW_MAX);
    *allow = (struct json_strs){ all, n };
    q->egress.given |= n > 0;
    return 0;
}

const struct request_mount *request_mount_at(const struct json_objects *mounts, size_t i)
{
    return (const struct request_mount *)mounts->p + i;
}

int request_mounts_check(const struct json_objects *mounts, struct err *e)
{
    for (size_t i = 0; i < mounts->n; i++) {
        const struct request_mount *m = request_mount_at(mounts, i);

        if (m->source[0] != '/' || m->target[0] != '/')
            return err_set(e, ERR_INVALID, "mounts[%zu]: '%.80s' is not an absolute path", i,
                           m->source[0] != '/' ? m->source : m->target);
        for (size_t k = 0; k < i; k++)
            if (strcmp(m->target, request_mount_at(mounts, k)->target) == 0)
                return err_set(e, ERR_INVALID, "mounts[%zu]: %s is the target of another mount", i,
                               m->target);
    }
    return 0;
}

enum workspace_access request_mounts_access(const struct json_objects *mounts)
{
    for (size_t i = 0; i < mounts->n; i++)
        if (request_mount_at(mounts, i)->access == MOUNT_ACCESS_RW)
            return ASK_ACCESS_RW;
    return mounts->n ? ASK_ACCESS_RO : ASK_ACCESS_NONE;
}

struct requested_mounts {
    struct json_objects mounts;
};

void request_mounts_put(const struct json_objects *mounts, struct json_writer *w)
{
    static const struct json_field fields[] = { MOUNTS_REQUEST_FIELD(struct requested_mounts) };
    static const struct json_shape shape = { NULL, JSON_FIELDS(fields) };
    const struct requested_mounts all = { *mounts };

    json_put_members(w, &shape, &all);
}

int create_request_check(struct create_request *q, struct arena *a, struct err *e)
{
    const struct json *asked = q->capabilities.network_asked;
    struct json_strs hosts = { NULL, 0 };
    int r = q->name ? sandbox_name_check(str_from(q->name), e) : 0;

    r = r < 0 ? r : request_settings_check(&q->settings, e);
    r = r < 0 ? r : request_mounts_check(&q->mounts, e);
    if (r < 0)
        return r;
    for (size_t i = 0; i < q->env.n; i++)
        if (!q->env.p[i].key[0] || strchr(q->env.p[i].key, '='))
            return err_set(e, ERR_INVALID, "env: '%.60s' is not a valid variable name",
                           q->env.p[i].key);
    r = network_read(asked, &q->capabilities.network, &hosts, a, e);
    if (r < 0)
        return err_wrap(e, r, "capabilities");
    q->capabilities.network_given = asked && asked->type != JSON_NULL;
    if (hosts.n)
        r = add_hosts(q, &hosts, a, e);
    for (size_t i = 0; r >= 0 && i < q->labels.n; i++)
        r = label_check(str_from(q->labels.p[i].key), str_from(q->labels.p[i].value), e);
    for (size_t i = 0; r >= 0 && i < q->inputs.n; i++)
        if (strlen(q->inputs.p[i].value) >= 4096)
            r = err_set(e, ERR_INVALID, "inputs.%s: longer than 4095 bytes", q->inputs.p[i].key);
    if (r >= 0 && q->capabilities.cpu_quota != 0 &&
        (q->capabilities.cpu_quota < 0.1 || q->capabilities.cpu_quota > 4.0))
        r = err_set(e, ERR_INVALID, "capabilities.cpu_quota: must be 0.1 to 4.0");
    return r;
}

int create_request_read(const struct json *v, struct create_request *ret, struct arena *a,
                        struct err *e)
{
    struct create_request q = { 0 };
    int r = json_bind(v, create_request_fields, create_request_field_count, &q, a, e);

    if (r >= 0)
        r = create_request_check(&q, a, e);
    if (r >= 0)
        *ret = q;
    return r < 0 ? r : 0;
}
