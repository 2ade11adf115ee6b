/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/side_channels.h"

#include "base/own.h"
#include "harness/tap.h"

TEST(what_the_kernel_says_of_speculation)
{
    static const struct {
        int got; /* as prctl(2) documents it */
        enum side_channel_state state;
    } cases[] = {
        { 0, SIDE_CHANNEL_NONE },       { 1 | 2, SIDE_CHANNEL_CLOSED },
        { 1 | 4, SIDE_CHANNEL_CLOSED }, { 1 | 8, SIDE_CHANNEL_CLOSED },
        { 2, SIDE_CHANNEL_OPEN },       { 4, SIDE_CHANNEL_CLOSED },
        { -22, SIDE_CHANNEL_UNKNOWN },
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++)
        CHECK_INT(side_channel_of_speculation(cases[i].got), cases[i].state);
}

TEST(every_channel_can_be_probed)
{
    for (size_t i = 0; i < side_channel_count; i++)
        CHECK(side_channels[i].probe() <= SIDE_CHANNEL_UNKNOWN);
}
