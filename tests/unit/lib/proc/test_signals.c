/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/signals.h"

#include <signal.h>

#include "harness/tap.h"

TEST(signals_by_name_and_number)
{
    CHECK_INT(signal_number(STR("TERM")), SIGTERM);
    CHECK_INT(signal_number(STR("sigkill")), SIGKILL);
    CHECK_INT(signal_number(STR("9")), 9);
    CHECK_INT(signal_number(STR("65")), 0);
    CHECK_INT(signal_number(STR("NOPE")), 0);
    CHECK_INT(signal_number(STR("SIG")), 0);
    CHECK_INT(signal_number(STR("")), 0);
    CHECK_STR(str_from(signal_name(SIGHUP)), "HUP");
    CHECK(signal_name(0) == NULL);
    CHECK(signal_name(64) == NULL);
}
