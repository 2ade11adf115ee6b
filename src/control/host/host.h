/* SPDX-License-Identifier: Apache-2.0 */
/* Telemetry of this machine. */
#ifndef CONTROL_HOST_HOST_H
#define CONTROL_HOST_HOST_H

#include <sys/utsname.h>

#include "lib/json/bind.h"

struct control;
struct control_storage;

struct host_telemetry {
    const char *name, *version;
    struct utsname kernel;
    double load[3];
    uint64_t cpus, sandboxes, pool_ready;
    uint64_t memory, memory_free, processes, uptime_s;
    uint64_t state, state_free;            /* bytes of the file system with the state directory */
    const struct control_storage *storage; /* NULL: unknown, like all whose flag is not set */
    bool has_kernel, has_load, has_memory, has_state;
};

void host_measure(const struct control *c, struct host_telemetry *ret);
extern const struct json_shape host_telemetry_answer;

#endif
