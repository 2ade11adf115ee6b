/* SPDX-License-Identifier: Apache-2.0 */
/* Prints lists and single objects as text, and the same answers as JSON or YAML.
 *
 *     static const struct column columns[] = {
 *         COLUMN("ID", "sandbox_id"),
 *         COLUMN("CREATED", "created_at", .show = show_age),
 *     };
 *
 * One table of columns describes a kind of object, in a list (a row each) and alone (a line for
 * each column). Control characters in values never reach a terminal. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdio.h>

#include "base/err.h"
#include "cli/show.h"
#include "cli/verb.h"
#include "lib/json/value.h"

struct column {
    const char *title;
    const char *path; /* in a row; "" is the row itself */
    show_fn *show;    /* NULL: show_text */
    unsigned most;    /* characters shown on a terminal; 0: all */
    unsigned width;   /* characters in a stream of rows; 0: as they come */
    unsigned wide;    /* only on terminals with so many columns, and elsewhere; 0: on any */
    bool state;       /* a state's name: coloured on a terminal */
    bool alone;       /* only where a thing is shown alone … */
    bool block;       /* … and there as a block of lines, with all members */
};

/* A row of such a table: title, path, then members by name. */
#define COLUMN(t, p, ...)                                                                          \
    {                                                                                              \
        .title = (t), .path = (p), __VA_ARGS__                                                     \
    }

struct table_style {
    bool terminal; /* columns may be cut */
    bool colour;
    unsigned width; /* of the terminal; 0: unknown */
    int64_t now;    /* wall clock, for ages */
};

/* How to write to that descriptor now. */
struct table_style table_style_for(int fd);

/* A title line and a line for each item of rows. */
int table_print(FILE *to, const struct table_style *style, const struct json *rows,
                const struct column *columns, size_t n, struct err *e);
/* For a stream of rows, whose widths are not known in advance: the titles, and a row. Columns have
 * the widths of their table. On a terminal a row is one line: longer values are cut, and so is the last
 * column. */
void table_titles(FILE *to, const struct table_style *style, const struct column *columns,
                  size_t n);
int table_row(FILE *to, const struct table_style *style, const struct json *row,
              const struct column *columns, size_t n, struct err *e);
/* "Title:  value", leaving out what is not there. */
int record_print(FILE *to, const struct table_style *style, const struct json *v,
                 const struct column *columns, size_t n, struct err *e);

/* The tree itself, as JSON or YAML. `stream`: one of many, so a line each or a document each. */
int tree_print(FILE *to, enum format format, bool stream, const struct json *v, struct err *e);

#endif
