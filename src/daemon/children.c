/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/children.h"

int children_check(const struct children *c, struct err *e)
{
    if (c->n >= c->max)
        return err_set(e, ERR_BUSY, "there are %zu %s already; try again later", c->n, c->what);
    return 0;
}

void children_add(struct children *c, pid_t pid, uint64_t id)
{
    c->child[c->n++] = (struct child){ pid, id };
}

pid_t children_find(const struct children *c, uint64_t id)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->child[i].id == id)
            return c->child[i].pid;
    return 0;
}

void children_ended(struct children *c, pid_t pid)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->child[i].pid == pid) {
            c->child[i] = c->child[--c->n];
            return;
        }
}
