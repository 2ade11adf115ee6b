/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/tools/tools.h"

#include <stdio.h>

#include "unit/control/fixture.h"

static struct api api;

/* Sessions count for an owner and in the part of its token's family; a family of an administrator's
 * tokens is a holder of its own. */
TEST(sessions_count_in_the_account_of_their_caller)
{
    static const struct {
        const char *owner, *family, *holder, *part;
    } rows[] = {
        { "uid:1000", "", "uid:1000", "" },
        { "uid:1000", "tok_1", "uid:1000", "tok_1" },
        { "uid:0", "", "uid:0", "" },
        { "uid:0", "tok_1", "family:tok_1", "" },
    };

    plane_open();
    api.control = fix.control;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct caller who = { .verbs = VERBS_ALL };
        struct mcp_client *m;

        snprintf(who.owner, sizeof who.owner, "%s", rows[i].owner);
        snprintf(who.family, sizeof who.family, "%s", rows[i].family);
        m = mcp_client_new(&api, &who);
        CHECK_STR(str_from(mcp_offer.holder(m)), rows[i].holder);
        CHECK_STR(str_from(mcp_offer.family(m)), rows[i].part);
        mcp_client_free(m);
    }
    plane_close();
}
