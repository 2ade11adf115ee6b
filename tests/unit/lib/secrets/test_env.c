/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/secrets/env.h"

#include "base/own.h"
#include "harness/tap.h"

static void check_round(struct keyring *k, const char *text, unsigned depth, bool sealed)
{
    AUTO(buf_done) struct buf s = BUF_INIT(4096), p = BUF_INIT(4096), gone = BUF_INIT(4096);
    bool lost;

    CHECK(env_seal(k, STR("a"), str_from(text), depth, &s, NULL) >= 0);
    CHECK(sealed == !str_eq(buf_str(&s), str_from(text)));
    CHECK(!sealed || !memmem(s.p, s.n, "hunter2", 7));
    CHECK(env_unseal(k, STR("a"), buf_str(&s), depth, &p, &lost, NULL) >= 0 && !lost);
    CHECK_STR(buf_str(&p), text);
    CHECK(env_erase(buf_str(&s), depth, &gone) >= 0);
    CHECK(!memmem(gone.p, gone.n, "sealed:", 7) || !sealed);
}

TEST(variables_are_sealed_and_the_rest_stays)
{
    AUTO(keyring_freep_) struct keyring *k = NULL, *other = NULL;
    AUTO(buf_done) struct buf s = BUF_INIT(4096), p = BUF_INIT(4096);
    bool lost;

    CHECK(keyring_new(&k, NULL) >= 0 && keyring_new(&other, NULL) >= 0);
    check_round(k, "{\"env\":{\"A\":\"hunter2\"},\"ttl\":60}", 1, true);
    check_round(k, "{\"x\":[{\"y\":1}],\"env\":{\"A\":\"hunter2 \\\" } {\"}}", 1, true);
    check_round(k, "{\"pid\":1,\"request\":{\"argv\":[\"a\"],\"env\":{\"B\":\"hunter2\"}}}", 2,
                true);
    check_round(k, "{\"env\":{}}", 1, false);
    check_round(k, "{\"labels\":{\"env\":\"prod\"}}", 1, false);
    /* A label may be called env, and look like a sealed text. */
    check_round(k, "{\"labels\":{\"env\":\"sealed:1:AAAA\"}}", 1, false);
    check_round(k, "{\"name\":\"\\\"env\\\":{\"}", 1, false);
    check_round(k, "", 1, false);
    check_round(k, "{\"env\":{\"A", 1, true);

    CHECK(env_seal(k, STR("a"), STR("{\"env\":{\"A\":\"hunter2\"},\"ttl\":60}"), 1, &s, NULL) >= 0);
    CHECK(env_unseal(other, STR("a"), buf_str(&s), 1, &p, &lost, NULL) >= 0 && lost);
    CHECK_STR(buf_str(&p), "{\"env\":{},\"ttl\":60}");
}
