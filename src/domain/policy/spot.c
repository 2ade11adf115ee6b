/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/spot.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "lib/yaml/file.h"

enum { NOTES_MAX = 64 };

static size_t endpoint_index(const struct policy_spot *s)
{
    return (size_t)(s->ep - (const struct egress_endpoint *)s->entry->endpoints.p);
}

void spot_name(const struct policy_spot *s, char out[static SPOT_TEXT])
{
    char key[EGRESS_NAME_MAX + 1];

    out[0] = '\0';
    if (!s->entry)
        return;
    log_printable(str_from(s->entry->key), key, sizeof key);
    if (s->places.list && s->ep)
        snprintf(out, SPOT_TEXT, "%s[%zu]", s->places.list, endpoint_index(s));
    else if (s->places.list)
        snprintf(out, SPOT_TEXT, "%s", s->places.list);
    else if (s->ep)
        snprintf(out, SPOT_TEXT, "network_policies.%s.endpoints[%zu]", key, endpoint_index(s));
    else
        snprintf(out, SPOT_TEXT, "network_policies.%s", key);
}

static const struct json *item_at(const struct json *list, size_t i)
{
    return list && list->type >= JSON_ARRAY && i < list->list.n ? &list->list.p[i] : NULL;
}

static const struct json *member_at(const struct json *object, struct str key)
{
    return object ? json_get(object, key) : NULL;
}

/* Finds the value by position, because keys may contain any character. */
static const struct json *spot_value(const struct policy_spot *s)
{
    const struct egress_entry *entries = s->policy->network_policies.p;
    const struct json *v = s->places.document;

    if (!v || !s->entry)
        return v;
    if (s->places.list) {
        v = member_at(member_at(v, STR("network")), STR("egress"));
        return s->ep ? item_at(v, endpoint_index(s)) : v;
    }
    v = item_at(member_at(v, STR("network_policies")), (size_t)(s->entry - entries));
    return v && s->ep ? item_at(member_at(v, STR("endpoints")), endpoint_index(s)) : v;
}

int spot_fail_(const struct policy_spot *s, enum err_code code, const char *field, const char *fmt,
               ...)
{
    char name[SPOT_TEXT], line[24] = "", reason[sizeof s->e->msg];
    const struct json *v = spot_value(s);
    bool whole;
    va_list ap;

    if (v && field)
        v = yaml_file_at(v, field, &whole); /* the field, or the deepest value that exists */
    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    spot_name(s, name);
    if (v && v->line)
        snprintf(line, sizeof line, "line %" PRIu32 ": ", v->line);
    return err_set(s->e, code, "%s%s%s%s: %s", line, name, field && *name ? "." : "",
                   field ? field : "", reason);
}

int spot_no_room(const struct policy_spot *s)
{
    return err_set(s->e, ERR_TOO_BIG, "the policy needs more memory than is allowed");
}

int spot_note(const struct policy_spot *s, const char *fmt, ...)
{
    struct json_strs *notes = &s->policy->notes;
    char name[SPOT_TEXT], reason[256], text[SPOT_TEXT + 256 + 4];
    const char **list;
    va_list ap;

    if (notes->n == NOTES_MAX)
        return 0;
    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    spot_name(s, name);
    snprintf(text, sizeof text, "%s%s%s", name, *name ? ": " : "", reason);
    list = arena_array(s->arena, notes->n + 1, sizeof *list);
    if (!list)
        return spot_no_room(s);
    if (notes->n)
        memcpy(list, notes->p, notes->n * sizeof *list);
    list[notes->n] = arena_dup(s->arena, str_from(text));
    if (!list[notes->n])
        return spot_no_room(s);
    *notes = (struct json_strs){ list, notes->n + 1 };
    return 0;
}
