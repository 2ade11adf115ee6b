/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of a sandbox's egress counters. */
#ifndef EDGE_CORE_EGRESS_H
#define EDGE_CORE_EGRESS_H

#include "control/control.h"
#include "lib/json/writer.h"

void egress_write(struct json_writer *w, const struct sandbox_egress *x); /* members of an object */

#endif
