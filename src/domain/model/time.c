/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/time.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"

void time_text(int64_t wall_ns, char out[static TIME_TEXT])
{
    time_t seconds = (time_t)(wall_ns / NS_PER_S);
    struct tm t;
    char day[24] = "";

    gmtime_r(&seconds, &t);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(out, TIME_TEXT, "%s.%03dZ", day, (int)(wall_ns / NS_PER_MS % 1000));
}
