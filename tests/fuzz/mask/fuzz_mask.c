/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of any bytes, separated by NUL: the copy is bounded, valid UTF-8, and has as many arguments
 * as it says; masked or not, nothing is added but masks. */
#include <stdint.h>
#include <stdlib.h>

#include "base/own.h"
#include "domain/model/command.h"
#include "domain/model/mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_ARGS = 300 };

static void check_mask(bool good)
{
    if (!good)
        abort();
}

static void check_masked_copy(const char *const *argv, size_t n, bool mask)
{
    struct masked m;
    unsigned ends = 0;

    mask_arguments(argv, mask, &m);
    for (size_t i = 0; i < m.text.n; i++)
        ends += m.text.p[i] == '\0';
    check_mask(m.args <= n && m.args <= MASK_ARGS_MAX && ends == m.args);
    check_mask(m.text.n <= MASK_OUT_MAX + MASK_ARGS_MAX && str_is_utf8(buf_str(&m.text)));
    check_mask(m.truncated || m.args == n);
    check_mask(mask || !m.values);
    masked_done(&m);
}

static void read_fuzzed_detail(struct str text)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(8 * COMMAND_JSON_MAX);
    AUTO(buf_done) struct buf out = BUF_INIT(4 * COMMAND_JSON_MAX);
    struct command c;

    if (command_read(text, &c, &a, NULL) >= 0)
        check_mask(command_write(&c, &out, NULL) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *argv[FUZZ_ARGS + 1] = { NULL };
    char *text = malloc(size + 1);
    size_t n = 0;

    check_mask(text != NULL);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    for (size_t at = 0; at < size && n < FUZZ_ARGS; at += strlen(text + at) + 1)
        argv[n++] = text + at;
    check_masked_copy(argv, n, true);
    check_masked_copy(argv, n, false);
    read_fuzzed_detail((struct str){ (const char *)data, size });
    free(text);
    return 0;
}
