/* Where a symbolic link leads. */
#ifndef MIRROR_LINK_H
#define MIRROR_LINK_H

#include <stdbool.h>

#include "base/str.h"

/* Whether a link that is `depth` directories beneath the top may lead out of the tree: its target
 * is absolute, has more leading ".." than that, or has ".." behind a name (which may be a link
 * itself, so nobody can tell where its ".." is). */
bool link_leads_out(struct str target, unsigned depth);

#endif
