/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/zstd/pack.h"

#include <stdlib.h>
#include <zstd.h>

#include "base/own.h"

enum { LEVEL = 3, ROOM = 128 << 10 };

struct zstd_pack {
    ZSTD_CCtx *context;
    char room[ROOM];
};

struct zstd_pack *zstd_pack_new(void)
{
    struct zstd_pack *z = new0(sizeof *z);

    z->context = ZSTD_createCCtx();
    if (!z->context)
        abort();
    ZSTD_CCtx_setParameter(z->context, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(z->context, ZSTD_c_checksumFlag, 1);
    return z;
}

void zstd_pack_free(struct zstd_pack *z)
{
    if (!z)
        return;
    ZSTD_freeCCtx(z->context);
    free(z);
}

int zstd_pack_add(struct zstd_pack *z, struct str data, bool last, zstd_write_fn *write, void *ctx,
                  struct err *e)
{
    ZSTD_inBuffer in = { data.p, data.n, 0 };
    size_t left;

    do {
        ZSTD_outBuffer out = { z->room, sizeof z->room, 0 };
        int r;

        left = ZSTD_compressStream2(z->context, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return err_set(e, ERR_BUG, "packing: %s", ZSTD_getErrorName(left));
        r = out.pos ? write(ctx, (struct str){ z->room, out.pos }, e) : 0;
        if (r < 0)
            return r;
    } while (last ? left : in.pos < in.size);
    return 0;
}
