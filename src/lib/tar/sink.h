/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way to a descriptor, gathered into large writes. */
#ifndef LIB_TAR_SINK_H
#define LIB_TAR_SINK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/tar/tree.h"

struct tar_sink {
    int fd;
    size_t n;
    char bytes[TREE_CHUNK];
};

void tar_sink_init(struct tar_sink *s, int fd); /* fd stays the caller's; it must block */
int tar_sink_write(struct tar_sink *s, struct str bytes, struct err *e);
int tar_sink_zeros(struct tar_sink *s, uint64_t n, struct err *e);
/* Room for at least a byte, to be filled by the caller, who then adds to n. */
int tar_sink_room(struct tar_sink *s, char **ret, size_t *ret_n, struct err *e);
int tar_sink_flush(struct tar_sink *s, struct err *e);

#endif
