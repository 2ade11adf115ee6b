/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/names.h"

#include <stdio.h>

#include "control/sandbox/sandbox.h"

static void write_name_key(struct str name, const char *owner, char ret[static NAMES_KEY])
{
    snprintf(ret, NAMES_KEY, STR_FMT "/%s", STR_ARG(name), owner);
}

void names_join(struct sandbox *s)
{
    if (!s->record.name[0])
        return;
    write_name_key(str_from(s->record.name), s->record.owner, s->name_key);
    s->named.id = s->name_key;
    map_add(&s->control->names, &s->named);
}

void names_leave(struct sandbox *s)
{
    if (s->named.id)
        map_remove(&s->control->names, &s->named);
    s->named.id = NULL;
}

struct sandbox *names_find(const struct control *c, const char *owner, struct str name)
{
    char key[NAMES_KEY];
    struct map_entry *v;

    if (!sandbox_name_fits(name))
        return NULL;
    write_name_key(name, owner, key);
    v = map_find(&c->names, str_from(key));
    return v ? container_of(v, struct sandbox, named) : NULL;
}

int names_check_free(const struct control *c, const struct caller *who, const char *name,
                     const struct sandbox *replaced, struct err *e)
{
    const struct sandbox *s = names_find(c, who->owner, str_from(name));

    if (!s || s == replaced)
        return 0;
    return err_set(e, ERR_CONFLICT,
                   "name: '%s' is the name of %s; choose another name, or destroy that sandbox",
                   name, sandbox_visible(who, &s->record) ? s->record.id : "another sandbox");
}
