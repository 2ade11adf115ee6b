/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top.h"

#include <stdlib.h>

#include "base/own.h"
#include "base/units.h"
#include "cli/show_sandbox.h"
#include "lib/json/reader.h"

enum { EVENT_MEMORY = 256 << 10, EVENT_BYTES = 64 << 10 };

const char *const top_sorts[TOP_SORTS_] = {
    [TOP_BY_CPU] = "cpu",
    [TOP_BY_MEMORY] = "memory",
    [TOP_BY_NAME] = "name",
    [TOP_BY_AGE] = "age",
};

static const char *const row_ids[TOP_PANES_] = {
    [TOP_SANDBOXES] = "sandbox_id",
    [TOP_APPROVALS] = "request_id",
};

void top_init(struct top *t)
{
    *t = (struct top){ .sort = TOP_BY_CPU };
}

void top_done(struct top *t)
{
    for (size_t i = 0; i < COUNT_OF(t->denials); i++)
        arena_done(&t->denials[i].arena);
}

/* --- order --- */

static double row_number(const struct json *row, const char *path)
{
    const struct json *v = show_at(row, path);

    return !v                       ? -1
           : v->type == JSON_DOUBLE ? v->d
           : v->type == JSON_INT    ? (double)v->i
           : v->type == JSON_UINT   ? (double)v->u
                                    : -1;
}

static int compare_row_texts(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;

    return c ? c : a.n < b.n ? -1 : a.n > b.n;
}

static struct str row_name(const struct json *row)
{
    struct str name = show_string(row, "name");

    return name.n ? name : show_string(row, "sandbox_id");
}

static int compare_sandboxes(const void *a, const void *b, void *sort)
{
    enum top_sort by = *(const enum top_sort *)sort;
    const char *path = by == TOP_BY_CPU ? "usage.cpu" : "usage.memory_bytes";
    double x = row_number(a, path), y = row_number(b, path);

    if (by == TOP_BY_AGE)
        return compare_row_texts(show_string(a, "created_at"), show_string(b, "created_at"));
    if (by == TOP_BY_NAME || (x <= y && x >= y))
        return compare_row_texts(row_name(a), row_name(b));
    return x < y ? 1 : -1;
}

static void sort_sandboxes(struct top *t)
{
    struct top_rows *r = &t->panes[TOP_SANDBOXES];

    if (r->n)
        qsort_r(r->rows, r->n, sizeof r->rows[0], compare_sandboxes, &t->sort);
}

/* --- selection --- */

/* The row's index; the number of rows: it is not there. */
static size_t find_selected(const struct top *t, enum top_pane pane)
{
    const struct top_rows *r = &t->panes[pane];
    size_t i = 0;

    while (i < r->n && !str_eq(show_string(&r->rows[i], row_ids[pane]), str_from(r->selected)))
        i++;
    return i;
}

static void select_row(struct top *t, enum top_pane pane, size_t i)
{
    struct top_rows *r = &t->panes[pane];

    r->selected[0] = '\0';
    if (i < r->n)
        str_copy(show_string(&r->rows[i], row_ids[pane]), r->selected, sizeof r->selected);
}

void top_set_rows(struct top *t, enum top_pane pane, const struct json *rows)
{
    struct top_rows *r = &t->panes[pane];
    size_t was = find_selected(t, pane);

    r->n = 0;
    for (const struct json *row = json_first(rows); row != json_end(rows) && r->n < TOP_ROWS_MAX;
         row++)
        r->rows[r->n++] = *row;
    if (pane == TOP_SANDBOXES)
        sort_sandboxes(t);
    if (find_selected(t, pane) < r->n)
        return;
    if (pane == TOP_SANDBOXES) {
        select_row(t, pane, was < r->n ? was : r->n ? r->n - 1 : 0);
        return;
    }
    r->selected[0] = '\0';
    t->pane = TOP_SANDBOXES;
}

void top_set_sort(struct top *t, enum top_sort sort)
{
    t->sort = sort;
    sort_sandboxes(t);
}

const struct json *top_selected(const struct top *t)
{
    size_t i = find_selected(t, t->pane);

    return i < t->panes[t->pane].n ? &t->panes[t->pane].rows[i] : NULL;
}

void top_select(struct top *t, int by)
{
    size_t i = find_selected(t, t->pane), n = t->panes[t->pane].n;

    if (by < 0 && i > 0)
        select_row(t, t->pane, i - 1);
    if (by > 0 && i + 1 < n)
        select_row(t, t->pane, i + 1);
}

void top_switch_pane(struct top *t)
{
    enum top_pane other = t->pane == TOP_SANDBOXES ? TOP_APPROVALS : TOP_SANDBOXES;

    if (other == TOP_APPROVALS && !t->panes[other].n)
        return;
    t->pane = other;
    if (!top_selected(t))
        select_row(t, other, 0);
}

/* --- denials --- */

bool top_add_denial(struct top *t, struct str event)
{
    struct top_denial *d = &t->denials[t->n_denials % TOP_DENIALS_MAX];
    const struct json_limits limits = { .bytes = EVENT_BYTES, .depth = 16 };
    AUTO(arena_done) struct arena a = ARENA_INIT(EVENT_MEMORY);
    const struct json *v;

    if (json_read(event, limits, &a, &v, NULL) < 0 ||
        !str_eq(show_string(v, "type"), STR("egress.denied")))
        return false;
    arena_done(&d->arena);
    *d = (struct top_denial){ a, v };
    a = ARENA_INIT(EVENT_MEMORY); /* its blocks belong to the denial */
    t->n_denials++;
    return true;
}

static const struct json *denial_event(const struct top *t, size_t newest)
{
    return t->denials[(t->n_denials - 1 - newest) % TOP_DENIALS_MAX].event;
}

/* --- the frame --- */

static const struct column denial_columns[] = {
    COLUMN("DENIED", "time", .show = show_age),
    COLUMN("SANDBOX", "sandbox_id", .most = 24),
    COLUMN("HOST", "detail.dst_endpoint.hostname", .most = 40),
    COLUMN("ADDRESS", "detail.dst_endpoint.ip", .wide = 140),
    COLUMN("PORT", "detail.dst_endpoint.port"),
    COLUMN("CODE", "detail.status_code", .most = 24, .wide = 100),
    COLUMN("COUNT", "detail.count", .wide = 140),
    COLUMN("PROGRAM", "detail.actor.process.file.path", .most = 40, .wide = 120),
};

static const struct column approval_columns[] = {
    COLUMN("APPROVAL", "request_id", .most = 24),
    COLUMN("TOOL", "tool", .most = 24),
    COLUMN("SANDBOX", "sandbox_id", .most = 24),
    COLUMN("OWNER", "owner", .most = 20, .wide = 100),
    COLUMN("TIER", "tier", .wide = 120),
    COLUMN("EXPIRES", "expires_at", .show = show_until),
};

/* A printed text as lines; `selected` is the index of a line, with its title counted. */
static void add_text_lines(struct frame *f, struct str text, size_t selected, size_t most)
{
    struct str line;

    for (size_t i = 0; text.n && i < most; i++) {
        text = str_cut(text, '\n', &line);
        frame_add(f, i == selected ? FRAME_SELECTED : i == 0 ? FRAME_BOLD : FRAME_PLAIN, line);
    }
}

struct pane_view {
    const struct json *rows;
    size_t n;
    const struct column *columns;
    size_t n_columns;
    size_t selected; /* n: none */
};

/* The shown rows with their titles. */
static void add_pane_table(struct frame *f, const struct pane_view *v, const struct json *shown,
                           int64_t now, size_t from, size_t lines)
{
    const struct table_style style = { .terminal = true, .width = f->columns, .now = now };
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);

    if (!to)
        return;
    (void)table_print(to, &style, shown, v->columns, v->n_columns, NULL);
    if (fclose(to) == 0)
        add_text_lines(f, (struct str){ text, n },
                       v->selected < v->n ? v->selected - from + 1 : SIZE_MAX, lines);
    free(text);
}

/* The rows around the selected one, in `lines` lines with the titles. */
static void add_pane(struct frame *f, const struct pane_view *v, int64_t now, size_t lines)
{
    size_t room = lines ? lines - 1 : 0;
    size_t from = v->selected < v->n && v->selected >= room ? v->selected - room + 1 : 0;
    struct json shown = { .type = JSON_ARRAY };

    if (!room)
        return;
    shown.list.p = v->rows + from;
    shown.list.n = v->n - from < room ? v->n - from : room;
    add_pane_table(f, v, &shown, now, from, lines);
}

/* The lines of the denials and of the approvals: a third of the screen each, at most. Sandboxes have
 * the rest. */
static void share_lines(const struct top *t, size_t lines, size_t *ret_denials,
                        size_t *ret_approvals)
{
    size_t denials = t->n_denials < TOP_DENIALS_MAX ? t->n_denials : TOP_DENIALS_MAX;
    size_t approvals = t->panes[TOP_APPROVALS].n, most = lines / 3;

    *ret_denials = denials && most > 2 ? denials + 2 : 0;
    *ret_approvals = approvals && most > 2 ? approvals + 2 : 0;
    if (*ret_denials > most)
        *ret_denials = most;
    if (*ret_approvals > most)
        *ret_approvals = most;
}

static void add_sandbox_pane(const struct top *t, int64_t now, size_t lines, struct frame *f)
{
    const struct top_rows *r = &t->panes[TOP_SANDBOXES];
    bool ours = t->pane == TOP_SANDBOXES;

    add_pane(f,
             &(struct pane_view){ r->rows, r->n, kind_sandbox_stats.columns, kind_sandbox_stats.n,
                                  ours ? find_selected(t, TOP_SANDBOXES) : r->n },
             now, lines);
    if (!r->n && lines > 1)
        frame_add(f, FRAME_PLAIN, STR("No sandbox runs. Create one: sandboxer create"));
}

static void add_denial_pane(const struct top *t, int64_t now, size_t lines, struct frame *f)
{
    struct json rows[TOP_DENIALS_MAX];
    size_t n = t->n_denials < TOP_DENIALS_MAX ? t->n_denials : TOP_DENIALS_MAX;

    for (size_t i = 0; i < n; i++)
        rows[i] = *denial_event(t, i);
    frame_add(f, FRAME_PLAIN, STR(""));
    add_pane(f, &(struct pane_view){ rows, n, denial_columns, COUNT_OF(denial_columns), n }, now,
             lines - 1);
}

static void add_approval_pane(const struct top *t, int64_t now, size_t lines, struct frame *f)
{
    const struct top_rows *r = &t->panes[TOP_APPROVALS];

    frame_add(f, FRAME_PLAIN, STR(""));
    add_pane(
        f,
        &(struct pane_view){ r->rows, r->n, approval_columns, COUNT_OF(approval_columns),
                             t->pane == TOP_APPROVALS ? find_selected(t, TOP_APPROVALS) : r->n },
        now, lines - 1);
}

static void add_tables(const struct top *t, int64_t now, size_t lines, struct frame *f)
{
    size_t denials, approvals;

    share_lines(t, lines, &denials, &approvals);
    add_sandbox_pane(t, now, lines - denials - approvals, f);
    if (denials)
        add_denial_pane(t, now, denials, f);
    if (approvals)
        add_approval_pane(t, now, approvals, f);
}

static void add_details(const struct json *v, int64_t now, size_t lines, struct frame *f)
{
    const struct table_style style = { .terminal = true, .width = f->columns, .now = now };
    AUTO_FREE char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    struct err e = { 0 };
    int r = 0;

    if (!to)
        return;
    if (show_at(v, "request_id"))
        r = tree_print(to, FORMAT_YAML, false, v, &e);
    else
        r = record_print(to, &style, v, kind_sandbox.columns, kind_sandbox.n, &e);
    fclose(to);
    if (r < 0)
        frame_add(f, FRAME_PLAIN, str_from(e.msg));
    else if (text)
        add_text_lines(f, (struct str){ text, n }, SIZE_MAX, lines);
}

static void add_help(size_t lines, struct frame *f)
{
    static const char text[] = "Keys\n"
                               "  up, down, k, j   select\n"
                               "  Tab              sandboxes, or approvals\n"
                               "  Enter, g         details\n"
                               "  c, m, n, a       sort sandboxes by cpu, memory, name or age\n"
                               "  x                destroy the sandbox, after a question\n"
                               "  p                pause it, or resume it\n"
                               "  y, n             among approvals: approve, reject\n"
                               "  ?                this help\n"
                               "  q                quit\n";

    add_text_lines(f, STR(text), SIZE_MAX, lines);
}

static void add_summary_line(const struct top *t, struct frame *f)
{
    AUTO(buf_done) struct buf text = BUF_INIT(256);
    size_t boxes = t->panes[TOP_SANDBOXES].n, held = t->panes[TOP_APPROVALS].n;

    buf_addf(&text, "%zu%s sandbox%s by %s, %zu denial%s, %zu approval%s waiting", boxes,
             boxes == TOP_ROWS_MAX ? "+" : "", boxes == 1 ? "" : "es", top_sorts[t->sort],
             t->n_denials, units_plural(t->n_denials), held, units_plural(held));
    frame_add(f, FRAME_BOLD, buf_str(&text));
}

static const char *key_line(const struct top *t)
{
    static const char *const lines[] = {
        [TOP_DETAILS] = "any key: back",
        [TOP_HELP] = "any key: back",
        [TOP_TABLES] = "",
        [TOP_CONFIRM] = "",
    };

    if (t->message[0])
        return t->message;
    if (t->mode != TOP_TABLES)
        return lines[t->mode];
    return t->pane == TOP_APPROVALS
               ? "y approve  n reject  Enter details  Tab sandboxes  ? help  q quit"
               : "Enter details  x destroy  p pause  c m n a sort  Tab approvals  ? help  q quit";
}

void top_draw(const struct top *t, int64_t now, struct frame *f)
{
    size_t lines = f->rows > 2 ? f->rows - 2u : 0;
    const struct json *details = t->details ? t->details : top_selected(t);

    if (f->rows > 1)
        add_summary_line(t, f);
    if (t->mode == TOP_DETAILS && details)
        add_details(details, now, lines, f);
    else if (t->mode == TOP_HELP)
        add_help(lines, f);
    else
        add_tables(t, now, lines, f);
    if (f->rows)
        frame_fill(f, (uint16_t)(f->rows - 1));
    frame_add(f, FRAME_BOLD, str_from(key_line(t)));
}
