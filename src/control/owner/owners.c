/* SPDX-License-Identifier: Apache-2.0 */
#include "control/owner/owners.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"

static struct owner *find_owner_entry(const struct map *x, const char *name)
{
    struct map_entry *v = map_find(x, str_from(name));

    return v ? container_of(v, struct owner, entry) : NULL;
}

struct owner *owner_join(struct map *x, const char *name)
{
    struct owner *o = find_owner_entry(x, name);

    if (!o) {
        o = new0(sizeof *o);
        snprintf(o->name, sizeof o->name, "%s", name);
        o->entry.id = o->name;
        map_add(x, &o->entry);
    }
    o->n++;
    return o;
}

void owner_leave(struct map *x, struct owner *o)
{
    if (!o || --o->n)
        return;
    map_remove(x, &o->entry);
    free(o);
}

size_t owner_count(const struct map *x, const char *name)
{
    const struct owner *o = find_owner_entry(x, name);

    return o ? o->n - o->failed : 0;
}
