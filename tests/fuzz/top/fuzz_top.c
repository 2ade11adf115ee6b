/* SPDX-License-Identifier: Apache-2.0 */
/* The live view takes keys in pieces that end anywhere, and events of the daemon: the keys use up their
 * bytes, and a frame has as many lines as the terminal, without a byte that a terminal acts on. */
#include <stdint.h>
#include <stdlib.h>

#include "base/own.h"
#include "cli/keys.h"
#include "cli/top.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_top(bool good)
{
    if (!good)
        abort();
}

static void press_fuzzed_keys(struct str in)
{
    while (in.n) {
        size_t before = in.n;

        (void)keys_next(&in);
        check_top(in.n < before);
    }
}

static void check_fuzzed_frame(const struct top *t)
{
    AUTO(frame_done) struct frame f;

    frame_init(&f, 12, 60);
    top_draw(t, 0, &f);
    check_top(f.n == 12);
    for (size_t i = 0; i < f.text.n; i++)
        check_top((unsigned char)f.text.p[i] >= ' ' && f.text.p[i] != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct top t;
    struct str rest = { (const char *)data, size }, line;

    press_fuzzed_keys(rest);
    top_init(&t);
    while (rest.p && rest.n) {
        rest = str_cut(rest, '\n', &line);
        (void)top_add_denial(&t, line);
    }
    check_fuzzed_frame(&t);
    top_done(&t);
    return 0;
}
