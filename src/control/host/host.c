/* SPDX-License-Identifier: Apache-2.0 */
#include "control/host/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "control/plane/plane.h"
#include "lib/json/reader.h"

enum { TELEMETRY_MAX = 8 << 10 };

static void write_host_kernel(struct json_writer *w)
{
    struct utsname u;

    if (uname(&u) < 0)
        return;
    json_field_text(w, "hostname", u.nodename);
    json_field_text(w, "kernel", u.release);
    json_field_text(w, "machine", u.machine);
}

static void write_host_load(struct json_writer *w)
{
    double load[3] = { 0 };

    json_field_begin_array(w, "load");
    if (getloadavg(load, 3) == 3)
        for (int i = 0; i < 3; i++)
            json_put_double(w, load[i]);
    json_end_array(w);
}

static void write_host_memory(struct json_writer *w)
{
    struct sysinfo s;

    if (sysinfo(&s) < 0)
        return;
    json_field_uint(w, "memory_bytes", (uint64_t)s.totalram * s.mem_unit);
    json_field_uint(w, "memory_free_bytes", (uint64_t)(s.freeram + s.bufferram) * s.mem_unit);
    json_field_uint(w, "processes", s.procs);
    json_field_uint(w, "uptime_seconds", (uint64_t)s.uptime);
}

static void write_host_disk(struct json_writer *w, int state)
{
    struct statvfs v;

    if (fstatvfs(state, &v) < 0)
        return;
    json_field_uint(w, "state_bytes", (uint64_t)v.f_blocks * v.f_frsize);
    json_field_uint(w, "state_free_bytes", (uint64_t)v.f_bavail * v.f_frsize);
}

static void write_host_storage(struct json_writer *w, const struct control_storage *s)
{
    if (!s->driver)
        return;
    json_field_text(w, "storage_driver", s->driver);
    json_field_text(w, "storage_why", s->why);
    json_field_bool(w, "storage_limited", s->limited);
}

void host_write(struct control *c, struct json_writer *w)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    json_begin_object(w);
    json_field_text(w, "host", "local");
    write_host_kernel(w);
    json_field_uint(w, "cpus", cpus > 0 ? (uint64_t)cpus : 1);
    write_host_load(w);
    write_host_memory(w);
    write_host_disk(w, c->context.state);
    write_host_storage(w, &c->storage);
    json_field_uint(w, "sandboxes", c->sandboxes.n);
    json_field_uint(w, "pool_ready", control_pool_ready(c));
    json_field_text(w, "version", SANDBOXER_VERSION);
    json_end_object(w);
}

const struct json *host_telemetry(struct control *c, struct arena *a)
{
    const struct json_limits limits = { .bytes = TELEMETRY_MAX, .depth = 4 };
    struct buf text AUTO(buf_done) = BUF_INIT(TELEMETRY_MAX);
    const struct json *v = NULL;
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    host_write(c, &w);
    if (json_writer_finish(&w, NULL) < 0 || json_read(buf_str(&text), limits, a, &v, NULL) < 0)
        return NULL;
    return v;
}
