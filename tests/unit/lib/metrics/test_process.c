/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/metrics/process.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

static struct metrics metrics;

/* The number behind a name at the beginning of a line. */
static double written(const char *name)
{
    AUTO(buf_done) struct buf b = BUF_INIT(65536);
    char line[128];
    const char *at;

    CHECK_INT(metrics_write(&metrics, &b), 0);
    snprintf(line, sizeof line, "\n%s ", name);
    at = strstr(b.p, line);
    if (!at)
        FAIL("%s is not written", name);
    return strtod(at + strlen(line), NULL);
}

TEST(the_process_is_described)
{
    struct metric_set s = { 0 };
    double fds, start, now = (double)clock_wall() / 1e9;
    struct err e;
    int fd;

    CHECK_OK(process_metrics_register(&metrics, &s, &e), e);
    CHECK(written("process_resident_memory_bytes") >= 4096 * 50);
    CHECK(written("process_cpu_seconds_total") >= 0);
    CHECK(written("process_max_fds") >= 3);
    start = written("process_start_time_seconds");
    CHECK(start > now - 3600 && start <= now + 1);

    fds = written("process_open_fds");
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(written("process_open_fds") == fds + 1);
    close(fd);
    CHECK(written("process_open_fds") == fds);
    metrics_unregister(&s);
}

TEST(cpu_time_rises)
{
    struct metric_set s = { 0 };
    double before;
    struct err e;

    CHECK_OK(process_metrics_register(&metrics, &s, &e), e);
    before = written("process_cpu_seconds_total");
    while (written("process_cpu_seconds_total") <= before)
        ;
    CHECK_INT(metrics.bad_updates_, 0);
    metrics_unregister(&s);
}
