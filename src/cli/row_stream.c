/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/row_stream.h"

#include <stdio.h>

#include "base/own.h"
#include "cli/answer.h"
#include "cli/lines.h"
#include "lib/json/reader.h"

/* In memory that is given back at once: the stream may never end. */
static int print_row(const struct api_call *c, struct str line, const struct column *columns,
                     size_t n, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT((size_t)8 * LINES_MAX);
    const struct json_limits limits = { .bytes = LINES_MAX, .depth = 16 };
    enum format format = common_format(c->common);
    struct table_style style = table_style_for(fileno(stdout));
    const struct json *row;
    int r = json_read(line, limits, &a, &row, e);

    if (r < 0)
        return err_wrap(e, r, "the daemon's answer");
    r = format != FORMAT_TEXT ? tree_print(stdout, format, true, row, e)
                              : table_row(stdout, &style, row, columns, n, e);
    return r < 0 || fflush(stdout) == 0 ? r : err_sys(e, "writing to stdout");
}

int row_stream(struct api_call *c, struct str prefix, const struct column *columns, size_t n)
{
    AUTO(lines_done) struct lines lines = LINES_INIT;
    struct str piece, line;
    struct err e;
    int status = api_call_open(c);

    while (status == 0 && api_call_next(c, &piece, &status) > 0) {
        int r = lines_feed(&lines, piece, &e);

        while (r >= 0 && lines_next(&lines, &line))
            if (str_starts(line, prefix))
                r = print_row(c, (struct str){ line.p + prefix.n, line.n - prefix.n }, columns, n,
                              &e);
        if (r < 0)
            return api_call_failed(c, &e);
    }
    return status;
}
