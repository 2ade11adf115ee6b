/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/gzip/gzip.h"

#include <limits.h>
#include <stdlib.h>

#define ZLIB_CONST /* it reads what it is given, and says so */
#include <zlib.h>

#include "base/own.h"

enum {
    WINDOW_GZIP = 15 + 16, /* the largest window, and gzip's frame … */
    MEMORY = 8,            /* … which is 256 KiB in all */
};
enum { STORED = 0, QUICK = 1 }; /* levels */
enum {
    SAMPLE = 64 << 10, /* bytes by which a level is judged … */
    RUN = 1 << 20,     /* … and that are stored before the next try */
};

struct gzip {
    z_stream stream;
    int level;
    uLong in, out; /* of the stream, when its level was judged last */
};

struct gzip *gzip_new(void)
{
    struct gzip *g = new0(sizeof *g);

    if (!g || deflateInit2(&g->stream, QUICK, Z_DEFLATED, WINDOW_GZIP, MEMORY,
                           Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    g->level = QUICK;
    return g;
}

void gzip_free(struct gzip *g)
{
    if (!g)
        return;
    deflateEnd(&g->stream);
    free(g);
}

/* Switches to stored blocks for incompressible data, which takes a tenth of the time. If the output
 * has no room for the pending data, the switch is tried again with the next piece. */
static void choose_level(struct gzip *g)
{
    uLong in = g->stream.total_in - g->in, out = g->stream.total_out - g->out;
    int level = g->level == QUICK && out > in - in / 16 ? STORED : QUICK;

    if (in < (g->level == QUICK ? SAMPLE : RUN) ||
        (level != g->level && deflateParams(&g->stream, level, Z_DEFAULT_STRATEGY) != Z_OK))
        return;
    g->level = level;
    g->in = g->stream.total_in;
    g->out = g->stream.total_out;
}

size_t gzip_some(struct gzip *g, struct str *in, bool last, char *out, size_t cap)
{
    size_t n = in->n < INT_MAX ? in->n : INT_MAX;

    g->stream.avail_in = 0;
    g->stream.next_out = (Bytef *)out;
    g->stream.avail_out = (uInt)(cap < INT_MAX ? cap : INT_MAX);
    choose_level(g);
    g->stream.next_in = (const Bytef *)in->p;
    g->stream.avail_in = (uInt)n;
    if (deflate(&g->stream, last && n == in->n ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR)
        abort(); /* deflate accepts all input, so an error is our bug */
    n -= g->stream.avail_in;
    *in = (struct str){ n ? in->p + n : in->p, in->n - n };
    return (size_t)((char *)g->stream.next_out - out);
}

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
