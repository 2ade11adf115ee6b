/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/metrics/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"

enum { CPU_SECONDS, RESIDENT_BYTES, OPEN_FDS, MAX_FDS, START_TIME };

static const struct metric table[] = {
    [CPU_SECONDS] = { .kind = METRIC_COUNTER,
                      .name = "process_cpu_seconds_total",
                      .help = "User and system CPU time of this process in seconds." },
    [RESIDENT_BYTES] = { .kind = METRIC_GAUGE,
                         .name = "process_resident_memory_bytes",
                         .help = "Resident memory of this process in bytes." },
    [OPEN_FDS] = { .kind = METRIC_GAUGE,
                   .name = "process_open_fds",
                   .help = "Open file descriptors." },
    [MAX_FDS] = { .kind = METRIC_GAUGE,
                  .name = "process_max_fds",
                  .help = "Most file descriptors that may be open." },
    [START_TIME] = { .kind = METRIC_GAUGE,
                     .name = "process_start_time_seconds",
                     .help = "Start of this process, in seconds since 1970." },
};

/* The NUL-terminated beginning of a file; empty if it cannot be read. */
static void read_own_proc_file(const char *path, char *out, size_t cap)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, cap - 1) : -1;

    out[n > 0 ? n : 0] = '\0';
}

/* The number in a text of words with a blank between them, counted from 0. */
static bool read_number_word(const char *text, size_t which, uint64_t *ret)
{
    struct str word, rest = str_from(text);

    do
        rest = str_cut(rest, ' ', &word);
    while (which-- > 0);
    return str_to_u64(word, ret);
}

/* Without ".", ".." and the descriptor that reads them. */
static void refresh_descriptors(struct metric_set *s)
{
    struct rlimit most;
    DIR *d = opendir("/proc/self/fd");
    long n = -3;

    if (d) {
        while (readdir(d))
            n++;
        closedir(d);
        metric_set_to(s, OPEN_FDS, METRIC_ALONE, (double)n);
    }
    if (getrlimit(RLIMIT_NOFILE, &most) == 0)
        metric_set_to(s, MAX_FDS, METRIC_ALONE, (double)most.rlim_cur);
}

static void refresh_process_metrics(struct metric_set *s)
{
    struct rusage u;
    uint64_t pages;
    char text[256];

    read_own_proc_file("/proc/self/statm", text, sizeof text);
    if (read_number_word(text, 1, &pages))
        metric_set_to(s, RESIDENT_BYTES, METRIC_ALONE,
                      (double)pages * (double)sysconf(_SC_PAGESIZE));
    if (getrusage(RUSAGE_SELF, &u) == 0)
        metric_raise_to(s, CPU_SECONDS, METRIC_ALONE,
                        (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                            (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
    refresh_descriptors(s);
}

/* The kernel reports it in ticks since the machine's start, in the 22nd word. The second is a name
 * in parentheses, which may hold anything; the words are counted from its end. */
static void set_start_time(struct metric_set *s)
{
    struct timespec up;
    uint64_t ticks;
    char text[1024];
    const char *end;

    read_own_proc_file("/proc/self/stat", text, sizeof text);
    end = strrchr(text, ')');
    if (!end || !read_number_word(end, 20, &ticks) || clock_gettime(CLOCK_BOOTTIME, &up) < 0)
        return;
    metric_set_to(s, START_TIME, METRIC_ALONE,
                  (double)clock_wall() / 1e9 - ((double)up.tv_sec + (double)up.tv_nsec / 1e9) +
                      (double)ticks / (double)sysconf(_SC_CLK_TCK));
}

int process_metrics_register(struct metrics *m, struct metric_set *s, struct err *e)
{
    int r = metrics_register(m, s, table, COUNT_OF(table), e);

    if (r < 0)
        return r;
    s->refresh = refresh_process_metrics;
    set_start_time(s);
    return 0;
}
