#include "base/clock.h"
#include "base/own.h"
#include "step/child.h"
#include "step/step.h"

int step_by_command(const struct step *s, struct str question, struct buf *out, struct err *e)
{
    int64_t deadline = clock_mono() + s->timeout_ns;
    struct child c AUTO(child_done) = CHILD_NONE;
    int r = child_start(&c, s->argv, e);

    while (r >= 0) {
        if (question.n == 0)
            drop_fd(&c.to); /* that was all */
        r = child_exchange(&c, &question, out, deadline, e);
        if (r == 0)
            return child_wait(&c, deadline, e);
    }
    return r;
}
