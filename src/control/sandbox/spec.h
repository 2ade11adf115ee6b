/* SPDX-License-Identifier: Apache-2.0 */
/* The specification that a backend builds: the profile, narrowed by the request. */
#ifndef CONTROL_SANDBOX_SPEC_H
#define CONTROL_SANDBOX_SPEC_H

#include "backends/backend.h"
#include "domain/model/request.h"

#define WORKSPACE_PATH "/workspace"
#define SPEC_REPO      "repo" /* the input that names the host directory of the workspace */

/* The host directory of the workspace; NULL: none. */
const char *spec_repo(const struct create_request *q);
/* The first file of the host that the request names, for messages. */
const char *spec_granted_path(const struct create_request *q);

/* The profile with the settings of the request; *ret is a new reference. Whether they are allowed
 * is not its question: control/sandbox/resources.h. */
int spec_profile(struct profile *p, const struct create_request *q, struct profile **ret,
                 struct err *e);

/* The request changes nothing in the specification: a prepared box can serve it. */
bool spec_is_plain(const struct create_request *q);

/* The memory limit; 0: none. */
uint64_t spec_memory(const struct profile *p, const struct create_request *q);
uint64_t spec_disk(const struct profile *p); /* likewise */
/* Thousandths of a processor; 0: no limit. */
uint32_t spec_cpu(const struct profile *p, const struct create_request *q);

/* may_show: a read-only host directory may be mounted. Borrows from both. Mounts are static:
 * overwritten by each call. */
int spec_fill(const struct profile *p, const struct create_request *q, bool may_show,
              struct backend_spec *ret, struct err *e);

#endif
