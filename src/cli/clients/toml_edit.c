/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/clients/toml_edit.h"

#include "base/own.h"
#include "cli/clients/json_plain.h"
#include "cli/clients/toml_scan.h"

enum { OURS = 2 }; /* the number of the names in [parent.name] */

/* One pass over the document. */
struct toml_pass {
    struct toml_scan scan;
    struct toml_table table;
    struct toml_item item;
    struct str current[TOML_PARTS_MAX]; /* the table that the pairs are in */
    size_t n_current;
    size_t depth; /* OURS: in the table; more: in a table of it; else 0 */
    bool seen;
    struct err *e;
};

static int begin_pass(struct toml_pass *p, struct str text, struct toml_table table, struct err *e)
{
    *p = (struct toml_pass){ .table = table, .e = e };
    return toml_scan_begin(&p->scan, text, e);
}

static const char *name_of(const struct toml_pass *p, size_t i)
{
    return i == 0 ? p->table.parent : p->table.name;
}

static int fail_pass(const struct toml_pass *p, const char *why)
{
    return err_set(p->e, ERR_INVALID, "line %zu: [%s.%s] %s",
                   json_plain_line(p->scan.text, p->item.at), p->table.parent, p->table.name, why);
}

/* How many of the names of our table the item's parts begin with, when `from` of them are known. */
static size_t count_names(const struct toml_pass *p, size_t from)
{
    size_t n = 0;

    while (from + n < OURS && n < p->item.n && toml_part_is(p->item.parts[n], name_of(p, from + n)))
        n++;
    return n;
}

static int enter_table(struct toml_pass *p)
{
    size_t n = count_names(p, 0);

    p->n_current = p->item.n;
    for (size_t i = 0; i < p->item.n; i++)
        p->current[i] = p->item.parts[i];
    p->depth = n == OURS ? p->item.n : 0;
    if (p->item.kind == TOML_TABLES && n == p->item.n)
        return fail_pass(p, "is written as a list of tables; change it by hand");
    if (p->depth != OURS)
        return 0;
    if (p->seen)
        return fail_pass(p, "is there twice; remove one");
    p->seen = true;
    return 0;
}

/* Pairs that define our table, or its parent, otherwise than by a header. */
static int refuse_other_form(const struct toml_pass *p)
{
    size_t known = 0;

    if (p->depth || p->n_current >= OURS)
        return 0;
    if (p->n_current && !toml_part_is(p->current[0], p->table.parent))
        return 0;
    known = p->n_current;
    if (known + count_names(p, known) == OURS)
        return fail_pass(p, "is written in another form; write it as a table with this name");
    if (known + p->item.n < OURS && count_names(p, known) == p->item.n)
        return fail_pass(p, "cannot be added to an inline table; change it by hand");
    return 0;
}

/* The next item: 1, or 0 at the end. */
static int next_item(struct toml_pass *p)
{
    int r = toml_scan_next(&p->scan, &p->item, p->e);

    if (r < 0)
        return r;
    if (p->item.kind == TOML_END)
        return 0;
    r = p->item.kind == TOML_PAIR ? refuse_other_form(p) : enter_table(p);
    return r < 0 ? r : 1;
}

/* --- set --- */

struct toml_places {
    size_t header_at, header_next;                  /* of our table's header; 0, 0: none */
    size_t at[TOML_PAIRS_MAX], end[TOML_PAIRS_MAX]; /* of the values; end 0: none */
};

static void note_value(const struct toml_pass *p, const struct toml_pair *pairs, size_t n,
                       struct toml_places *places)
{
    for (size_t i = 0; i < n; i++)
        if (p->item.n == 1 && toml_part_is(p->item.parts[0], pairs[i].key)) {
            places->at[i] = p->item.value_at;
            places->end[i] = p->item.value_end;
        }
}

static int find_places(struct toml_pass *p, const struct toml_pair *pairs, size_t n,
                       struct toml_places *places)
{
    int r;

    *places = (struct toml_places){ 0 };
    while ((r = next_item(p)) > 0) {
        if (p->depth == OURS && p->item.kind == TOML_PAIR)
            note_value(p, pairs, n, places);
        if (p->depth == OURS && p->item.kind == TOML_TABLE) {
            places->header_at = p->item.at;
            places->header_next = p->item.next;
        }
    }
    return r;
}

static const char *newline_of(struct str text)
{
    size_t at = str_find(text, '\n');

    return at && at < text.n && text.p[at - 1] == '\r' ? "\r\n" : "\n";
}

static int put_slice(struct buf *out, struct str text, size_t from, size_t to)
{
    return buf_add(out, (struct str){ text.p + from, to - from });
}

static int put_pair(struct buf *out, const struct toml_pair *pair, const char *newline)
{
    return buf_addf(out, "%s = " STR_FMT "%s", pair->key, STR_ARG(pair->value), newline);
}

static int append_table(struct str text, struct toml_table t, const struct toml_pair *pairs,
                        size_t n, struct buf *out)
{
    const char *newline = newline_of(text);
    int r = buf_add(out, text);

    if (r >= 0 && text.n && text.p[text.n - 1] != '\n')
        r = buf_addf(out, "%s", newline);
    if (r >= 0)
        r = buf_addf(out, "%s[%s.%s]%s", text.n ? newline : "", t.parent, t.name, newline);
    for (size_t i = 0; r >= 0 && i < n; i++)
        r = put_pair(out, &pairs[i], newline);
    return r;
}

/* The pair whose value begins next behind this position, or n. */
static size_t next_value(const struct toml_places *places, size_t n, size_t from)
{
    size_t best = n;

    for (size_t i = 0; i < n; i++)
        if (places->end[i] && places->at[i] >= from &&
            (best == n || places->at[i] < places->at[best]))
            best = i;
    return best;
}

static int rewrite_table(struct str text, const struct toml_pair *pairs, size_t n,
                         const struct toml_places *places, struct buf *out)
{
    const char *newline = newline_of(text);
    size_t at = places->header_next, i;
    int r = put_slice(out, text, 0, at);

    if (r >= 0 && text.p[at - 1] != '\n')
        r = buf_addf(out, "%s", newline);
    for (i = 0; r >= 0 && i < n; i++)
        if (!places->end[i])
            r = put_pair(out, &pairs[i], newline);
    while (r >= 0 && (i = next_value(places, n, at)) < n) {
        r = put_slice(out, text, at, places->at[i]);
        if (r >= 0)
            r = buf_add(out, pairs[i].value);
        at = places->end[i];
    }
    return r < 0 ? r : put_slice(out, text, at, text.n);
}

static bool places_match(struct str text, const struct toml_pair *pairs, size_t n,
                         const struct toml_places *places)
{
    for (size_t i = 0; i < n; i++)
        if (!str_eq((struct str){ text.p + places->at[i], places->end[i] - places->at[i] },
                    pairs[i].value))
            return false;
    return true;
}

int toml_edit_set(struct str text, struct toml_table table, const struct toml_pair *pairs, size_t n,
                  struct buf *out, struct err *e)
{
    struct toml_places places;
    struct toml_pass p;
    size_t from = out->n;
    bool same;
    int r = begin_pass(&p, text, table, e);

    if (r < 0)
        return r;
    r = find_places(&p, pairs, n, &places);
    if (r < 0)
        return r;
    same = p.seen && places_match(text, pairs, n, &places);
    if (same)
        r = buf_add(out, text);
    else
        r = p.seen ? rewrite_table(text, pairs, n, &places, out)
                   : append_table(text, table, pairs, n, out);
    if (r >= 0)
        return !same;
    out->n = from;
    return err_set(e, ERR_TOO_BIG, "longer than %zu bytes", out->max);
}

int toml_edit_has(struct str text, struct toml_table table, const char *key, struct err *e)
{
    const struct toml_pair pair = { .key = key };
    struct toml_places places;
    struct toml_pass p;
    int r = begin_pass(&p, text, table, e);

    if (r < 0)
        return r;
    r = find_places(&p, &pair, 1, &places);
    return r < 0 ? r : places.end[0] != 0;
}

/* --- remove --- */

/* The beginning of the header's line, with an empty line in front of it. */
static size_t cut_begin(struct str text, size_t at)
{
    while (at && text.p[at - 1] != '\n')
        at--;
    if (at >= 2 && text.p[at - 2] == '\n')
        return at - 1;
    if (at >= 3 && text.p[at - 2] == '\r' && text.p[at - 3] == '\n')
        return at - 2;
    return at;
}

static int copy_without(struct toml_pass *p, struct buf *out)
{
    size_t kept = 0, cut = 0;
    bool cutting = false;
    int r;

    while ((r = next_item(p)) > 0) {
        if (p->depth && !cutting) {
            cut = cut_begin(p->scan.text, p->item.at);
            r = put_slice(out, p->scan.text, kept, cut > kept ? cut : kept);
        }
        if (r < 0)
            return err_set(p->e, ERR_TOO_BIG, "longer than %zu bytes", out->max);
        cutting = p->depth != 0;
        if (cutting)
            kept = p->item.next;
    }
    if (r < 0)
        return r;
    if (put_slice(out, p->scan.text, kept, p->scan.text.n) < 0)
        return err_set(p->e, ERR_TOO_BIG, "longer than %zu bytes", out->max);
    return kept != 0;
}

int toml_edit_remove(struct str text, struct toml_table table, struct buf *out, struct err *e)
{
    struct toml_pass p;
    size_t from = out->n;
    int r = begin_pass(&p, text, table, e);

    if (r < 0)
        return r;
    r = copy_without(&p, out);
    if (r < 0)
        out->n = from;
    return r;
}
