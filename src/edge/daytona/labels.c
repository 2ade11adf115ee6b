/* SPDX-License-Identifier: Apache-2.0 */
/* Clients' labels, stored as labels with escaped names (metadata.h), and the sandbox's name, which
 * is stored as a reserved label. */
#include "edge/daytona/internal.h"
#include "edge/core/metadata.h"
#include "lib/json/reader.h"

#define RESERVED "daytona/"

int daytona_make_labels(struct call *c, const struct json_map *given, const char *name,
                        struct json_map *ret, struct err *e)
{
    struct json_map written;
    struct json_pair *all;
    size_t n = 0;
    int r = metadata_to_labels(given, &c->arena, &written, e);

    if (r < 0)
        return r;
    all = arena_array(&c->own, written.n + 1, sizeof *all);
    if (!all)
        return err_set(e, ERR_TOO_BIG,
                       "labels: %zu labels need more memory than the allowed %zu bytes",
                       written.n + 1, c->own.max);
    for (size_t i = 0; i < written.n; i++) /* no reserved names: slashes are escaped */
        all[n++] = written.p[i];
    if (name && name[0]) {
        all[n++] = (struct json_pair){ DAYTONA_NAME, name };
        r = label_check(STR(DAYTONA_NAME), str_from(name), e);
    }
    *ret = (struct json_map){ all, n };
    return r < 0 ? err_wrap(e, r, "name") : 0;
}

void daytona_labels_write(struct json_writer *w, const struct json_map *labels)
{
    struct json_pair shown[REQUEST_LABELS_MAX];
    struct json_map all = { shown, 0 };

    for (size_t i = 0; i < labels->n && all.n < COUNT_OF(shown); i++)
        if (strncmp(labels->p[i].key, RESERVED, strlen(RESERVED)) != 0)
            shown[all.n++] = labels->p[i];
    metadata_write(w, &all);
}

const char *daytona_sandbox_name(const struct sandbox_record *r)
{
    const char *name = json_map_get(&r->labels, DAYTONA_NAME);

    return name ? name : r->name[0] ? r->name : r->id;
}

struct json_map_holder {
    struct json_map map;
};

int daytona_read_map(struct call *c, struct str text, int64_t most, struct json_map *ret,
                     struct err *e)
{
    const struct json_field field = { "", JSON_KIND_MAP, JSON_AT(struct json_map_holder, map),
                                      .max = most };
    const struct json_limits limits = { .bytes = 64 << 10, .depth = 4 };
    struct json_map_holder m = { 0 };
    const struct json *v;
    struct json member, whole = { .type = JSON_OBJECT, .list = { &member, 1 } };
    int r = json_read(text, limits, &c->arena, &v, e);

    if (r < 0)
        return r;
    member = *v;
    member.key = STR("");
    r = json_bind(&whole, &field, 1, &m, &c->arena, e);
    if (r >= 0)
        *ret = m.map;
    return r;
}
