/* SPDX-License-Identifier: Apache-2.0 */
/* Our helper programs that serve clients inside a sandbox: one that waits for work does not count
 * as a use.
 *
 * The last line on their standard output says whether they wait. It is kept on disk with the rest
 * of their output, so the answer is the same after a restart of the daemon. */
#include "base/id.h"
#include "control/process/process.h"

enum { TAIL_MAX = 1024 };

#define SESSION_MARK '\036'

/* "run_… end" (edge/code/code_output.h) */
static bool ends_code(struct str line)
{
    struct str id, rest = str_cut(line, ' ', &id);

    return id_valid("run_", id) && str_eq(rest, STR("end"));
}

/* RS "cmd_…<STATUS" (edge/daytona/session_scan.h) */
static bool ends_command(struct str line)
{
    struct str id, status;
    int64_t n;

    if (!line.n || line.p[0] != SESSION_MARK)
        return false;
    status = str_cut((struct str){ line.p + 1, line.n - 1 }, '<', &id);
    return id_valid("cmd_", id) && str_to_i64(status, &n);
}

/* Recognizes the last line of a request; NULL: its requests are processes. */
static bool (*const helper_ends[])(struct str line) = {
    [PROCESS_KERNEL] = ends_code, [PROCESS_SESSION] = ends_command, [PROCESS_SHELL] = NULL
};

/* The last bytes of its standard output. */
static struct str read_output_tail(const struct process *p, char room[static TAIL_MAX])
{
    struct output_cursor at = { 0 };
    size_t n = 0, got;
    int channel;

    if (p->output.total > TAIL_MAX)
        at.at = p->output.total - TAIL_MAX;
    while (n < TAIL_MAX &&
           (got = output_read(&p->output, &at, &channel, room + n, TAIL_MAX - n)) > 0)
        n += channel == 1 ? got : 0;
    return (struct str){ room, n };
}

static struct str cut_last_line(struct str text)
{
    size_t from;

    if (!text.n || text.p[text.n - 1] != '\n')
        return (struct str){ NULL, 0 };
    text.n--;
    for (from = text.n; from && text.p[from - 1] != '\n';)
        from--;
    return (struct str){ text.p + from, text.n - from };
}

bool helper_waits(const struct process *p)
{
    enum process_helper kind = p->request.helper;
    char room[TAIL_MAX];

    if (kind == PROCESS_OF_CLIENT || p->phase != PROCESS_RUNNING)
        return false;
    return !helper_ends[kind] || !p->output.total ||
           helper_ends[kind](cut_last_line(read_output_tail(p, room)));
}
