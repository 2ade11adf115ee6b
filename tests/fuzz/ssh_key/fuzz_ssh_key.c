/* SPDX-License-Identifier: Apache-2.0 */
/* A key that is taken is one line of two words, and is taken again as it is. Names found in an ELF
 * file or a library cache are inside of it. */
#include <stdint.h>
#include <stdlib.h>

#include "base/own.h"
#include "lib/ssh/elf.h"
#include "lib/ssh/key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_line(struct str line)
{
    size_t blanks = 0;

    for (size_t i = 0; i < line.n; i++) {
        must((unsigned char)line.p[i] >= 0x20 && (unsigned char)line.p[i] < 0x7f);
        blanks += line.p[i] == ' ';
    }
    must(blanks == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(buf_done) struct buf key = BUF_INIT(SSH_KEY_LINE_MAX), again = BUF_INIT(SSH_KEY_LINE_MAX);
    struct str in = { (const char *)data, size };
    struct elf_needs needs;
    struct str path;

    if (ssh_public_key_read(in, &key, NULL) >= 0) {
        check_line(buf_str(&key));
        must(ssh_public_key_read(buf_str(&key), &again, NULL) >= 0);
        must(str_eq(buf_str(&key), buf_str(&again)));
    } else {
        must(key.n == 0);
    }
    if (elf_read(in, &needs))
        for (size_t i = 0; i < needs.n; i++)
            must(needs.needed[i].p >= in.p && needs.needed[i].p + needs.needed[i].n < in.p + in.n);
    if (elf_find_cached(in, STR("libc.so.6"), &path))
        must(path.p >= in.p && path.p + path.n < in.p + in.n);
    return 0;
}
