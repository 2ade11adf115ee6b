/* SPDX-License-Identifier: Apache-2.0 */
/* Packing with zstd as it comes, piece by piece. */
#ifndef LIB_ZSTD_PACK_H
#define LIB_ZSTD_PACK_H

#include "base/err.h"
#include "base/str.h"

struct zstd_pack; /* NULL is fine for zstd_pack_free() */

struct zstd_pack *zstd_pack_new(void);
void zstd_pack_free(struct zstd_pack *z);

/* Packs all of `data` and calls `write` with what comes of it; `last`: all of it, and the end. */
typedef int zstd_write_fn(void *ctx, struct str packed, struct err *e);
int zstd_pack_add(struct zstd_pack *z, struct str data, bool last, zstd_write_fn *write, void *ctx,
                  struct err *e);

#endif
