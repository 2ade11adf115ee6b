/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/decide.h"

#include "base/own.h"
#include "harness/tap.h"

static const struct {
    const char *target;
    unsigned depth;
    bool out;
} links[] = {
    { "file", 0, false },     { "a/b/c", 0, false },    { "./a", 0, false },
    { "../a", 1, false },     { "../../a", 2, false },  { "..", 1, false },
    { ".", 0, false },        { "a..b/..c", 0, false }, { "a//b/", 0, false },
    { "", 3, true },          { "/", 3, true },         { "/etc/passwd", 3, true },
    { "..", 0, true },        { "../a", 0, true },      { "../../a", 1, true },
    { "./../a", 0, true },    { "a/../../b", 5, true }, { "a/..", 5, true },
    { ".././../a", 1, true }, { "..//../a", 1, true },
};

TEST(targets)
{
    for (size_t i = 0; i < COUNT_OF(links); i++)
        if (link_leads_out(str_from(links[i].target), links[i].depth) != links[i].out)
            FAIL("'%s' at depth %u", links[i].target, links[i].depth);
}
