/* What E2B's clients call a template: something that sandboxes are made from. It is one of our
 * profiles, or a snapshot. */
#ifndef API_E2B_TEMPLATE_H
#define API_E2B_TEMPLATE_H

#include "api/call.h"

enum { E2B_TEMPLATE_MAX = 128 };

/* Into a request for a new sandbox. */
int e2b_template_fill(struct call *c, const char *name, struct create_request *ret, struct err *e);
/* What a sandbox was made from; `q` is what it was asked for by. */
const char *e2b_template_name(const struct sandbox_record *r, const struct create_request *q);

/* "base" is profile.base; a whole name of a profile will do, too. On the call's arena. */
const char *e2b_profile_id(struct call *c, const char *name);
const char *e2b_profile_name(const char *id); /* the other way */

#endif
