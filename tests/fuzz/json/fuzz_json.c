/* SPDX-License-Identifier: Apache-2.0 */
/* Reading, writing and reading again gives the same tree, in both styles; so does the way through a
 * struct and back. */
#include <stdlib.h>

#include "base/own.h"
#include "lib/json/reader.h"
#include "unit/lib/json/sample.h"

enum { MEMORY = 16 << 20 };

static const struct json_limits limits = { .bytes = MEMORY, .depth = 64, .places = true };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_tree(const struct json *v, enum json_style style, struct arena *a)
{
    AUTO(buf_done) struct buf text = BUF_INIT(MEMORY);
    const struct json *again;
    struct json_writer w;

    json_writer_init(&w, &text, style);
    json_put_tree(&w, v);
    must(json_writer_finish(&w, NULL) == 0);
    must(json_read(buf_str(&text), limits, a, &again, NULL) == 0);
    must(json_equal(v, again));
}

static int through_struct(const struct json *v, struct buf *out, struct arena *a)
{
    struct sample s = { 0 };
    struct json_writer w;
    int r = json_bind(v, sample_fields, COUNT_OF(sample_fields), &s, a, NULL);

    if (r < 0)
        return r;
    json_writer_init(&w, out, JSON_COMPACT);
    json_unbind(&s, sample_fields, COUNT_OF(sample_fields), &w);
    return json_writer_finish(&w, NULL);
}

static void check_struct(const struct json *v, struct arena *a)
{
    AUTO(buf_done) struct buf once = BUF_INIT(MEMORY);
    AUTO(buf_done) struct buf twice = BUF_INIT(MEMORY);
    const struct json *again;

    if (through_struct(v, &once, a) < 0)
        return;
    must(json_read(buf_str(&once), limits, a, &again, NULL) == 0);
    must(through_struct(again, &twice, a) == 0);
    must(str_eq(buf_str(&once), buf_str(&twice)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(8 * MEMORY);
    const struct json *v;
    struct err e;

    if (json_read((struct str){ (const char *)data, size }, limits, &a, &v, &e) < 0)
        return 0;
    check_tree(v, JSON_COMPACT, &a);
    check_tree(v, JSON_PRETTY, &a);
    check_struct(v, &a);
    return 0;
}
