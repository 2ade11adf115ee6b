/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/metrics/metrics.h"

#include <math.h>

#include "base/own.h"
#include "harness/tap.h"

enum { STARTS, RUNNING, SECONDS };
enum { OK, FAILED };
enum { RUN, EXEC, FILES };

static const struct metric_label outcome = METRIC_LABEL("outcome", "ok", "failed");
static const struct metric_label verb = METRIC_LABEL("verb", "run", "exec", "files");
static const double seconds[] = { 0.01, 0.1, 1 };

static const struct metric table[] = {
    [STARTS] = { .kind = METRIC_COUNTER,
                 .name = "sandboxer_starts_total",
                 .help = "Starts.",
                 .labels = { &outcome, &verb } },
    [RUNNING] = { .kind = METRIC_GAUGE, .name = "sandboxer_running", .help = "Running." },
    [SECONDS] = { .kind = METRIC_HISTOGRAM,
                  .name = "sandboxer_start_seconds",
                  .help = "Time.",
                  .labels = { &outcome },
                  METRIC_BUCKETS(seconds) },
};

static struct metrics metrics;
static struct metric_set set;

static void setup(void)
{
    struct err e;

    CHECK_OK(metrics_register(&metrics, &set, table, COUNT_OF(table), &e), e);
}

static void check_written(const char *want)
{
    AUTO(buf_done) struct buf b = BUF_INIT(65536);

    CHECK_INT(metrics_write(&metrics, &b), 0);
    if (!strstr(b.p, want))
        FAIL("not written: %s\nbut: %s", want, b.p);
}

TEST(everything_is_written_and_begins_with_zero)
{
    AUTO(buf_done) struct buf b = BUF_INIT(65536);

    setup();
    CHECK_INT(metrics_write(&metrics, &b), 0);
    CHECK_STR(buf_str(&b), "# HELP sandboxer_starts_total Starts.\n"
                           "# TYPE sandboxer_starts_total counter\n"
                           "sandboxer_starts_total{outcome=\"ok\",verb=\"run\"} 0\n"
                           "sandboxer_starts_total{outcome=\"ok\",verb=\"exec\"} 0\n"
                           "sandboxer_starts_total{outcome=\"ok\",verb=\"files\"} 0\n"
                           "sandboxer_starts_total{outcome=\"failed\",verb=\"run\"} 0\n"
                           "sandboxer_starts_total{outcome=\"failed\",verb=\"exec\"} 0\n"
                           "sandboxer_starts_total{outcome=\"failed\",verb=\"files\"} 0\n"
                           "# HELP sandboxer_running Running.\n"
                           "# TYPE sandboxer_running gauge\n"
                           "sandboxer_running 0\n"
                           "# HELP sandboxer_start_seconds Time.\n"
                           "# TYPE sandboxer_start_seconds histogram\n"
                           "sandboxer_start_seconds_bucket{outcome=\"ok\",le=\"0.01\"} 0\n"
                           "sandboxer_start_seconds_bucket{outcome=\"ok\",le=\"0.1\"} 0\n"
                           "sandboxer_start_seconds_bucket{outcome=\"ok\",le=\"1\"} 0\n"
                           "sandboxer_start_seconds_bucket{outcome=\"ok\",le=\"+Inf\"} 0\n"
                           "sandboxer_start_seconds_sum{outcome=\"ok\"} 0\n"
                           "sandboxer_start_seconds_count{outcome=\"ok\"} 0\n"
                           "sandboxer_start_seconds_bucket{outcome=\"failed\",le=\"0.01\"} 0\n"
                           "sandboxer_start_seconds_bucket{outcome=\"failed\",le=\"0.1\"} 0\n"
                           "sandboxer_start_seconds_bucket{outcome=\"failed\",le=\"1\"} 0\n"
                           "sandboxer_start_seconds_bucket{outcome=\"failed\",le=\"+Inf\"} 0\n"
                           "sandboxer_start_seconds_sum{outcome=\"failed\"} 0\n"
                           "sandboxer_start_seconds_count{outcome=\"failed\"} 0\n"
                           "# HELP sandboxer_metrics_bad_updates_total Updates that no table has a "
                           "metric for: each is a bug.\n"
                           "# TYPE sandboxer_metrics_bad_updates_total counter\n"
                           "sandboxer_metrics_bad_updates_total 0\n");
    metrics_unregister(&set);
}

TEST(each_series_counts_for_itself)
{
    setup();
    metric_add(&set, STARTS, METRIC_AT(OK, FILES), 2);
    metric_add(&set, STARTS, METRIC_AT(FAILED, RUN), 1);
    metric_add(&set, STARTS, METRIC_AT(FAILED, RUN), 4);
    metric_set_to(&set, RUNNING, METRIC_ALONE, 7);
    metric_add(&set, RUNNING, METRIC_ALONE, -3);
    check_written("{outcome=\"ok\",verb=\"exec\"} 0\n"
                  "sandboxer_starts_total{outcome=\"ok\",verb=\"files\"} 2\n"
                  "sandboxer_starts_total{outcome=\"failed\",verb=\"run\"} 5\n"
                  "sandboxer_starts_total{outcome=\"failed\",verb=\"exec\"} 0\n");
    check_written("sandboxer_running 4\n");
    CHECK(metric_get(&set, STARTS, METRIC_AT(FAILED, RUN)) == 5);
    CHECK(metric_get(&set, STARTS, METRIC_AT(9, RUN)) == 0);
    metrics_unregister(&set);
}

TEST(a_bucket_holds_its_bound_and_all_below)
{
    static const double values[] = { 0.001, 0.01, 0.05, 1, 1.5 };

    setup();
    for (size_t i = 0; i < COUNT_OF(values); i++)
        metric_observe(&set, SECONDS, METRIC_AT(FAILED), values[i]);
    check_written("sandboxer_start_seconds_bucket{outcome=\"failed\",le=\"0.01\"} 2\n"
                  "sandboxer_start_seconds_bucket{outcome=\"failed\",le=\"0.1\"} 3\n"
                  "sandboxer_start_seconds_bucket{outcome=\"failed\",le=\"1\"} 4\n"
                  "sandboxer_start_seconds_bucket{outcome=\"failed\",le=\"+Inf\"} 5\n"
                  "sandboxer_start_seconds_sum{outcome=\"failed\"} 2.5");
    check_written("sandboxer_start_seconds_count{outcome=\"failed\"} 5\n");
    check_written("sandboxer_start_seconds_count{outcome=\"ok\"} 0\n");
    metrics_unregister(&set);
}

TEST(numbers_are_written_exactly)
{
    setup();
    metric_set_to(&set, RUNNING, METRIC_ALONE, 9007199254740991.0);
    check_written("sandboxer_running 9007199254740991\n");
    metric_set_to(&set, RUNNING, METRIC_ALONE, 0.1);
    check_written("sandboxer_running 0.10000000000000001\n");
    metric_set_to(&set, RUNNING, METRIC_ALONE, -2);
    check_written("sandboxer_running -2\n");
    metrics_unregister(&set);
}

TEST(updates_that_make_no_sense_are_counted_and_ignored)
{
    AUTO(buf_done) struct buf before = BUF_INIT(65536), after = BUF_INIT(65536);

    setup();
    metric_add(&set, STARTS, METRIC_ALONE, 5);
    metric_raise_to(&set, STARTS, METRIC_ALONE, 6);
    CHECK_INT(metrics_write(&metrics, &before), 0);
    metric_add(&set, STARTS, METRIC_AT(2, RUN), 1);
    metric_add(&set, STARTS, METRIC_AT(OK, 3), 1);
    metric_add(&set, RUNNING, METRIC_AT(1), 1);
    metric_add(&set, 3, METRIC_ALONE, 1);
    metric_add(&set, STARTS, METRIC_ALONE, -1);
    metric_add(&set, RUNNING, METRIC_ALONE, NAN);
    metric_raise_to(&set, STARTS, METRIC_ALONE, 5);
    metric_set_to(&set, STARTS, METRIC_ALONE, 1);
    metric_set_to(&set, RUNNING, METRIC_ALONE, INFINITY);
    metric_observe(&set, RUNNING, METRIC_ALONE, 1);
    metric_add(&set, SECONDS, METRIC_ALONE, 1);
    CHECK_INT(metrics_write(&metrics, &after), 0);
    check_written("sandboxer_metrics_bad_updates_total 11\n");
    /* All but the last number is as it was: "0\n" there, "11\n" here. */
    CHECK_INT(memcmp(before.p, after.p, before.n - 2), 0);
    metrics_unregister(&set);
}

TEST(updates_without_registration_do_nothing)
{
    metric_add(&set, STARTS, METRIC_ALONE, 1);
    metric_observe(&set, SECONDS, METRIC_ALONE, 1);
    CHECK(metric_get(&set, STARTS, METRIC_ALONE) == 0);
    setup();
    metrics_unregister(&set);
    metrics_unregister(&set);
    metric_add(&set, STARTS, METRIC_ALONE, 1);
    CHECK_INT(metrics.bad_updates_, 0);
}

TEST(a_name_is_registered_once)
{
    static const struct metric twice[] = {
        { .kind = METRIC_GAUGE, .name = "sandboxer_a", .help = "A." },
        { .kind = METRIC_GAUGE, .name = "sandboxer_a", .help = "A." },
    };
    struct metric_set other = { 0 };
    struct err e;

    setup();
    CHECK_INT(metrics_register(&metrics, &set, table, COUNT_OF(table), &e), -ERR_CONFLICT);
    CHECK_INT(metrics_register(&metrics, &other, &table[RUNNING], 1, &e), -ERR_CONFLICT);
    CHECK(strstr(e.msg, "sandboxer_running"));
    CHECK_INT(metrics_register(&metrics, &other, twice, 2, &e), -ERR_CONFLICT);
    CHECK_OK(metrics_register(&metrics, &other, twice, 1, &e), e);
    check_written("sandboxer_a 0\n");
    metrics_unregister(&other);
    metrics_unregister(&set);
    setup(); /* the names are free again */
    metrics_unregister(&set);
}

TEST(a_bad_table_is_refused_whole)
{
    static const struct metric bad[] = {
        { .kind = METRIC_GAUGE, .name = "sandboxer_good", .help = "Good." },
        { .kind = METRIC_GAUGE, .name = "other_name", .help = "Bad." },
    };
    AUTO(buf_done) struct buf b = BUF_INIT(65536);
    struct metric_set other = { 0 };
    struct err e;

    CHECK_INT(metrics_register(&metrics, &other, bad, COUNT_OF(bad), &e), -ERR_BUG);
    CHECK_INT(metrics_write(&metrics, &b), 0);
    CHECK(!strstr(b.p, "sandboxer_good"));
}

static void count_writing(struct metric_set *s)
{
    metric_add(s, RUNNING, METRIC_ALONE, 1);
}

TEST(a_set_is_refreshed_before_it_is_written)
{
    set.refresh = count_writing;
    setup();
    check_written("sandboxer_running 1\n");
    check_written("sandboxer_running 2\n");
    metrics_unregister(&set);
}

TEST(past_the_ceiling_nothing_is_written)
{
    AUTO(buf_done) struct buf whole = BUF_INIT(65536);

    setup();
    CHECK_INT(metrics_write(&metrics, &whole), 0);
    for (size_t max = 6; max < whole.n + 6; max++) {
        AUTO(buf_done) struct buf b = BUF_INIT(max);

        CHECK_INT(buf_add(&b, STR("before")), 0);
        CHECK_INT(metrics_write(&metrics, &b), -ERR_TOO_BIG);
        CHECK_STR(buf_str(&b), "before");
        CHECK_INT(b.p[b.n], 0);
    }
    metrics_unregister(&set);
}
