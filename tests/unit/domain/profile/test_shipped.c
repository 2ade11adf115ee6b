/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles/ of the source: all there, all good, and the names that people rely on. */
#include "base/own.h"
#include "harness/tap.h"
#include "domain/profile/catalog.h"

TEST(shipped_profiles)
{
    static const struct {
        const char *id, *extension;
    } rows[] = {
        { CATALOG_DEFAULT_PROFILE, "ext.local" },
        { "profile.agent-dev", "ext.local" },
        { "profile.base", "ext.local" },
        { "profile.code-interpreter-v1", "ext.local" },
        { "profile.build", "ext.local" },
        { "profile.compose-e2e", "ext.compose-ssh" },
        { "profile.compose-checkpoint", "ext.compose-ssh" },
        { "profile.vm-haskell-build", "ext.vm-packer" },
        { "profile.burst-sandbox", "ext.daytona" },
        { "profile.e2b-burst", "ext.e2b" },
        { "profile.modal-gpu", "ext.modal" },
        { "profile.run", "ext.local" },
    };
    AUTO(catalog_freep_) struct catalog *c = NULL;
    const char *dir = SOURCE_ROOT "/profiles";
    struct err e;

    CHECK_OK(catalog_load((struct json_strs){ &dir, 1 }, &c, &e), e);
    for (size_t i = 0; i < c->problem_count; i++)
        FAIL("%s: %s", c->problems[i].file, c->problems[i].err.msg);
    CHECK_INT(c->n, COUNT_OF(rows));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(profile_unrefp_) struct profile *p = NULL;

        CHECK_OK(catalog_find(c, str_from(rows[i].id), &p, &e), e);
        CHECK_STR(str_from(p->extension), rows[i].extension);
        CHECK(p->description != NULL);
    }
}
