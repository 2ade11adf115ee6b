/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/profile/words.h"

#include "base/own.h"
#include "harness/tap.h"
#include "lib/proc/caps.h"
#include "engine/runtime/plan.h"

#define LONG64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

TEST(words)
{
    static const struct {
        bool (*rule)(struct str);
        const char *text;
        bool good;
    } rows[] = {
        { word_name, "agent-dev", true },
        { word_name, "a", true },
        { word_name, "9a", true },
        { word_name, "", false },
        { word_name, "-a", false },
        { word_name, "a-", false },
        { word_name, "A", false },
        { word_name, "a_b", false },
        { word_name, "a/b", false },
        { word_name, &LONG64[1], true },
        { word_name, LONG64, false },
        { word_profile, "profile.x", true },
        { word_profile, "profile.", false },
        { word_profile, "x", false },
        { word_profile, "profile.x@1", false },
        { word_profile, "profile.../x", false },
        { word_backend, "ext.e2b", true },
        { word_backend, "ext.", false },
        { word_backend, "local", false },
        { word_place, "local", true },
        { word_place, "build1.example.com", true },
        { word_place, "ext.e2b", true },
        { word_place, "a..b", false },
        { word_place, "a.", false },
        { word_place, ".a", false },
        { word_place, "-oProxyCommand=x", false },
        { word_path, "/", true },
        { word_path, "/usr/bin/git", true },
        { word_path, "usr", false },
        { word_path, "/usr/", false },
        { word_path, "/a//b", false },
        { word_path, "/a/../b", false },
        { word_path, "/a/./b", false },
        { word_path, "/a\nb", false },
        { word_user, "root", true },
        { word_user, "_apt", true },
        { word_user, "0", true },
        { word_user, "65535", true },
        { word_user, "65536", false },
        { word_user, "1x", false },
        { word_user, "-x", false },
        { word_user, "", false },
        { word_secret, "e2b/api-key", true },
        { word_secret, "vault:Team/KEY_1", true },
        { word_secret, "a b", false },
        { word_variable, "PATH", true },
        { word_variable, "_x1", true },
        { word_variable, "1x", false },
        { word_variable, "A=B", false },
        { word_variable, "", false },
        { word_image, "registry.example.com/library/debian:12", true },
        { word_image, "/srv/rootfs", true },
        { word_image, "--help", false },
        { word_image, "a b", false },
        { word_image, "", false },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].rule(str_from(rows[i].text)) != rows[i].good)
            FAIL("row %zu: '%s' should be %s", i, rows[i].text, rows[i].good ? "good" : "bad");
}

TEST(capabilities_are_those_that_the_runtime_grants)
{
    for (int cap = 0; cap <= CAP_LAST_CAP; cap++) {
        const char *name = caps_name(cap);

        if (!name)
            continue;
        CHECK_INT(word_capability(str_from(name)), (plan_grantable_caps() & CAP_BIT(cap)) != 0);
    }
    CHECK(!word_capability(STR("")));
}
