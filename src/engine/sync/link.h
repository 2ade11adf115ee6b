/* SPDX-License-Identifier: Apache-2.0 */
/* Classifies targets of symbolic links. */
#ifndef ENGINE_SYNC_LINK_H
#define ENGINE_SYNC_LINK_H

#include <stdbool.h>

#include "base/str.h"

/* Whether a link that is `depth` directories beneath the top may lead out of the tree: its target
 * is absolute, has more leading ".." than that, or has ".." after a name (which may be a link
 * itself, so the result of ".." is unknown). */
bool link_leads_out(struct str target, unsigned depth);

#endif
