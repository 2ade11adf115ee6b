/* SPDX-License-Identifier: Apache-2.0 */
/* Names that carry data. A program that may look names up can send data out in them, to the name
 * servers of a domain of its own; such names belong in no policy. */
#ifndef ENGINE_EGRESS_LEARN_NAMES_H
#define ENGINE_EGRESS_LEARN_NAMES_H

#include "base/str.h"

enum { LEARN_SIBLINGS_MAX = 32 }; /* names directly below one domain; more are suspicious */

/* Why the name looks like data; NULL: it does not. The reason is a constant. */
const char *learn_name_suspicion(struct str name);

/* The domain directly above a name: "a.example.com" has example.com. Empty if it has one label, as
 * no wildcard may stand below one. */
struct str learn_name_parent(struct str name);

#endif
