/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/user.h"

#include <string.h>

#include "base/own.h"
#include "base/str.h"
#include "engine/runtime/plan.h"

enum { NAME_MAX_BYTES = 32 };

int user_parse(const char *text, struct user *ret, struct err *e)
{
    struct str uid, gid = str_cut(str_from(text), ':', &uid);
    uint64_t u = 0, g = 0;

    if (text[0] && (text[0] < '0' || text[0] > '9') && !strchr(text, ':') &&
        strnlen(text, NAME_MAX_BYTES + 1) <= NAME_MAX_BYTES) {
        *ret = (struct user){ .name = text };
        return 0;
    }
    if (!str_to_u64(uid, &u) || !str_to_u64(gid.p ? gid : uid, &g) || u >= PLAN_IDS ||
        g >= PLAN_IDS)
        return err_set(
            e, ERR_INVALID,
            "'%.40s' is not a valid user: use a name, UID or UID:GID with numbers below %d", text,
            PLAN_IDS);
    *ret = (struct user){ .uid = (uint32_t)u, .gid = (uint32_t)g };
    return 0;
}

void user_number(struct user *u)
{
    static const struct {
        const char *name;
        uint32_t id;
    } known[] = { { "root", 0 }, { "user", 1000 }, { "nobody", 65534 } };

    for (size_t i = 0; u->name && i < COUNT_OF(known); i++)
        if (strcmp(known[i].name, u->name) == 0)
            u->uid = u->gid = known[i].id;
}
