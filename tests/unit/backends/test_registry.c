/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/backend.h"
#include "base/own.h"
#include "harness/tap.h"

static bool is_offered(const char *extension, const char *level)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct buf yaml AUTO(buf_done) = BUF_INIT(4096);

    CHECK(buf_addf(&yaml, "id: profile.x\nversion: 1\nextension: %s\nisolation: {level: %s}\n",
                   extension, level) >= 0);
    return profile_read(buf_str(&yaml), &p, NULL) >= 0;
}

TEST(profiles_can_ask_for_the_isolation_that_their_backend_has)
{
    for (size_t i = 0; backends[i]; i++)
        for (unsigned level = 0; level < ISOLATION_COUNT_; level++)
            CHECK_INT(is_offered(backends[i]->id, isolation_names[level]),
                      (backends[i]->vector.isolation & 1u << level) != 0);
}

TEST(a_backend_is_found_by_its_id)
{
    for (size_t i = 0; backends[i]; i++)
        CHECK(backend_find(str_from(backends[i]->id)) == backends[i]);
    CHECK(!backend_find(STR("ext.none")));
}
