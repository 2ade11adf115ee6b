/* SPDX-License-Identifier: Apache-2.0 */
/* A text that is read as a recipe is the same again when it was written and read once more; a
 * refusal names a field. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/own.h"
#include "domain/agent/recipe.h"
#include "lib/json/reader.h"
#include "lib/yaml/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct json_limits limits = { .bytes = AGENT_RECIPE_BYTES,
                                           .depth = 8,
                                           .places = true };

static void require_true(bool good)
{
    if (!good)
        abort();
}

static bool bind_recipe(const struct json *tree, struct agent_recipe *ret, struct arena *a)
{
    const char *field = NULL;
    struct err e = { 0 };

    *ret = (struct agent_recipe){ 0 };
    if (json_bind(tree, agent_recipe_fields, agent_recipe_field_count, ret, a, &e) < 0)
        return false;
    if (agent_recipe_check(ret, &field, &e) >= 0)
        return true;
    require_true(field && e.msg[0]);
    return false;
}

static void print_recipe(const struct agent_recipe *r, struct buf *out)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_unbind(r, agent_recipe_fields, agent_recipe_field_count, &w);
    require_true(json_writer_finish(&w, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(buf_done) struct buf one = BUF_INIT(16 << 20), two = BUF_INIT(16 << 20);
    AUTO(arena_done) struct arena a = ARENA_INIT(64 << 20);
    const struct json_limits wide = { .bytes = 16 << 20, .depth = 8 };
    struct agent_recipe r, again;
    const struct json *tree;

    if (yaml_read((struct str){ (const char *)data, size }, limits, &a, &tree, NULL) < 0 ||
        !bind_recipe(tree, &r, &a))
        return 0;
    print_recipe(&r, &one);
    require_true(json_read(buf_str(&one), wide, &a, &tree, NULL) >= 0);
    require_true(bind_recipe(tree, &again, &a));
    print_recipe(&again, &two);
    require_true(str_eq(buf_str(&one), buf_str(&two)));
    return 0;
}
