/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/gzip/gunzip.h"

#include <limits.h>
#include <stdlib.h>
#define ZLIB_CONST /* it reads what it is given, and says so */
#include <zlib.h>

#include "base/own.h"

enum { WINDOW_GZIP = 15 + 16 }; /* the largest window, and gzip's frame only */

struct gunzip {
    z_stream stream;
    bool over;
};

struct gunzip *gunzip_new(void)
{
    struct gunzip *g = new0(sizeof *g);

    if (inflateInit2(&g->stream, WINDOW_GZIP) != Z_OK)
        abort();
    return g;
}

void gunzip_free(struct gunzip *g)
{
    if (!g)
        return;
    inflateEnd(&g->stream);
    free(g);
}

bool gunzip_is_finished(const struct gunzip *g)
{
    return g->over;
}

ssize_t gunzip_some(struct gunzip *g, struct str *in, char *out, size_t cap, struct err *e)
{
    size_t n = in->n < INT_MAX ? in->n : INT_MAX;
    int r;

    if (g->over && in->n)
        return err_set(e, ERR_INVALID, "gzip: something follows the end");
    if (g->over)
        return 0;
    g->stream.next_in = (const Bytef *)in->p;
    g->stream.avail_in = (uInt)n;
    g->stream.next_out = (Bytef *)out;
    g->stream.avail_out = (uInt)(cap < INT_MAX ? cap : INT_MAX);
    r = inflate(&g->stream, Z_NO_FLUSH);
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
        return err_set(e, ERR_INVALID, "gzip: the data is damaged");
    g->over = r == Z_STREAM_END;
    *in = (struct str){ in->p + (n - g->stream.avail_in), in->n - (n - g->stream.avail_in) };
    return (char *)g->stream.next_out - out;
}
