/* SPDX-License-Identifier: Apache-2.0 */
/* An audit file that a worker wrote, whole or torn: lines are found where they are, times are those
 * that a reader of JSON sees, and looking for one ends. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "control/egress/egress_tail_file.h"
#include "lib/json/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define HOLDS(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            abort();                                                                               \
    } while (0)

static void check_line(struct str line)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
    const struct json_limits limits = { .bytes = 1 << 20, .depth = 16 };
    int64_t ms = egress_tail_line_time(line);
    enum egress_tail_kind kind = EGRESS_TAIL_KINDS_;
    const struct json *v, *time;

    if (egress_tail_line_kind(line, &kind))
        HOLDS(kind == EGRESS_TAIL_DENIED || kind == EGRESS_TAIL_ALLOWED ||
              kind == EGRESS_TAIL_CLOSED);
    if (ms < 0 || json_read(line, limits, &a, &v, NULL) < 0)
        return;
    time = json_get(v, STR("time"));
    HOLDS(time && time->type == JSON_INT && time->i == ms);
}

static void check_lines(int fd, const uint8_t *data, size_t n)
{
    char piece[512];
    int64_t at = 0, before = -1;

    while (at > before) {
        size_t got;

        before = at;
        got = egress_tail_file_read(fd, &at, piece, sizeof piece);
        HOLDS(at >= before && at + (int64_t)got <= (int64_t)n);
        HOLDS(!got || (at == before && data[(size_t)at + got - 1] == '\n'));
        for (struct str rest = { piece, got }, line; rest.n;) {
            rest = str_cut(rest, '\n', &line);
            check_line(line);
        }
        at += (int64_t)got;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const int64_t times[] = { 0, 1, 1794805033333, INT64_MAX };
    AUTO_CLOSE int fd = memfd_create("log", MFD_CLOEXEC);

    if (fd < 0 || write(fd, data, n) != (ssize_t)n)
        abort();
    HOLDS(egress_tail_file_name(fd) >= 0);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int64_t at = egress_tail_file_seek(fd, times[i]);

        HOLDS(at == 0 || (at > 0 && at < (int64_t)n && data[at - 1] == '\n'));
    }
    check_lines(fd, data, n);
    return 0;
}
