/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/own.h"
#include "edge/run_steps/child.h"
#include "edge/run_steps/hook.h"

int step_by_command(const struct step *s, struct str question, struct buf *out, struct err *e)
{
    int64_t deadline = clock_mono() + s->timeout_ns;
    struct hook_child c AUTO(child_done) = CHILD_NONE;
    int r = child_start(&c, s->argv, e);

    while (r >= 0) {
        if (question.n == 0)
            drop_fd(&c.to); /* all input is written */
        r = child_exchange(&c, &question, out, deadline, e);
        if (r == 0)
            return child_wait(&c, deadline, e);
    }
    return r;
}
