/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <unistd.h>

#include "base/log.h"
#include "cli/base64.h"
#include "cli/show.h"

int output_line(const struct json *line, struct buf *bytes, struct err *e)
{
    struct str stream = show_string(line, "stream"), coded = show_string(line, "line_b64");
    bool out = str_eq(stream, STR("stdout"));
    int r;

    if (!out && !str_eq(stream, STR("stderr")))
        return 0;
    r = coded.p ? base64_decode(coded, bytes) : buf_add(bytes, show_string(line, "line"));
    if (r < 0)
        return err_set(
            e, ERR_UPSTREAM,
            "the daemon sent output that is not base64, or a line of more than %zu bytes",
            bytes->max);
    if (buf_add_c(bytes, '\n') < 0)
        return err_set(e, ERR_TOO_BIG, "the daemon sent a line of more than %zu bytes", bytes->max);
    return out ? STDOUT_FILENO : STDERR_FILENO;
}

int output_clean(struct str bytes, struct buf *out)
{
    enum { PIECE = 1024 };
    char shown[4 * PIECE + 1];
    int r = 0;

    while (bytes.n && r >= 0) {
        size_t n = 0;

        while (n < bytes.n && bytes.p[n] != '\n' && bytes.p[n] != '\t')
            n++;
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
