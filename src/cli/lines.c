/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lines.h"

void lines_done(struct lines *l)
{
    buf_done(&l->kept_);
}

int lines_feed(struct lines *l, struct str piece, struct err *e)
{
    buf_drop(&l->kept_, l->taken_);
    l->taken_ = 0;
    if (buf_add(&l->kept_, piece) >= 0)
        return 0;
    return err_set(e, ERR_TOO_BIG, "the daemon sent a line of more than %d bytes", LINES_MAX);
}

bool lines_next(struct lines *l, struct str *ret)
{
    do {
        if (!lines_torn(l) ||
            !str_cut((struct str){ l->kept_.p + l->taken_, l->kept_.n - l->taken_ }, '\n', ret).p)
            return false;
        l->taken_ += ret->n + 1;
    } while (ret->n == 0);
    return true;
}

bool lines_torn(const struct lines *l)
{
    return l->kept_.n > l->taken_;
}
