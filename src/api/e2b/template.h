/* What E2B's clients call a template: something that sandboxes are made from. It is one of our
 * profiles, one that was built (built.h), a snapshot, or an image, under E2B_IMAGE_PROFILE. */
#ifndef API_E2B_TEMPLATE_H
#define API_E2B_TEMPLATE_H

#include "api/call.h"

enum { E2B_TEMPLATE_MAX = RECORD_IMAGE_MAX };
#define E2B_IMAGE_PROFILE "profile.base"

/* Into a request for a new sandbox, with its variables. */
int e2b_template_fill(struct call *c, const char *name, struct create_request *ret, struct err *e);
/* What a sandbox was made from, a snapshot, an image or a profile; `q` is what it was asked for by.
 */
const char *e2b_template_name(const struct api *a, const struct sandbox_record *r,
                              const struct create_request *q);
/* The same where it may have been built: its id, and what it is called. */
const char *e2b_template_id(const struct api *a, const struct sandbox_record *r,
                            const struct create_request *q, const char **ret_alias);

/* "base" is profile.base; a whole name of a profile will do, too. On the call's arena. */
const char *e2b_profile_id(struct call *c, const char *name);
const char *e2b_profile_name(const char *id); /* the other way */

#endif
