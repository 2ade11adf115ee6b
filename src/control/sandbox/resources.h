/* SPDX-License-Identifier: Apache-2.0 */
/* The resources that a request may ask for in the place of its profile's. */
#ifndef CONTROL_SANDBOX_RESOURCES_H
#define CONTROL_SANDBOX_RESOURCES_H

#include "control/owner/caller.h"
#include "domain/model/request.h"
#include "domain/profile/profile.h"

struct control;

/* The profile that a request names, with the settings of the request, if the caller may have them
 * (else -ERR_DENIED); *ret is a new reference. */
int resources_find_profile(struct control *c, const struct caller *who,
                           const struct create_request *q, struct profile **ret, struct err *e);

#endif
