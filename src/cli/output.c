/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <unistd.h>

#include "base/log.h"
#include "cli/base64.h"
#include "cli/show.h"

static int decode_output_event(struct str stream, struct str text, struct str coded,
                               struct buf *bytes, struct err *e)
{
    bool out = str_eq(stream, STR("stdout"));
    int r;

    if (!out && !str_eq(stream, STR("stderr")))
        return 0;
    r = coded.p ? base64_decode(coded, bytes) : buf_add(bytes, text);
    if (r < 0)
        return err_set(e, ERR_UPSTREAM, "the daemon sent output that is not base64, or too long");
    return out ? STDOUT_FILENO : STDERR_FILENO;
}

int output_of(const struct json *event, struct buf *bytes, struct err *e)
{
    return decode_output_event(show_string(event, "event"), show_string(event, "data"),
                               show_string(event, "data_b64"), bytes, e);
}

int output_line(const struct json *line, struct buf *bytes, struct err *e)
{
    int fd = decode_output_event(show_string(line, "stream"), show_string(line, "line"),
                                 show_string(line, "line_b64"), bytes, e);

    if (fd > 0 && buf_add_c(bytes, '\n') < 0)
        return err_set(e, ERR_TOO_BIG, "the daemon sent a line that is too long");
    return fd;
}

/* Length of the piece that ends before the next line end or tab. */
static size_t plain_run(struct str s)
{
    size_t n = 0;

    while (n < s.n && s.p[n] != '\n' && s.p[n] != '\t')
        n++;
    return n;
}

int output_clean(struct str bytes, struct buf *out)
{
    enum { PIECE = 1024 };
    char shown[4 * PIECE + 1];
    int r = 0;

    while (bytes.n && r >= 0) {
        size_t n = plain_run(bytes);

        if (n > PIECE)
            for (n = PIECE; n > 1 && ((unsigned char)bytes.p[n] & 0xC0) == 0x80;)
                n--; /* not within a character */
        if (n == 0) {
            r = buf_add_c(out, bytes.p[0]);
            n = 1;
        } else {
            log_printable((struct str){ bytes.p, n }, shown, sizeof shown);
            r = buf_add(out, str_from(shown));
        }
        bytes = (struct str){ bytes.p + n, bytes.n - n };
    }
    return r;
}
