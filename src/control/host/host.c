/* SPDX-License-Identifier: Apache-2.0 */
#include "control/host/host.h"

#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "control/plane/plane.h"

static void write_load(struct json_writer *w, const char *name, const void *in)
{
    const struct host_telemetry *t = in;

    json_field_begin_array(w, name);
    for (size_t i = 0; t->has_load && i < COUNT_OF(t->load); i++)
        json_put_double(w, t->load[i]);
    json_end_array(w);
}

#define AT(member)  JSON_AT(struct host_telemetry, member)
#define HAS(member) .seen = offsetof(struct host_telemetry, member)
#define STORAGE(member)                                                                            \
    .via = offsetof(struct host_telemetry, storage), JSON_AT(struct control_storage, member)

static const struct json_field telemetry_fields[] = {
    { "host", JSON_KIND_TEXT, AT(name), .required = true },
    { "hostname", JSON_KIND_CHARS, AT(kernel.nodename), HAS(has_kernel) },
    { "kernel", JSON_KIND_CHARS, AT(kernel.release), HAS(has_kernel) },
    { "machine", JSON_KIND_CHARS, AT(kernel.machine), HAS(has_kernel) },
    { "cpus", JSON_KIND_UINT, AT(cpus) },
    { "load", JSON_KIND_ANY, .write = write_load },
    { "memory_bytes", JSON_KIND_UINT, AT(memory), HAS(has_memory) },
    { "memory_free_bytes", JSON_KIND_UINT, AT(memory_free), HAS(has_memory) },
    { "processes", JSON_KIND_UINT, AT(processes), HAS(has_memory) },
    { "uptime_seconds", JSON_KIND_UINT, AT(uptime_s), HAS(has_memory) },
    { "state_bytes", JSON_KIND_UINT, AT(state), HAS(has_state) },
    { "state_free_bytes", JSON_KIND_UINT, AT(state_free), HAS(has_state) },
    { "storage_driver", JSON_KIND_TEXT, STORAGE(driver) },
    { "storage_why", JSON_KIND_TEXT, STORAGE(why) },
    { "storage_limited", JSON_KIND_BOOL, STORAGE(limited) },
    { "storage_owner_bytes", JSON_KIND_UINT, STORAGE(owner_bytes) },
    { "sandboxes", JSON_KIND_UINT, AT(sandboxes) },
    { "pool_ready", JSON_KIND_UINT, AT(pool_ready) },
    { "version", JSON_KIND_TEXT, AT(version) },
};
const struct json_shape host_telemetry_answer = { "HostTelemetry", JSON_FIELDS(telemetry_fields) };

void host_measure(const struct control *c, struct host_telemetry *ret)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct sysinfo s;
    struct statvfs v;

    *ret = (struct host_telemetry){ .name = "local",
                                    .version = SANDBOXER_VERSION,
                                    .cpus = cpus > 0 ? (uint64_t)cpus : 1,
                                    .sandboxes = c->sandboxes.n,
                                    .pool_ready = control_pool_ready(c),
                                    .storage = c->storage.driver ? &c->storage : NULL };
    ret->has_kernel = uname(&ret->kernel) >= 0;
    ret->has_load = getloadavg(ret->load, COUNT_OF(ret->load)) == COUNT_OF(ret->load);
    ret->has_memory = sysinfo(&s) >= 0;
    if (ret->has_memory) {
        ret->memory = (uint64_t)s.totalram * s.mem_unit;
        ret->memory_free = (uint64_t)(s.freeram + s.bufferram) * s.mem_unit;
        ret->processes = s.procs;
        ret->uptime_s = (uint64_t)s.uptime;
    }
    ret->has_state = fstatvfs(c->context.state, &v) >= 0;
    if (ret->has_state) {
        ret->state = (uint64_t)v.f_blocks * v.f_frsize;
        ret->state_free = (uint64_t)v.f_bavail * v.f_frsize;
    }
}
