/* What dead sandboxes left on the machine. */
#include "control/plane.h"

bool control_knows(void *control, const char *id)
{
    struct control *c = control;

    return index_find(&c->index, str_from(id)) || pool_knows(c, id);
}

struct search {
    struct control *control;
    const struct extension_ops *ops;
    stale_fn *each;
    void *user;
};

static bool known(void *user, const char *id)
{
    const struct search *s = user;

    return control_knows(s->control, id);
}

static void found(void *user, const char *id, const char *what)
{
    const struct search *s = user;

    s->each(s->user, s->ops->id, id, what);
}

/* A record that cannot be read stands for a sandbox that nobody here knows. */
static int check_known(const struct control *c, struct err *e)
{
    if (!c->unreadable)
        return 0;
    return err_set(e, ERR_CONFLICT,
                   "a record could not be read, so what is nobody's "
                   "cannot be told; the log names it");
}

/* Looks at, or begins to remove, what each extension has left. */
static int search(struct control *c, bool sweep, stale_fn *each, void *user, struct err *e)
{
    struct search s = { .control = c, .each = each, .user = user };
    int r = check_known(c, e);

    for (size_t i = 0; r >= 0 && extensions[i]; i++) {
        s.ops = extensions[i];
        if (c->instances[i])
            r = (sweep ? s.ops->sweep : s.ops->stale)(c->instances[i], known, found, &s, e);
        err_wrap(e, r, "looking for what %s left", s.ops->id);
    }
    return r;
}

int control_stale(struct control *c, stale_fn *each, void *user, struct err *e)
{
    return search(c, false, each, user, e);
}

int control_reap_stale(struct control *c, stale_fn *each, void *user, struct err *e)
{
    return search(c, true, each, user, e);
}
