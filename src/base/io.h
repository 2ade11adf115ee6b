/* SPDX-License-Identifier: Apache-2.0 */
/* Whole reads and writes of descriptors: both repeat after EINTR and short transfers. */
#ifndef BASE_IO_H
#define BASE_IO_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Appends everything from the descriptor's position to its end. -ERR_TOO_BIG if that would pass the
 * buffer's ceiling, with "longer than N bytes"; the caller adds the name of the file. */
int buf_read_fd(struct buf *b, int fd, struct err *e);

/* Reads n bytes at an offset, or fewer at the end of the file: the number of bytes, or -1 and
 * errno. */
ssize_t pread_full(int fd, void *to, size_t n, off_t at);

/* Waits for room where the caller of this program has made the descriptor non-blocking. */
int write_all(int fd, struct str s, struct err *e);

#endif
