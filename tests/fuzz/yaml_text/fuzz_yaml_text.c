/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever JSON is shown as YAML reads back as the same, and has nothing in it that a terminal acts
 * on. */
#include <stdlib.h>

#include "base/own.h"
#include "lib/json/yaml_text.h"
#include "lib/json/reader.h"
#include "lib/yaml/reader.h"

enum { MEMORY = 16 << 20 };

static const struct json_limits limits = { .bytes = MEMORY, .depth = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static bool is_clean(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if ((c < 0x20 && c != '\n') || c == 0x7F)
            return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(4 * MEMORY);
    AUTO(buf_done) struct buf text = BUF_INIT(MEMORY);
    const struct json *v, *again;

    if (json_read((struct str){ (const char *)data, size }, limits, &a, &v, NULL) < 0)
        return 0;
    must(yaml_text(&text, v) == 0);
    must(is_clean(buf_str(&text)));
    must(yaml_read(buf_str(&text), limits, &a, &again, NULL) == 0);
    must(json_equal(v, again));
    return 0;
}
