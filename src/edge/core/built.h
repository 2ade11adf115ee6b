/* SPDX-License-Identifier: Apache-2.0 */
/* Templates that clients have built: a snapshot, and how to start in it. There are few, so all of
 * them are kept in memory and in one setting of the store. */
#ifndef EDGE_CORE_BUILT_H
#define EDGE_CORE_BUILT_H

#include "edge/core/call.h"

enum {
    BUILT_MAX = 256,
    BUILT_PER_OWNER = BUILT_MAX / 4,
    BUILT_NAME_MAX = 63,
    BUILT_TEXT_MAX = 4096
};

struct built {
    const char *id, *build, *name, *snapshot;
    const char *user, *workdir; /* defaults of requests; "": the usual ones */
    const char *start,
        *ready; /* commands: started in a new sandbox; succeeds when it is ready; or "" */
    struct json_map env;
    int64_t created_ns;
};

int built_open(struct api *a, struct err *e); /* blocks: call it before the loop runs */
void built_close(struct api *a);

/* Finds a template by id if the caller may see its snapshot, or by name among those of the caller's
 * owner; else NULL. Borrowed until the next iteration of the loop. */
const struct built *built_find(const struct call *c, struct str name);
/* The template that the call's sandbox was made from, or NULL. */
const struct built *built_of_sandbox(struct call *c);
/* The template with this snapshot, or NULL. */
const struct built *built_of_snapshot(const struct api *a, const char *snapshot);
/* The template that this build made; NULL if it failed or the template was built again since. */
const struct built *built_of_build(const struct api *a, const char *build);
void built_each(const struct call *c, void (*each)(void *user, const struct built *b), void *user);

/* built_put() adds a template, in place of the owner's template `instead` if that is not NULL;
 * built_remove() removes one. Both report after the commit. -ERR_QUOTA: the owner or the family of
 * tokens has as many templates as allowed. */
typedef void built_fn(void *user, int r, const struct err *e);
void built_put(struct api *a, const char *owner, const char *family, const struct built *new,
               const char *instead, built_fn *done, void *user);
void built_remove(struct api *a, const char *id, built_fn *done, void *user);

#endif
