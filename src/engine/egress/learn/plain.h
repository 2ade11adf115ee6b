/* SPDX-License-Identifier: Apache-2.0 */
/* A policy without members that only say what is the default. The daemon stores policies with them,
 * and people write them without. */
#ifndef ENGINE_EGRESS_LEARN_PLAIN_H
#define ENGINE_EGRESS_LEARN_PLAIN_H

#include "base/arena.h"
#include "base/err.h"
#include "lib/json/value.h"

/* *ret is on the arena. */
int learn_plain_policy(const struct json *document, struct arena *a, const struct json **ret,
                       struct err *e);

#endif
