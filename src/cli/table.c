/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "lib/json/yaml_text.h"
#include "lib/json/writer.h"

enum {
    CELL_MAX = 16 << 10, /* bytes of one value */
    TEXT_MAX = 64 << 20, /* bytes of all of them */
    COLUMNS_MAX = 24,
    GAP = 2,
};

/* All cells of a table, one behind the other, each ended by NUL. */
struct cells {
    struct buf text;
    size_t n; /* columns in use */
    const struct column *columns[COLUMNS_MAX];
    size_t widths[COLUMNS_MAX];
    size_t most[COLUMNS_MAX]; /* characters of a value; 0: no limit */
};

static void cells_done(struct cells *t)
{
    buf_done(&t->text);
}

struct table_style table_style_for(int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    bool terminal = isatty(fd) == 1;
    struct winsize size = { .ws_col = 0 };

    if (terminal)
        ioctl(fd, TIOCGWINSZ, &size);

    return (struct table_style){ .terminal = terminal,
                                 .colour = terminal && !(no && no[0]) &&
                                           !(term && strcmp(term, "dumb") == 0),
                                 .width = size.ws_col,
                                 .now = clock_wall() };
}

/* Characters, as far as their number is their width. */
static size_t width_of(struct str s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += ((unsigned char)s.p[i] & 0xC0) != 0x80;
    return n;
}

/* At most `most` characters, the last one "…" if something is missing. */
static int add_cut(struct buf *out, struct str s, size_t most)
{
    size_t at = 0;

    if (most == 0 || width_of(s) <= most)
        return buf_add(out, s);
    for (size_t seen = 0; at < s.n; at++) {
        seen += ((unsigned char)s.p[at] & 0xC0) != 0x80;
        if (seen == most)
            break;
    }
    if (buf_add(out, (struct str){ s.p, at }) < 0)
        return -ERR_TOO_BIG;
    return buf_add(out, STR("…"));
}

/* The value as text without control characters; empty if the value is absent. */
static int format_cell(const struct column *c, const struct table_style *style, size_t most,
                       const struct json *row, struct buf *out)
{
    AUTO(buf_done) struct buf raw = BUF_INIT(CELL_MAX);
    AUTO_FREE char *shown = malloc(4 * CELL_MAX + 1);

    if (!shown)
        return -ERR_TOO_BIG;
    (c->show ? c->show : show_text)(show_at(row, c->path), style->now, &raw);
    log_printable(buf_str(&raw), shown, 4 * CELL_MAX + 1);
    return add_cut(out, str_from(shown), most);
}

static bool has_room_for(const struct table_style *style, const struct column *c)
{
    return !c->alone && (!style->terminal || !style->width || c->wide <= style->width);
}

static void cells_init(struct cells *t, const struct table_style *style,
                       const struct column *columns, size_t n)
{
    *t = (struct cells){ .text = BUF_INIT(TEXT_MAX) };
    for (size_t i = 0; i < n && t->n < COLUMNS_MAX; i++) {
        if (!has_room_for(style, &columns[i]))
            continue;
        t->most[t->n] = style->terminal ? columns[i].most : 0;
        t->columns[t->n++] = &columns[i];
    }
}

/* The widths of the columns themselves; on a terminal values are cut to them, and the last one to the
 * rest of the line. */
static void cells_init_stream(struct cells *t, const struct table_style *style,
                              const struct column *columns, size_t n)
{
    size_t used = 0;

    cells_init(t, style, columns, n);
    for (size_t i = 0; i < t->n; i++) {
        t->widths[i] = t->columns[i]->width;
        if (!style->terminal || !t->widths[i])
            continue;
        t->most[i] = t->widths[i];
        if (i + 1 == t->n && style->width > used)
            t->most[i] = style->width - used;
        used += t->widths[i] + GAP;
    }
}

static int add_cell_row(struct cells *t, const struct table_style *style, const struct json *row)
{
    for (size_t i = 0; i < t->n; i++) {
        size_t from = t->text.n, width;
        int r = format_cell(t->columns[i], style, t->most[i], row, &t->text);

        if (r >= 0 && t->text.n == from)
            r = buf_add_c(&t->text, '-');
        if (r < 0)
            return r;
        width = width_of((struct str){ t->text.p + from, t->text.n - from });
        if (width > t->widths[i])
            t->widths[i] = width;
        r = buf_add_c(&t->text, '\0');
        if (r < 0)
            return r;
    }
    return 0;
}

static const char *colour_of(const char *state)
{
    static const struct {
        const char *state, *colour;
    } colours[] = {
        { "ready", "32" },        { "active", "32" }, { "ok", "32" },        { "requested", "33" },
        { "provisioning", "33" }, { "paused", "33" }, { "warn", "33" },      { "expired", "33" },
        { "failed", "31" },       { "fail", "31" },   { "destroying", "2" }, { "destroyed", "2" },
    };

    for (size_t i = 0; i < COUNT_OF(colours); i++)
        if (strcmp(state, colours[i].state) == 0)
            return colours[i].colour;
    return NULL;
}

static void print_cell(FILE *to, const struct table_style *style, const struct column *c,
                       const char *text, size_t pad)
{
    const char *colour = c->state && style->colour ? colour_of(text) : NULL;

    if (colour)
        fprintf(to, "\033[%sm%s\033[0m", colour, text);
    else
        fputs(text, to);
    fprintf(to, "%*s", (int)pad, "");
}

/* The characters of a line; no limit where it is not shown on a terminal. */
static size_t line_room(const struct table_style *style)
{
    return style->terminal && style->width ? style->width : SIZE_MAX;
}

/* Prints a cell in at most `room` characters, filled up to `width` and the gap behind it unless it is the
 * last one: the rest of the room. */
static size_t print_cell_within(FILE *to, const struct table_style *style, const struct column *c,
                                struct str text, size_t most, size_t width, bool last, size_t room)
{
    AUTO(buf_done) struct buf cut = BUF_INIT(4 * CELL_MAX + 1);
    size_t shown, pad;

    if (!room)
        return 0;
    if (add_cut(&cut, text, most && most < room ? most : room == SIZE_MAX ? 0 : room) < 0)
        return room;
    shown = width_of(buf_str(&cut));
    pad = last ? 0 : width > shown ? width - shown + GAP : GAP;
    if (room != SIZE_MAX && pad > room - shown)
        pad = room - shown;
    print_cell(to, style, c, cut.n ? cut.p : "", pad);
    return room == SIZE_MAX ? room : room - shown - pad;
}

/* Writes one line of cells from *at on, which moves behind them. */
static void print_cell_row(FILE *to, const struct table_style *style, const struct cells *t,
                           const char **at)
{
    size_t room = line_room(style);

    for (size_t i = 0; i < t->n; i++) {
        room = print_cell_within(to, style, t->columns[i], str_from(*at), t->most[i], t->widths[i],
                                 i + 1 == t->n, room);
        *at += strlen(*at) + 1;
    }
    fputc('\n', to);
}

enum { NARROW = 8 };

/* Makes the widest of the columns that may be cut narrower, until the table fits or all are narrow. The
 * rest of a line that is too long then is not shown. */
static void fit_columns(struct cells *t, const struct table_style *style)
{
    size_t total = 0, widest;

    for (size_t i = 0; i < t->n; i++)
        total += t->widths[i] + (i ? GAP : 0);
    for (; total > line_room(style); total--) {
        widest = t->n;
        for (size_t i = 0; i < t->n; i++) {
            size_t title = width_of(str_from(t->columns[i]->title));

            if (t->most[i] && t->widths[i] > (title > NARROW ? title : NARROW) &&
                (widest == t->n || t->widths[i] > t->widths[widest]))
                widest = i;
        }
        if (widest == t->n)
            return;
        t->most[widest] = --t->widths[widest];
    }
}

static int too_big(struct err *e)
{
    return err_set(e, ERR_TOO_BIG,
                   "the answer needs more memory than a table may have; use -o json");
}

static void print_titles(FILE *to, const struct table_style *style, const struct cells *t)
{
    const struct table_style plain = { .terminal = style->terminal, .width = style->width };
    size_t room = line_room(style);

    for (size_t i = 0; i < t->n; i++)
        room = print_cell_within(to, &plain, t->columns[i], str_from(t->columns[i]->title), 0,
                                 t->widths[i], i + 1 == t->n, room);
    fputc('\n', to);
}

void table_titles(FILE *to, const struct table_style *style, const struct column *columns, size_t n)
{
    AUTO(cells_done) struct cells t;

    cells_init_stream(&t, style, columns, n);
    print_titles(to, style, &t);
}

int table_print(FILE *to, const struct table_style *style, const struct json *rows,
                const struct column *columns, size_t n, struct err *e)
{
    AUTO(cells_done) struct cells t;
    const char *at;

    cells_init(&t, style, columns, n);
    for (size_t i = 0; i < t.n; i++)
        t.widths[i] = width_of(str_from(t.columns[i]->title));
    for (const struct json *row = json_first(rows); row != json_end(rows); row++)
        if (add_cell_row(&t, style, row) < 0)
            return too_big(e);
    fit_columns(&t, style);
    print_titles(to, style, &t);
    at = t.text.p;
    for (const struct json *row = json_first(rows); at && row != json_end(rows); row++)
        print_cell_row(to, style, &t, &at);
    return 0;
}

int table_row(FILE *to, const struct table_style *style, const struct json *row,
              const struct column *columns, size_t n, struct err *e)
{
    AUTO(cells_done) struct cells t;
    const char *at;

    cells_init_stream(&t, style, columns, n);
    if (add_cell_row(&t, style, row) < 0)
        return too_big(e);
    for (size_t i = 0; i < t.n; i++)
        t.widths[i] = t.columns[i]->width;
    at = t.text.p;
    if (at)
        print_cell_row(to, style, &t, &at);
    return 0;
}

/* An object or list with all its members, indented below its title. YAML has nothing in it that a
 * terminal would act on. */
static int print_value_block(FILE *to, const char *title, const struct json *v, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
    struct str rest, text_line;

    if (yaml_text(&text, v) < 0)
        return too_big(e);
    fprintf(to, "%s:\n", title);
    for (rest = str_trim(buf_str(&text)); rest.p;) {
        rest = str_cut(rest, '\n', &text_line);
        fprintf(to, "  " STR_FMT "\n", STR_ARG(text_line));
    }
    return 0;
}

int record_print(FILE *to, const struct table_style *style, const struct json *v,
                 const struct column *columns, size_t n, struct err *e)
{
    const struct table_style whole = { .colour = style->colour, .now = style->now };
    AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
    size_t width = 0;

    for (size_t i = 0; i < n; i++)
        if (width_of(str_from(columns[i].title)) > width)
            width = width_of(str_from(columns[i].title));
    for (size_t i = 0; i < n; i++) {
        const struct json *value = show_at(v, columns[i].path);

        buf_clear(&text);
        if (columns[i].block && value && json_first(value) != json_end(value)) {
            if (print_value_block(to, columns[i].title, value, e) < 0)
                return -ERR_TOO_BIG;
            continue;
        }
        if (format_cell(&columns[i], &whole, 0, v, &text) < 0)
            return too_big(e);
        if (text.n == 0)
            continue;
        fprintf(to, "%s:%*s", columns[i].title,
                (int)(width - width_of(str_from(columns[i].title)) + GAP), "");
        print_cell(to, style, &columns[i], text.p, 0);
        fputc('\n', to);
    }
    return 0;
}

/* JSON may contain DEL and U+0080 to U+009F unescaped, which terminals act on. They occur only in
 * strings, where an escape is equivalent. */
static void print_clean_text(FILE *to, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i], next = i + 1 < s.n ? (unsigned char)s.p[i + 1] : 0;

        if (c == 0x7F) {
            fputs("\\u007f", to);
        } else if (c == 0xC2 && next >= 0x80 && next < 0xA0) {
            fprintf(to, "\\u%04x", next);
            i++;
        } else {
            fputc(c, to);
        }
    }
}

int tree_print(FILE *to, enum format format, bool stream, const struct json *v, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
    struct json_writer w;
    int r;

    if (format != FORMAT_YAML) {
        json_writer_init(&w, &text, stream ? JSON_COMPACT : JSON_PRETTY);
        json_put_tree(&w, v);
        r = json_writer_finish(&w, e);
        if (r < 0)
            return r;
        print_clean_text(to, buf_str(&text));
        fputc('\n', to);
        return 0;
    }
    if (yaml_text(&text, v) < 0)
        return err_set(e, ERR_TOO_BIG, "the answer has more than %zu bytes of YAML; use -o json",
                       text.max);
    if (stream)
        fputs("---\n", to);
    fwrite(text.p, 1, text.n, to);
    return 0;
}
