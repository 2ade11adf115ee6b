/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/owner.h"

#include <stdio.h>
#include <string.h>

#include "domain/model/actor.h"

bool owner_is_administrator(const char *owner, uid_t daemon)
{
    char own[OWNER_MAX];

    snprintf(own, sizeof own, "uid:%u", (unsigned)daemon);
    return strcmp(owner, "uid:0") == 0 || strcmp(owner, own) == 0;
}
