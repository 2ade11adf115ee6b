/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/role.h"

#include <stddef.h>

const char *const role_names[] = { "apprentice", "journeyman", "master", NULL };
