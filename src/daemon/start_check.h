/* Whether a daemon can start with this configuration, found out without starting one: nothing is
 * made, and nothing is changed. The daemon checks this before it makes anything, `--check-config`
 * does nothing else, and `sandboxer doctor` asks that: so none of them can say another thing. */
#ifndef DAEMON_START_CHECK_H
#define DAEMON_START_CHECK_H

#include "base/err.h"
#include "config/config.h"

int start_check(const struct config *c, struct err *e);

#endif
