/* SPDX-License-Identifier: Apache-2.0 */
/* Orphans: resources on the machine whose sandbox is not known. */
#include "control/control.h"
#include "control/plane/plane.h"
#include "control/sandbox/pool.h"

bool control_knows(void *control, const char *id)
{
    struct control *c = control;

    return map_find(&c->sandboxes, str_from(id)) || pool_knows(c, id);
}

struct stale_search {
    struct control *control;
    const struct backend_ops *ops;
    stale_fn *each;
    void *user;
};

static bool is_known_sandbox(void *user, const char *id)
{
    const struct stale_search *s = user;

    return control_knows(s->control, id);
}

static void on_stale_found(void *user, const char *id, const char *what)
{
    const struct stale_search *s = user;

    s->each(s->user, s->ops->id, id, what);
}

/* Lists, or begins to remove, the orphans of each backend. */
static int search_stale(struct control *c, bool sweep, stale_fn *each, void *user, struct err *e)
{
    struct stale_search s = { .control = c, .each = each, .user = user };
    int r = 0;

    /* An unreadable record belongs to a sandbox that is not in memory, so its resources would look
     * like orphans. */
    if (c->unreadable)
        return err_set(e, ERR_CONFLICT,
                       "a record in the store cannot be read, so orphans cannot be determined; the "
                       "daemon's log names it");
    for (size_t i = 0; r >= 0 && backends[i]; i++) {
        s.ops = backends[i];
        if (c->instances[i])
            r = (sweep ? s.ops->sweep : s.ops->stale)(c->instances[i], is_known_sandbox,
                                                      on_stale_found, &s, e);
        err_wrap(e, r, "searching for orphans of %s", s.ops->id);
    }
    return r;
}

int control_stale(struct control *c, stale_fn *each, void *user, struct err *e)
{
    return search_stale(c, false, each, user, e);
}

int control_reap_stale(struct control *c, stale_fn *each, void *user, struct err *e)
{
    return search_stale(c, true, each, user, e);
}
