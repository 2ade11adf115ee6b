/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/caps.h"

#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

/* What /proc/self/status says: "CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb". */
static uint64_t shown(const char *name)
{
    unsigned long long v = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");

    CHECK(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0)
            CHECK(sscanf(line + strlen(name), ":\t%llx", &v) == 1);
    fclose(f);
    return v;
}

static void need_root(void)
{
    if (geteuid() != 0 || !(shown("CapPrm") & CAP_BIT(CAP_SETPCAP)))
        SKIP("only root has capabilities to give up");
}

TEST(permitted_is_what_the_kernel_shows)
{
    CHECK(caps_permitted() == shown("CapPrm"));
}

TEST(sets_become_exactly_what_is_asked_for)
{
    uint64_t keep = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_SETFCAP) | CAP_BIT(CAP_SYSLOG); /* two words */
    struct err e;

    need_root();
    keep &= shown("CapPrm");
    CHECK_OK(caps_set(keep, CAP_BIT(CAP_CHOWN), &e), e);
    CHECK(shown("CapPrm") == keep && shown("CapEff") == keep);
    CHECK(shown("CapInh") == CAP_BIT(CAP_CHOWN));
    CHECK(caps_permitted() == keep);
}

TEST(nothing_is_gained)
{
    struct err e;

    need_root();
    CHECK_OK(caps_set(CAP_BIT(CAP_KILL), 0, &e), e);
    CHECK_OK(caps_set(UINT64_MAX, UINT64_MAX, &e), e);
    CHECK(shown("CapEff") == CAP_BIT(CAP_KILL) && shown("CapInh") == CAP_BIT(CAP_KILL));
    CHECK_OK(caps_set(0, UINT64_MAX, &e), e);
    CHECK(shown("CapPrm") == 0 && shown("CapInh") == 0);
}

TEST(the_bounding_set_keeps_what_is_named)
{
    uint64_t keep = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_CHECKPOINT_RESTORE);
    struct err e;

    need_root();
    keep &= shown("CapBnd");
    CHECK_OK(caps_bound(UINT64_MAX, keep, &e), e);
    CHECK(shown("CapBnd") == keep);
    CHECK_OK(caps_bound(UINT64_MAX, 0, &e), e);
    CHECK(shown("CapBnd") == 0);
}

TEST(the_bounding_set_is_not_everybodys)
{
    struct err e;

    need_root();
    CHECK_OK(caps_set(0, 0, &e), e);
    CHECK_INT(caps_bound(UINT64_MAX, 0, &e), -ERR_SYS);
}

TEST(the_ambient_set_is_replaced)
{
    uint64_t both = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_KILL);
    struct err e;

    need_root();
    CHECK_OK(caps_set(both, both, &e), e);
    CHECK_OK(caps_ambient(both, &e), e);
    CHECK(shown("CapAmb") == both);
    CHECK_OK(caps_ambient(CAP_BIT(CAP_KILL), &e), e);
    CHECK(shown("CapAmb") == CAP_BIT(CAP_KILL));
    CHECK_INT(caps_ambient(CAP_BIT(CAP_SYS_ADMIN), &e), -ERR_SYS); /* it is not ours any more */
    CHECK_OK(caps_ambient(0, &e), e);
    CHECK(shown("CapAmb") == 0);
}

TEST(names)
{
    static const struct {
        const char *name;
        int cap;
    } good[] = { { "CHOWN", CAP_CHOWN },     { "chown", CAP_CHOWN },
                 { "cap_chown", CAP_CHOWN }, { "CAP_SYS_ADMIN", CAP_SYS_ADMIN },
                 { "Setfcap", CAP_SETFCAP }, { "CHECKPOINT_RESTORE", CAP_CHECKPOINT_RESTORE },
                 { "bpf", CAP_BPF } };
    static const char *const bad[] = {
        "", "CAP_", "CHOW", "CHOWNX", "CAP_CAP_CHOWN", " CHOWN", "0"
    };
    int cap;

    for (size_t i = 0; i < COUNT_OF(good); i++) {
        if (!caps_from_name(str_from(good[i].name), &cap) || cap != good[i].cap)
            FAIL("'%s'", good[i].name);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (caps_from_name(str_from(bad[i]), &cap))
            FAIL("'%s' is capability %d", bad[i], cap);
}

TEST(every_capability_has_its_number)
{
    for (int i = 0; i <= CAP_LAST_CAP; i++) {
        int cap = -1;

        CHECK(caps_from_name(str_from(caps_name(i)), &cap));
        CHECK_INT(cap, i);
    }
    CHECK_STR(str_from(caps_name(-1)), "unknown");
    CHECK_STR(str_from(caps_name(CAP_LAST_CAP + 1)), "unknown");
}
