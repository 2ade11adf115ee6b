/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether a daemon can start with this configuration, and leaves nothing behind. Ports and
 * the socket are not looked at while a daemon with this socket or state directory runs: they are
 * its own. An image of storage (daemon/volume.h) is not mounted, and of the store only the header
 * is read: only the start finds damage there. The daemon runs these checks before it starts, `--check-config` runs nothing else, and `sandboxer
 * doctor` runs `--check-config`: so all three agree. */
#ifndef DAEMON_START_CHECK_H
#define DAEMON_START_CHECK_H

#include "base/err.h"
#include "domain/config/config.h"

int start_check(const struct config *c, struct err *e);

#endif
