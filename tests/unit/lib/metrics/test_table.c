/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/metrics/metrics.h"

#include <math.h>

#include "base/own.h"
#include "harness/tap.h"

#define GAUGE(n, ...)                                                                              \
    {                                                                                              \
        .kind = METRIC_GAUGE, .name = (n), .help = "Help.", __VA_ARGS__                            \
    }

static const struct metric_label colour = METRIC_LABEL("colour", "red", "green");
static const struct metric_label same = METRIC_LABEL("colour", "blue");
static const struct metric_label reserved = METRIC_LABEL("le", "1");
static const struct metric_label upper = METRIC_LABEL("Colour", "red");
static const struct metric_label quote = METRIC_LABEL("colour", "r\"ed");
static const struct metric_label twice = METRIC_LABEL("colour", "red", "red");
static const struct metric_label empty = { .name = "colour" };
static const double rising[] = { 1, 2 }, falling[] = { 2, 1 }, infinite[] = { 1, INFINITY };
static const double many[METRIC_BUCKETS_MAX + 1] = { 0 };

TEST(tables_that_prometheus_would_not_take)
{
    static const struct {
        struct metric metric;
        const char *why;
    } bad[] = {
        { GAUGE(NULL, ), "no name" },
        { GAUGE("", ), "no name" },
        { GAUGE("other_things", ), "no name" },
        { GAUGE("sandboxer_Things", ), "no name" },
        { GAUGE("sandboxer_a-b", ), "no name" },
        { GAUGE("sandboxer_things_total", ), "_total" },
        { { .kind = METRIC_COUNTER, .name = "sandboxer_things", .help = "H." }, "_total" },
        { GAUGE("sandboxer_things_count", ), "histograms" },
        { GAUGE("sandboxer_things_bucket", ), "histograms" },
        { GAUGE("sandboxer_things_sum", ), "histograms" },
        { { .kind = METRIC_GAUGE, .name = "sandboxer_things" }, "help" },
        { { .kind = METRIC_GAUGE, .name = "sandboxer_things", .help = "a\nb" }, "help" },
        { GAUGE("sandboxer_things", .labels = { &colour, &same }), "twice" },
        { GAUGE("sandboxer_things", .labels = { &reserved }), "label" },
        { GAUGE("sandboxer_things", .labels = { &upper }), "label" },
        { GAUGE("sandboxer_things", .labels = { &empty }), "label" },
        { GAUGE("sandboxer_things", .labels = { &quote }), "escaping" },
        { GAUGE("sandboxer_things", .labels = { &twice }), "twice" },
        { GAUGE("sandboxer_things", METRIC_BUCKETS(rising)), "buckets" },
        { { .kind = METRIC_HISTOGRAM, .name = "sandboxer_things", .help = "H." }, "buckets" },
        { { .kind = METRIC_HISTOGRAM,
            .name = "sandboxer_h",
            .help = "H.",
            METRIC_BUCKETS(falling) },
          "rise" },
        { { .kind = METRIC_HISTOGRAM,
            .name = "sandboxer_h",
            .help = "H.",
            METRIC_BUCKETS(infinite) },
          "rise" },
        { { .kind = METRIC_HISTOGRAM, .name = "sandboxer_h", .help = "H.", METRIC_BUCKETS(many) },
          "buckets" },
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e = { .code = ERR_OK };

        if (metric_check(&bad[i].metric, &e) != -ERR_BUG || !strstr(e.msg, bad[i].why))
            FAIL("row %zu: '%s' does not say '%s'", i, e.msg, bad[i].why);
    }
}

TEST(the_number_of_series_has_a_limit)
{
    static const char *values[65];
    static char texts[65][4];
    const struct metric_label a = { "a", values, 65 }, b = { "b", values, 64 };
    struct metric m = GAUGE("sandboxer_things", .labels = { &a, &b });
    struct err e;

    for (size_t i = 0; i < COUNT_OF(values); i++) {
        snprintf(texts[i], sizeof texts[i], "%zu", i);
        values[i] = texts[i];
    }
    CHECK_INT(metric_check(&m, &e), -ERR_BUG);
    CHECK(strstr(e.msg, "4096"));
    m.labels[0] = &(struct metric_label){ "a", values, 64 };
    CHECK_OK(metric_check(&m, &e), e);
    CHECK_INT(metric_series(&m), 4096);
}
