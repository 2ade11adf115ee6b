/* SPDX-License-Identifier: Apache-2.0 */
/* Decompresses a stream with the program for its format, in a process that is confined to its input
 * and output.
 *
 *     AUTO(decompress_end) struct decompress d = DECOMPRESS_NONE;
 *
 *     r = decompress_start(&d, fd, e);
 *     …  reads d.plain to its end, then closes it
 *     r = decompress_finish(&d, e);
 */
#ifndef LIB_TAR_DECOMPRESS_H
#define LIB_TAR_DECOMPRESS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct decompress {
    int plain; /* descriptor of the plain data; -1: the input is not compressed */
    pid_t pid_, feeder_;
    const char *program_;
};
#define DECOMPRESS_NONE ((struct decompress){ .plain = -1 })

/* `fd` is a file, read from its current offset, or a pipe. If it is compressed with gzip, xz or
 * zstd, starts the program of that name from /usr/bin or /bin and waits until it runs;
 * -ERR_UNSUPPORTED if the program is absent. The process dies with the calling thread. SIGCHLD must
 * not be ignored. */
int decompress_start(struct decompress *d, int fd, struct err *e);
/* Like decompress_start(), for n bytes of a file from `at` on. The file's offset is not used, and
 * may change. Another process feeds the program, which therefore cannot read the rest of the
 * file. */
int decompress_start_part(struct decompress *d, int fd, uint64_t at, uint64_t n, struct err *e);

/* Closes the output, which may have been read in part only, and waits for the program. -ERR_INVALID
 * if the input was damaged or truncated. */
int decompress_finish(struct decompress *d, struct err *e);

/* Kills the processes that still run, and closes the output. */
void decompress_end(struct decompress *d);

#endif
