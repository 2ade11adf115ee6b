/* SPDX-License-Identifier: Apache-2.0 */
/* Template names, which denote the source of a sandbox: a profile, a built template (built.h), a
 * snapshot, or an image (with TEMPLATE_IMAGE_PROFILE). */
#ifndef EDGE_CORE_TEMPLATE_H
#define EDGE_CORE_TEMPLATE_H

#include "edge/core/call.h"

enum { TEMPLATE_NAME_MAX = RECORD_IMAGE_MAX };
#define TEMPLATE_IMAGE_PROFILE "profile.base"

/* Fills a request for a new sandbox from a template name, including the template's variables. */
int template_fill_request(struct call *c, const char *name, struct create_request *ret,
                          struct err *e);
/* The source of a sandbox: a snapshot, an image or a profile. `q` is the request that it was
 * created with. */
const char *template_source_name(const struct api *a, const struct sandbox_record *r,
                                 const struct create_request *q);
/* The same, but the id and name (*ret_alias) of a built template. */
const char *template_find_id(const struct api *a, const struct sandbox_record *r,
                             const struct create_request *q, const char **ret_alias);

/* "base" becomes "profile.base"; complete profile names are returned unchanged. On the call's
 * arena. */
const char *template_profile_id(struct call *c, const char *name);
const char *template_profile_name(const char *id); /* the inverse */
/* The request that the sandbox was created with; empty if the stored request cannot be read. */
struct create_request template_original_request(const struct sandbox_record *r, struct arena *a);

#endif
