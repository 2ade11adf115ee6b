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

int control_stale(struct control *c, stale_fn *each, void *user, struct err *e)
{
    struct search s = { .control = c, .each = each, .user = user };
    int r = 0;

    for (size_t i = 0; r >= 0 && extensions[i]; i++) {
        s.ops = extensions[i];
        if (c->instances[i])
            r = s.ops->stale(c->instances[i], known, found, &s, e);
        err_wrap(e, r, "looking for what %s left", s.ops->id);
    }
    return r;
}

void control_reap_stale(struct control *c)
{
    for (size_t i = 0; extensions[i]; i++)
        if (c->instances[i])
            extensions[i]->sweep(c->instances[i], control_knows, c);
}
