/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether a daemon can start with this configuration, without making or changing anything.
 * The daemon runs these checks before it starts, `--check-config` runs nothing else, and `sandboxer
 * doctor` runs `--check-config`: so all three agree. */
#ifndef DAEMON_START_CHECK_H
#define DAEMON_START_CHECK_H

#include "base/err.h"
#include "domain/config/config.h"

int start_check(const struct config *c, struct err *e);

#endif
