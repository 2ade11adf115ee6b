/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a screen, made anew for each change. They contain nothing that a terminal acts on, and
 * at most as many characters as it has columns. */
#ifndef CLI_FRAME_H
#define CLI_FRAME_H

#include <stdint.h>

#include "base/buf.h"

enum { FRAME_ROWS_MAX = 300, FRAME_COLUMNS_MAX = 500 };

enum frame_style { FRAME_PLAIN, FRAME_BOLD, FRAME_SELECTED };

struct frame {
    uint16_t rows, columns; /* of the terminal */
    uint16_t n;             /* lines so far */
    struct frame_line {
        enum frame_style style;
        size_t at, n; /* in `text` */
    } lines[FRAME_ROWS_MAX];
    struct buf text;
};

void frame_init(struct frame *f, uint16_t rows, uint16_t columns);
void frame_done(struct frame *f);

/* Adds a line, as far as there is room for it. Control characters, and characters whose width a
 * terminal decides, are shown as "?". */
void frame_add(struct frame *f, enum frame_style style, struct str text);
/* Adds empty lines up to this one. */
void frame_fill(struct frame *f, uint16_t to);

/* The bytes that turn the screen with `before` into this one: only lines that differ. With `all`, and
 * where the sizes differ, every line. */
int frame_changes(const struct frame *f, const struct frame *before, bool all, struct buf *out);

#endif
