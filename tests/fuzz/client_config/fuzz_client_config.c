/* SPDX-License-Identifier: Apache-2.0 */
/* The configurations of MCP clients. The first byte chooses the client. A text that was changed has our
 * entry, is not changed again, and without the entry is a text of the same form. What our JSON reader
 * accepts keeps all its other values. */
#include <stdlib.h>

#include "base/own.h"
#include "cli/clients/clients.h"
#include "lib/json/reader.h"

enum { MEMORY = 16 << 20, INPUT_MAX = 1 << 20 };

static const struct json_limits limits = { .bytes = MEMORY, .depth = JSON_PLAIN_DEPTH };
static const struct client_entry entry = { .command = "/s", .arguments = { "mcp", "é\"" }, .n = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static bool is_ours(const struct client_program *c, const struct json *member, unsigned depth)
{
    return depth < 2 && str_eq(member->key, depth ? STR("sandboxer") : str_from(c->servers));
}

/* Every member of `before` is in `after`, but for our entry. */
static void check_kept(const struct client_program *c, const struct json *before,
                       const struct json *after, unsigned depth)
{
    for (const struct json *m = json_first(before); m != json_end(before); m++) {
        const struct json *now = json_get(after, m->key);

        must(now != NULL);
        if (depth == 0 && is_ours(c, m, 0))
            check_kept(c, m, now, 1);
        else if (depth == 0 || !is_ours(c, m, 1))
            must(json_equal(m, now));
    }
}

static void check_json(const struct client_program *c, struct str before, struct str after)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(4 * MEMORY);
    const struct json *old, *new;

    if (json_read(before, limits, &a, &old, NULL) < 0)
        return;
    must(json_read(after, limits, &a, &new, NULL) >= 0);
    check_kept(c, old, new, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(buf_done)
    struct buf in = BUF_INIT(INPUT_MAX), out = BUF_INIT(JSON_EDIT_MAX),
               again = BUF_INIT(JSON_EDIT_MAX), removed = BUF_INIT(JSON_EDIT_MAX);
    const struct client_program *c;
    int r;

    if (!size || buf_add(&in, (struct str){ (const char *)data + 1, size - 1 }) < 0)
        return 0;
    c = &clients[data[0] % client_count];
    r = client_add(c, buf_str(&in), &entry, &out, NULL);
    if (r < 0) {
        must(r != -(int)ERR_BUG && out.n == 0);
        return 0;
    }
    must(client_add(c, buf_str(&out), &entry, &again, NULL) == 0);
    must(client_remove(c, buf_str(&out), &removed, NULL) == 1);
    buf_clear(&again);
    must(client_remove(c, buf_str(&removed), &again, NULL) == 0);
    if (!c->toml)
        check_json(c, buf_str(&in), buf_str(&out));
    return 0;
}
