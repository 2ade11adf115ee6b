/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever YAML is read is a tree that JSON can hold: written and read as JSON it is the same. */
#include <stdlib.h>

#include "base/own.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"
#include "lib/yaml/reader.h"

enum { MEMORY = 16 << 20 };

static const struct json_limits limits = { .bytes = MEMORY, .depth = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(4 * MEMORY);
    AUTO(buf_done) struct buf text = BUF_INIT(MEMORY);
    const struct json *v, *again;
    struct json_writer w;
    struct err e;

    if (yaml_read((struct str){ (const char *)data, size }, limits, &a, &v, &e) < 0)
        return 0;
    json_writer_init(&w, &text, JSON_COMPACT);
    json_put_tree(&w, v);
    must(json_writer_finish(&w, NULL) == 0);
    must(json_read(buf_str(&text), limits, &a, &again, NULL) == 0);
    must(json_equal(v, again));
    return 0;
}
