/* The daemon's state directory: `daemon` below the configured one, for the control plane alone. */
#ifndef DAEMON_STATE_H
#define DAEMON_STATE_H

#include "base/err.h"
#include "daemon/privilege.h"

/* Makes what is missing and opens it. -ERR_DENIED if somebody else could write there. */
int state_open(const char *path, const struct identity_choice *who, int *ret, struct err *e);
/* Whether this process can reach it by its path, which SQLite takes: who lost rights may not. */
int state_reach(int dir, struct err *e);
/* A directory in the state directory that only that user enters; made if it is not there. */
int state_open_part(const char *path, const char *part, const struct identity_choice *who, int *ret,
                    struct err *e);
/* `grants` beside it (daemon/grants.h), for the supervisor alone. After state_open(). */
int state_open_grants(const char *path, int *ret, struct err *e);
/* `storage` beside it, for layers: for whoever starts us alone. After state_open(). */
int state_open_storage(const char *path, int *ret, struct err *e);

#endif
