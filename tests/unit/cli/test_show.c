/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/show.h"

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"
#include "lib/json/reader.h"

enum { MEMORY = 1 << 20 };

static void check(show_fn *show, const char *json, const char *want)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
    AUTO(buf_done) struct buf out = BUF_INIT(1024);
    const struct json *v = NULL;
    struct err e;

    if (json)
        CHECK_OK(json_read(str_from(json), (struct json_limits){ MEMORY, 64, false }, &a, &v, &e),
                 e);
    show(v, 7200 * NS_PER_S, &out);
    CHECK_STR(buf_str(&out), want);
}

TEST(values_for_people)
{
    check(show_text, NULL, "");
    check(show_text, "true", "yes");
    check(show_text, "-5", "-5");
    check(show_text, "18446744073709551615", "18446744073709551615");
    check(show_text, "1.5", "1.5");
    check(show_text, "{\"a\":\"b\",\"c\":1}", "a=b, c=1");
    check(show_text, "[\"x\",{\"y\":1},[]]", "x, {…}, […]");
    check(show_age, "\"1970-01-01T00:00:00Z\"", "2h ago");
    check(show_age, "\"yesterday\"", "yesterday");
    check(show_age, "7", "");
    check(show_until, "\"1970-01-01T03:58:00Z\"", "in 1h58m");
    check(show_seconds, "7200", "2h");
    check(show_seconds, "\"2h\"", "2h");
    check(show_seconds, "1e300", "1e+300");
    check(show_bytes, "512", "512");
    check(show_bytes, "1536", "1.5K");
    check(show_bytes, "68719476736", "64G");
    check(show_bytes, "-1", "-1");
    check(show_command, "[\"sh\",\"-c\",\"echo 'a'\",\"\"]", "sh -c 'echo '\\''a'\\''' ''");
}

TEST(outcomes_of_processes)
{
    check(show_outcome, "{\"state\":\"running\"}", "running");
    check(show_outcome, "{\"state\":\"exited\",\"exit_code\":3,\"signal\":\"\"}", "exit 3");
    check(show_outcome, "{\"state\":\"exited\",\"exit_code\":0,\"signal\":\"KILL\"}",
          "signal KILL");
    check(show_outcome, "{\"state\":\"exited\",\"signal\":\"KILL\",\"timed_out\":true}",
          "timed out");
}
