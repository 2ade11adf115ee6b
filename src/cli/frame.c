/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame.h"

#include "base/own.h"

enum { TEXT_MAX = FRAME_ROWS_MAX * FRAME_COLUMNS_MAX * 4 };

static const struct str ellipsis = STR("…");

void frame_init(struct frame *f, uint16_t rows, uint16_t columns)
{
    f->rows = rows < FRAME_ROWS_MAX ? rows : FRAME_ROWS_MAX;
    f->columns = columns < FRAME_COLUMNS_MAX ? columns : FRAME_COLUMNS_MAX;
    f->n = 0;
    buf_init(&f->text, TEXT_MAX);
}

void frame_done(struct frame *f)
{
    buf_done(&f->text);
}

/* Adds one character, and returns the number of its bytes in `text`. */
static size_t add_frame_character(struct buf *out, struct str text)
{
    unsigned char c = (unsigned char)text.p[0];
    size_t n = 1;

    if (str_starts(text, ellipsis)) {
        buf_add(out, ellipsis);
        return ellipsis.n;
    }
    while (n < text.n && ((unsigned char)text.p[n] & 0xC0) == 0x80)
        n++;
    buf_add_c(out, c >= ' ' && c < 0x7F ? text.p[0] : '?');
    return n;
}

void frame_add(struct frame *f, enum frame_style style, struct str text)
{
    struct frame_line *line = &f->lines[f->n];

    if (f->n >= f->rows)
        return;
    f->n++;
    *line = (struct frame_line){ .style = style, .at = f->text.n };
    for (uint16_t shown = 0; text.n && shown < f->columns; shown++) {
        size_t n = add_frame_character(&f->text, text);

        text = (struct str){ text.p + n, text.n - n };
    }
    line->n = f->text.n - line->at;
}

void frame_fill(struct frame *f, uint16_t to)
{
    while (f->n < to && f->n < f->rows)
        frame_add(f, FRAME_PLAIN, STR(""));
}

static struct str line_text(const struct frame *f, const struct frame_line *l)
{
    return (struct str){ f->text.p + l->at, l->n };
}

static bool is_same_line(const struct frame *f, const struct frame *before, uint16_t i)
{
    return i < before->n && f->lines[i].style == before->lines[i].style &&
           str_eq(line_text(f, &f->lines[i]), line_text(before, &before->lines[i]));
}

int frame_changes(const struct frame *f, const struct frame *before, bool all, struct buf *out)
{
    static const char *const styles[] = {
        [FRAME_PLAIN] = "", [FRAME_BOLD] = "\033[1m", [FRAME_SELECTED] = "\033[7m"
    };
    int r = 0;

    all |= f->rows != before->rows || f->columns != before->columns;
    if (all)
        r = buf_add(out, STR("\033[H\033[2J"));
    for (uint16_t i = 0; r >= 0 && i < f->n; i++)
        if (all || !is_same_line(f, before, i))
            r = buf_addf(out, "\033[%u;1H%s" STR_FMT "\033[m\033[K", i + 1u,
                         styles[f->lines[i].style], STR_ARG(line_text(f, &f->lines[i])));
    for (uint16_t i = f->n; r >= 0 && !all && i < before->n; i++)
        r = buf_addf(out, "\033[%u;1H\033[K", i + 1u);
    return r;
}
