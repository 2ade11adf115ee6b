/* SPDX-License-Identifier: Apache-2.0 */
/* Telemetry of this machine. */
#ifndef CONTROL_HOST_HOST_H
#define CONTROL_HOST_HOST_H

#include "lib/json/writer.h"

struct control;
struct arena;
struct json;

/* One object: kernel, processors, load, memory, disk, sandboxes, pool, limits that can be enforced.
 */
void host_write(struct control *c, struct json_writer *w);
/* The same as a tree on the arena; NULL if the arena is full. */
const struct json *host_telemetry(struct control *c, struct arena *a);

#endif
