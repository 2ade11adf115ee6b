/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way to a descriptor, gathered into large writes. */
#ifndef ENGINE_SYNC_SINK_H
#define ENGINE_SYNC_SINK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/tar/tree.h"

struct sync_sink {
    int fd;
    size_t n;
    char bytes[TREE_CHUNK];
};

void sync_sink_init(struct sync_sink *s, int fd); /* fd stays the caller's; it must block */
int sync_sink_write(struct sync_sink *s, struct str bytes, struct err *e);
int sync_sink_zeros(struct sync_sink *s, uint64_t n, struct err *e);
int sync_sink_flush(struct sync_sink *s, struct err *e);

#endif
