/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/time_text.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/own.h"

void when_span(int64_t ns, char out[static WHEN_TEXT])
{
    static const struct {
        char name;
        long long seconds;
    } units[] = { { 'd', 86400 }, { 'h', 3600 }, { 'm', 60 }, { 's', 1 } };
    long long left = (ns < 0 ? 0 : ns) / NS_PER_S;
    size_t at = 0;

    while (at + 1 < COUNT_OF(units) && left < units[at].seconds)
        at++;
    if (at + 1 < COUNT_OF(units) && left % units[at].seconds >= units[at + 1].seconds)
        snprintf(out, WHEN_TEXT, "%lld%c%lld%c", left / units[at].seconds, units[at].name,
                 left % units[at].seconds / units[at + 1].seconds, units[at + 1].name);
    else
        snprintf(out, WHEN_TEXT, "%lld%c", left / units[at].seconds, units[at].name);
}

void when_ago(int64_t then, int64_t now, char out[static WHEN_TEXT])
{
    char span[WHEN_TEXT];

    when_span(now - then, span);
    snprintf(out, WHEN_TEXT, now - then < NS_PER_S ? "now" : "%.19s ago", span);
}

void when_until(int64_t then, int64_t now, char out[static WHEN_TEXT])
{
    char span[WHEN_TEXT];

    when_span(then - now, span);
    snprintf(out, WHEN_TEXT, then <= now ? "due" : "in %.20s", span);
}
