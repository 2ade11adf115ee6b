/* SPDX-License-Identifier: Apache-2.0 */
/* The resources that a request may ask for in the place of its profile's. */
#ifndef CONTROL_SANDBOX_RESOURCES_H
#define CONTROL_SANDBOX_RESOURCES_H

#include "control/owner/caller.h"
#include "domain/model/request.h"
#include "domain/profile/profile.h"

struct control;

/* -ERR_DENIED if the request asks for more than the caller may have: more than the profile has, than
 * limits.sandbox allows and, where that is not configured, than any profile has. Administrators on
 * the unix socket may have any amount. */
int resources_check(const struct control *c, const struct caller *who, const struct profile *p,
                    const struct create_request *q, struct err *e);

#endif
