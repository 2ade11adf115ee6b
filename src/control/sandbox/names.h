/* SPDX-License-Identifier: Apache-2.0 */
/* Names of live sandboxes: each is unique among those of its owner, and found in constant time. A
 * name is taken as soon as a create is accepted, and free again when the sandbox is destroyed. */
#ifndef CONTROL_SANDBOX_NAMES_H
#define CONTROL_SANDBOX_NAMES_H

#include "domain/model/record.h"
#include "domain/model/request.h"

struct caller;
struct control;
struct sandbox;

enum { NAMES_KEY = SANDBOX_NAME_MAX + OWNER_MAX }; /* "NAME/OWNER": a name has no slash */

void names_join(struct sandbox *s);  /* does nothing if it has no name */
void names_leave(struct sandbox *s); /* likewise */

/* The owner's sandbox of this name; NULL: none. */
struct sandbox *names_find(const struct control *c, const char *owner, struct str name);

/* -ERR_CONFLICT if another sandbox of the caller's owner than `replaced` (may be NULL) has the
 * name. Names that sandbox if the caller may see it. */
int names_check_free(const struct control *c, const struct caller *who, const char *name,
                     const struct sandbox *replaced, struct err *e);

#endif
