/* What a backend is told to build: the profile, narrowed by the request. */
#ifndef CONTROL_SPEC_H
#define CONTROL_SPEC_H

#include "extensions/extension.h"
#include "model/request.h"

#define WORKSPACE_PATH "/workspace"
#define SPEC_REPO      "repo" /* the input that names the host directory of the workspace */

/* The host directory of the workspace; NULL: none. */
const char *spec_repo(const struct create_request *q);

/* Nothing in the request changes what is built: a prepared box will do. */
bool spec_is_plain(const struct create_request *q);

/* The memory limit; 0: none. */
uint64_t spec_memory(const struct profile *p, const struct create_request *q);
uint64_t spec_disk(const struct profile *p); /* likewise */

/* may_show: a host directory that is only read may be mounted. Borrows from both. Mounts are
 * static: filled anew by each call. */
int spec_fill(const struct profile *p, const struct create_request *q, bool may_show,
              struct ext_spec *ret, struct err *e);

#endif
