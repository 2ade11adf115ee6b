/* SPDX-License-Identifier: Apache-2.0 */
/* The standalone proxy, for any program: one box with its own listener, a policy file, an audit
 * file. */
#ifndef ENGINE_EGRESS_STANDALONE_H
#define ENGINE_EGRESS_STANDALONE_H

#include "engine/egress/options.h"

/* Runs until SIGTERM or SIGINT. Confines the process. */
int standalone_run(const struct egress_options *o, struct err *e);

#endif
