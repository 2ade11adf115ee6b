#include "model/role.h"

#include <stddef.h>

const char *const role_names[] = { "apprentice", "journeyman", "master", NULL };
