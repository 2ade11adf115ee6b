/* SPDX-License-Identifier: Apache-2.0 */
/* The small parsers of the command line: times, base64, lines, ends of a copy, servers. */
#include <stdlib.h>
#include <string.h>

#include "base/rfc3339.h"
#include "base/own.h"
#include "cli/base64.h"
#include "cli/connect.h"
#include "cli/copy_place.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/time_text.h"

enum { MEMORY = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void try_texts(const char *text)
{
    struct copy_end end;
    struct copy_place at;
    struct daemon_address place;

    if (copy_end(text, &end, NULL) >= 0) {
        struct copy_source s = { end.path, true };
        struct copy_target t = { end.path, COPY_MISSING, false };

        must(!end.sandbox[0] || end.path[0] == '/');
        if (copy_place(&s, &t, &at, NULL) >= 0)
            must(at.dir[0] && !strchr(at.top, '/') && strcmp(at.top, "..") != 0);
    }
    if (place_find(text, &place, NULL) >= 0)
        must(place.tcp ? place.host[0] && place.port[0] : place.path[0] == '/');
}

/* All of it at once or byte by byte gives the same lines. */
static void try_lines(struct str s)
{
    AUTO(lines_done) struct lines whole = LINES_INIT, bytes = LINES_INIT;
    AUTO(buf_done) struct buf a = BUF_INIT(MEMORY), b = BUF_INIT(MEMORY);
    struct str line;

    must(lines_feed(&whole, s, NULL) >= 0);
    while (lines_next(&whole, &line)) {
        buf_add(&a, line);
        buf_add_c(&a, '\n');
    }
    for (size_t i = 0; i < s.n; i++) {
        must(lines_feed(&bytes, (struct str){ s.p + i, 1 }, NULL) >= 0);
        while (lines_next(&bytes, &line)) {
            buf_add(&b, line);
            buf_add_c(&b, '\n');
        }
    }
    must(str_eq(buf_str(&a), buf_str(&b)));
    must(lines_torn(&whole) == lines_torn(&bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(buf_done) struct buf text = BUF_INIT(MEMORY), out = BUF_INIT(4 * MEMORY);
    struct str s = { (const char *)data, size };
    int64_t ns = -1;

    if (size == 0 || size > 4096 || buf_add(&text, s) < 0)
        return 0;
    must(!rfc3339_parse(s, &ns) || ns >= 0);
    base64_decode(s, &out);
    buf_clear(&out);
    must(output_clean(s, &out) == 0);
    for (size_t i = 0; i < out.n; i++)
        must((unsigned char)out.p[i] >= 0x20 || out.p[i] == '\n' || out.p[i] == '\t');
    try_lines(s);
    try_texts(text.p);
    return 0;
}
