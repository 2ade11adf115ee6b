/* SPDX-License-Identifier: Apache-2.0 */
/* flow: the two ends of a pipe, doing as little as possible besides.
 *
 *   flow write BYTES BLOCK    writes BYTES to stdout, BLOCK at a time
 *   flow read BLOCK           reads stdin to its end; prints, as JSON, the bytes and the
 *                             nanoseconds from the first byte to the end
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static int write_all(char *block, size_t size, long long bytes)
{
    while (bytes > 0) {
        ssize_t n = write(STDOUT_FILENO, block, (long long)size < bytes ? size : (size_t)bytes);

        if (n < 0 && errno != EINTR)
            return 1;
        if (n > 0)
            bytes -= n;
    }
    return 0;
}

static int read_all(char *block, size_t size)
{
    int64_t begin = 0;
    long long bytes = 0;
    ssize_t n;

    while ((n = read(STDIN_FILENO, block, size)) != 0) {
        if (n < 0 && errno != EINTR)
            return 1;
        if (n > 0 && !begin)
            begin = clock_mono();
        if (n > 0)
            bytes += n;
    }
    printf("{\"bytes\":%lld,\"ns\":%lld}\n", bytes, (long long)(begin ? clock_mono() - begin : 0));
    return 0;
}

int main(int argc, char **argv)
{
    int writes = argc == 4 && strcmp(argv[1], "write") == 0;
    int reads = argc == 3 && strcmp(argv[1], "read") == 0;
    size_t size = writes || reads ? strtoul(argv[argc - 1], NULL, 10) : 0;
    char *block = size ? calloc(1, size) : NULL;

    if (!block) {
        fprintf(stderr, "usage: flow write BYTES BLOCK | flow read BLOCK\n");
        return 2;
    }
    memset(block, 'x', size); /* pages of its own, not the shared zero page */
    return writes ? write_all(block, size, strtoll(argv[2], NULL, 10)) : read_all(block, size);
}
