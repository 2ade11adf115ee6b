/* Names of owners: the user of the unix socket that records belong to, or that a token acts for. */
#ifndef MODEL_OWNER_H
#define MODEL_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

/* Administrators are root and the user that the daemon runs for: `daemon`. */
bool owner_is_administrator(const char *owner, uid_t daemon);

#endif
