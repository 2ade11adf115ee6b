/* Bytes on their way to a descriptor, gathered into large writes. */
#ifndef MIRROR_SINK_H
#define MIRROR_SINK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "tree/tree.h"

struct mirror_sink {
    int fd;
    size_t n;
    char bytes[TREE_CHUNK];
};

void mirror_sink_init(struct mirror_sink *s, int fd); /* fd stays the caller's; it must block */
int mirror_sink_put(struct mirror_sink *s, struct str bytes, struct err *e);
int mirror_sink_zeros(struct mirror_sink *s, uint64_t n, struct err *e);
int mirror_sink_flush(struct mirror_sink *s, struct err *e);

#endif
