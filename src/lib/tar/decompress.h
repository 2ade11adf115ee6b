/* A compressed stream as a plain one: by the program for it, in a process that has its input and
 * its output and nothing else.
 *
 *     AUTO(decompress_end) struct decompress d = DECOMPRESS_NONE;
 *
 *     r = decompress_start(&d, fd, e);
 *     …  reads d.plain to its end, then closes it
 *     r = decompress_finish(&d, e);
 */
#ifndef TREE_DECOMPRESS_H
#define TREE_DECOMPRESS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct decompress {
    int plain; /* what to read; -1 if it is not compressed: read it as it is */
    pid_t pid_, feeder_;
    const char *program_;
};
#define DECOMPRESS_NONE ((struct decompress){ .plain = -1 })

/* `fd` is a file, looked at from its current offset, or a pipe. If it is compressed with gzip, xz
 * or zstd, starts the program of that name in /usr/bin or /bin and makes sure that it runs;
 * -ERR_UNSUPPORTED if there is no such program. It dies with the calling thread. SIGCHLD must not
 * be ignored. */
int decompress_start(struct decompress *d, int fd, struct err *e);
/* The same of n bytes of a file from `at` on; its offset counts for nothing, and may be moved. What
 * is around them is kept from the program by another process. */
int decompress_start_part(struct decompress *d, int fd, uint64_t at, uint64_t n, struct err *e);

/* After the output was read to its end, or as far as it was wanted: -ERR_INVALID if the input was
 * damaged or cut off. */
int decompress_finish(struct decompress *d, struct err *e);

/* Kills it if it runs, closes what is open. */
void decompress_end(struct decompress *d);

#endif
