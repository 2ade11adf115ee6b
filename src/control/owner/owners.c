#include "control/owners.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"

static struct owner *find(const struct index *x, const char *name)
{
    struct index_entry *v = index_find(x, str_from(name));

    return v ? container_of(v, struct owner, entry) : NULL;
}

struct owner *owner_join(struct index *x, const char *name)
{
    struct owner *o = find(x, name);

    if (!o) {
        o = calloc(1, sizeof *o);
        if (!o)
            abort();
        snprintf(o->name, sizeof o->name, "%s", name);
        o->entry.id = o->name;
        index_add(x, &o->entry);
    }
    o->n++;
    return o;
}

void owner_leave(struct index *x, struct owner *o)
{
    if (!o || --o->n)
        return;
    index_remove(x, &o->entry);
    free(o);
}

size_t owner_count(const struct index *x, const char *name)
{
    const struct owner *o = find(x, name);

    return o ? o->n - o->failed : 0;
}
