/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes as JSON, in the formats of E2B's API. */
#ifndef EDGE_E2B_SANDBOX_JSON_H
#define EDGE_E2B_SANDBOX_JSON_H

#include "edge/core/call.h"

struct e2b_shown {
    const struct call *call; /* of the client */
    const struct sandbox_record *record;
    int64_t expires_ns;
};

struct e2b_shown e2b_show(const struct call *c); /* for the call's sandbox */

/* The answer to create and connect: ids and tokens for access. */
void e2b_write_made(struct json_writer *w, const void *shown);
/* A row of a list. */
void e2b_write_listed(struct json_writer *w, const void *shown);
/* All members; the call must have a live sandbox. */
void e2b_write_info(struct json_writer *w, const void *shown);

/* The size of a sandbox by its profile; one processor if the profile no longer exists. */
struct e2b_size {
    uint32_t processors, memory_mb, disk_mb;
};
struct e2b_size e2b_size(const struct call *c, const struct sandbox_record *r);
struct e2b_size e2b_profile_size(const struct profile *p);
void e2b_write_size(struct json_writer *w, const struct e2b_size *s);

/* Whether the call's sandbox exists for clients (it is not being destroyed); e2b_is_running(): and
 * is not paused. Both return false after they have answered the call. */
bool e2b_is_there(struct call *c);
bool e2b_is_running(struct call *c);

#endif
