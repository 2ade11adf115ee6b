/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/capabilities.h"

#include "base/clock.h"
#include "base/own.h"
#include "lib/json/reader.h"

enum { REQUEST_BYTES = 1 << 20, REQUEST_DEPTH = 32 };

/* The parsed document, before `network` is interpreted. */
struct capability_document {
    const struct json *network;
    int64_t duration_s, memory_mb;
    double cpu_quota;
    unsigned filesystem; /* index of accesses[] */
    bool filesystem_given, cpu_given;
};

static const char *const accesses[] = { "ro", "rw", NULL };

#define AT(member) JSON_AT(struct capability_document, member)
const struct json_field trust_capability_fields[] = {
    { "network", JSON_KIND_ANY, AT(network), .types = "boolean array",
      .doc = "Network access: true, false, or a list of HOST[:PORT]." },
    { "filesystem", JSON_KIND_ENUM, AT(filesystem), .names = accesses,
      .seen = offsetof(struct capability_document, filesystem_given),
      .doc = "Workspace access: ro or rw." },
    { "duration_s", JSON_KIND_INT, AT(duration_s), .min = 1, .max = 1800,
      .doc = "Lifetime in seconds." },
    { "memory_mb", JSON_KIND_INT, AT(memory_mb), .min = 16, .max = 4096, .doc = "Memory, in MiB." },
    { "cpu_quota", JSON_KIND_DOUBLE, AT(cpu_quota),
      .seen = offsetof(struct capability_document, cpu_given), .doc = "Processors, 0.1 to 4.0." },
};
#undef AT
const size_t trust_capability_field_count = COUNT_OF(trust_capability_fields);

int trust_capabilities_read(const struct json *v, struct trust_capabilities *ret, struct arena *a,
                            struct err *e)
{
    struct trust_capabilities c = { 0 };
    struct capability_document d = { 0 };
    int r = 0;

    if (v && v->type != JSON_NULL)
        r = json_bind(v, trust_capability_fields, trust_capability_field_count, &d, a, e);
    if (r >= 0)
        r = network_read(d.network, &c.network, &c.hosts, a, e);
    if (r < 0)
        return r;
    if (d.cpu_given && !(d.cpu_quota >= 0.1 && d.cpu_quota <= 4.0))
        return err_set(e, ERR_INVALID, "cpu_quota: must be 0.1 to 4.0");
    if (d.filesystem_given)
        c.filesystem = d.filesystem ? ASK_ACCESS_RW : ASK_ACCESS_RO;
    c.duration_s = d.duration_s;
    c.memory_mb = d.memory_mb;
    c.cpu_quota = d.cpu_quota;
    *ret = c;
    return 0;
}

static enum workspace_access read_access(const struct json *request, const char *group,
                                         const char *name)
{
    const struct json *v = json_get(request, str_from(group));

    v = v && v->type == JSON_OBJECT ? json_get(v, str_from(name)) : NULL;
    if (!v || v->type != JSON_STR)
        return ASK_ACCESS_PROFILE;
    return str_eq(v->s, STR("rw")) ? ASK_ACCESS_RW : ASK_ACCESS_RO;
}

/* The most access that a mount of the request has. */
static enum workspace_access read_mounts_access(const struct json *request)
{
    const struct json *mounts = json_get(request, STR("mounts"));
    enum workspace_access most = ASK_ACCESS_NONE;

    if (!mounts || mounts->type != JSON_ARRAY)
        return most;
    for (const struct json *m = json_first(mounts); m != json_end(mounts); m++) {
        const struct json *access = m->type == JSON_OBJECT ? json_get(m, STR("access")) : NULL;

        if (access && access->type == JSON_STR && str_eq(access->s, STR("rw")))
            return ASK_ACCESS_RW;
        most = ASK_ACCESS_RO;
    }
    return most;
}

static enum workspace_access recorded_access(const struct sandbox *s)
{
    const struct json_limits limits = { .bytes = REQUEST_BYTES, .depth = REQUEST_DEPTH };
    AUTO(arena_done) struct arena a = ARENA_INIT((size_t)4 * REQUEST_BYTES);
    enum workspace_access declared, mounted;
    const struct json *v;

    if (json_read(sandbox_view(s).record->request, limits, &a, &v, NULL) < 0 ||
        v->type != JSON_OBJECT)
        return ASK_ACCESS_PROFILE;
    declared = read_access(v, "capabilities", "filesystem");
    if (!declared)
        declared = read_access(v, "workspace", "access");
    mounted = read_mounts_access(v);
    return mounted > ASK_ACCESS_NONE && mounted > declared ? mounted : declared;
}

void trust_capabilities_of(const struct sandbox *s, bool filesystem, struct trust_capabilities *ret)
{
    struct sandbox_egress egress;

    *ret = (struct trust_capabilities){ .policy = sandbox_policy_text(s),
                                        .approved_for = sandbox_approved_for(s) };
    ret->network = sandbox_egress(s, &egress);
    if (filesystem)
        ret->filesystem = recorded_access(s);
}

void trust_capabilities_planned(const struct create_plan *p, struct trust_capabilities *ret)
{
    *ret = (struct trust_capabilities){ .network = p->policy,
                                        .policy = p->policy,
                                        .filesystem = p->access == ASK_ACCESS_NONE ? 0 : p->access,
                                        .duration_s = p->ttl_ns / NS_PER_S,
                                        .memory_mb = p->memory_mb,
                                        .cpu_quota = (double)p->cpu_milli / 1000 };
}
