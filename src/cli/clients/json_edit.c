/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/clients/json_edit.h"

#include <string.h>

#include "base/own.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"

enum { KEY_MEMORY = 4096, INDENT_MAX = 64, CUTS_MAX = 3 };

static const struct json_limits limits = { .bytes = JSON_EDIT_MAX, .depth = JSON_PLAIN_DEPTH };

/* A document that was checked. Positions are in both texts. */
struct edit {
    struct str text;
    struct str plain; /* ended by NUL */
    struct err *e;
};

struct span {
    size_t at, end;
};

/* A member of an object, and its neighbourhood. */
struct found {
    struct span object;               /* with its braces */
    struct span key, value;           /* at == end: not there */
    struct span last_key, last;       /* the key and value of the last member; the same for none */
    size_t comma_before, comma_after; /* positions of the commas around the member; 0: none */
    bool trailing_comma;
};

/* --- finding --- */

static size_t skip_blanks(struct str s, size_t at)
{
    return at + strspn(s.p + at, " \t\r\n");
}

static size_t skip_string(struct str s, size_t at)
{
    for (at++; s.p[at] != '"'; at++)
        at += s.p[at] == '\\';
    return at + 1;
}

/* The end of the value at this position. */
static size_t skip_value(struct str s, size_t at)
{
    size_t depth = 0;

    do {
        if (s.p[at] == '"') {
            at = skip_string(s, at);
            continue;
        }
        if (!strchr("{}[],:", s.p[at])) {
            at += strcspn(s.p + at, "{}[],: \t\r\n\"");
        } else {
            depth += s.p[at] == '{' || s.p[at] == '[';
            depth -= s.p[at] == '}' || s.p[at] == ']';
            at++;
        }
        at = depth ? skip_blanks(s, at) : at;
    } while (depth);
    return at;
}

static bool key_is(const struct edit *d, struct span key, const char *name)
{
    struct str text = { d->plain.p + key.at, key.end - key.at };
    AUTO(arena_done) struct arena a = ARENA_INIT(KEY_MEMORY);
    const struct json *v;

    if (str_find(text, '\\') == text.n)
        return str_eq((struct str){ text.p + 1, text.n - 2 }, str_from(name));
    return json_read(text, limits, &a, &v, NULL) >= 0 && str_eq(v->s, str_from(name));
}

static int fail_edit(const struct edit *d, size_t at, const char *name, const char *why)
{
    return err_set(d->e, ERR_INVALID, "line %zu: '%s' %s", json_plain_line(d->text, at), name, why);
}

/* Whether the object that ends with this brace has a comma behind its last value. */
static bool has_trailing_comma(const struct edit *d, size_t from, size_t brace)
{
    for (size_t i = from; i < brace; i++)
        if (d->text.p[i] == ',' && d->plain.p[i] == JSON_PLAIN_COMMA)
            return true;
    return false;
}

static size_t find_trailing_comma(const struct edit *d, size_t from)
{
    while (d->text.p[from] != ',' || d->plain.p[from] != JSON_PLAIN_COMMA)
        from++;
    return from;
}

/* Looks for a name in the object that begins at this position. */
static int find_in_object(const struct edit *d, size_t object, const char *name, struct found *f)
{
    size_t at = skip_blanks(d->plain, object + 1), comma = 0;
    bool after = false;

    *f = (struct found){ .object.at = object };
    while (d->plain.p[at] != '}') {
        struct span key = { at, skip_string(d->plain, at) }, value;

        value.at = skip_blanks(d->plain, skip_blanks(d->plain, key.end) + 1);
        value.end = skip_value(d->plain, value.at);
        if (key_is(d, key, name)) {
            if (f->value.end)
                return fail_edit(d, key.at, name, "is there twice; remove one");
            f->key = key;
            f->value = value;
            f->comma_before = comma;
            after = true;
        }
        f->last_key = key;
        f->last = value;
        at = skip_blanks(d->plain, value.end);
        if (d->plain.p[at] != ',')
            continue;
        comma = at;
        if (after)
            f->comma_after = at;
        after = false;
        at = skip_blanks(d->plain, at + 1);
    }
    f->object.end = at + 1;
    f->trailing_comma = f->last.end && has_trailing_comma(d, f->last.end, at);
    if (after && f->trailing_comma)
        f->comma_after = find_trailing_comma(d, f->last.end);
    return 0;
}

/* Finds the member, or the innermost object of the path that exists: *ret_depth is the number of the
 * names that were found. */
static int find_path(const struct edit *d, const struct json_path *path, struct found *f,
                     size_t *ret_depth)
{
    size_t at = skip_blanks(d->plain, 0);
    int r;

    *f = (struct found){ 0 };
    if (d->plain.p[at] != '{')
        return err_set(d->e, ERR_INVALID, "line %zu: expected an object",
                       json_plain_line(d->text, at));
    for (size_t i = 0; i < path->n; i++) {
        r = find_in_object(d, at, path->names[i], f);
        if (r < 0)
            return r;
        *ret_depth = i;
        if (!f->value.end)
            return 0;
        at = f->value.at;
        if (i + 1 < path->n && d->plain.p[at] != '{')
            return fail_edit(d, f->key.at, path->names[i], "is not an object");
    }
    *ret_depth = path->n;
    return 0;
}

/* --- the layout of new text --- */

struct layout {
    const char *newline;
    struct str unit;       /* of indentation */
    char base[INDENT_MAX]; /* the indentation of the member */
    bool spaced;           /* blanks behind ':' and ',' */
    bool lines;            /* a value in each line */
};

/* The blanks at the beginning of the position's line; empty if they are not worth copying. */
static struct str line_indent(struct str text, size_t at)
{
    struct str s;

    while (at && text.p[at - 1] != '\n')
        at--;
    s = (struct str){ text.p + at, strspn(text.p + at, " \t") };
    return s.n < INDENT_MAX / 2 ? s : (struct str){ "", 0 };
}

/* Whether only blanks are in front of it in its line. */
static bool begins_line(struct str text, size_t at)
{
    while (at && (text.p[at - 1] == ' ' || text.p[at - 1] == '\t'))
        at--;
    return at && text.p[at - 1] == '\n';
}

static bool has_newline(struct str text, size_t from, size_t to)
{
    return memchr(text.p + from, '\n', to - from) != NULL;
}

/* The habits of the whole document. */
static void learn_layout(const struct edit *d, struct layout *l)
{
    size_t brace = skip_blanks(d->plain, 0), first = skip_blanks(d->plain, brace + 1), colon;
    size_t newline = str_find(d->text, '\n');

    *l = (struct layout){ .newline = "\n", .unit = STR("  "), .spaced = true };
    if (newline && newline < d->text.n && d->text.p[newline - 1] == '\r')
        l->newline = "\r\n";
    if (d->plain.p[first] != '"')
        return;
    colon = skip_blanks(d->plain, skip_string(d->plain, first));
    l->spaced = strchr(" \t\r\n", d->plain.p[colon + 1]) != NULL;
    if (begins_line(d->text, first) && line_indent(d->text, first).n)
        l->unit = line_indent(d->text, first);
}

static void set_base(struct layout *l, struct str base, struct str more)
{
    memcpy(l->base, base.p, base.n);
    memcpy(l->base + base.n, more.p, more.n);
    l->base[base.n + more.n] = '\0';
}

static void put_indent(struct buf *out, const struct layout *l, size_t depth)
{
    if (!l->lines)
        return;
    (void)buf_addf(out, "%s%s", l->newline, l->base);
    while (depth--)
        (void)buf_add(out, l->unit);
}

static void put_scalar(struct buf *out, const struct json *v)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_put_tree(&w, v);
    (void)json_writer_finish(&w, NULL);
}

static void put_key(struct buf *out, const struct layout *l, struct str name)
{
    put_scalar(out, &(struct json){ .type = JSON_STR, .s = name });
    (void)buf_addf(out, ":%s", l->spaced ? " " : "");
}

/* The caller checks the result as a whole. */
static void put_value(struct buf *out, const struct layout *l, const struct json *v, size_t depth)
{
    bool object = v->type == JSON_OBJECT;

    if (v->type < JSON_ARRAY || !v->list.n) {
        put_scalar(out, v);
        return;
    }
    (void)buf_add_c(out, object ? '{' : '[');
    for (const struct json *item = json_first(v); item != json_end(v); item++) {
        if (item != json_first(v))
            (void)buf_addf(out, ",%s", l->spaced && !l->lines ? " " : "");
        put_indent(out, l, depth + 1);
        if (object)
            put_key(out, l, item->key);
        put_value(out, l, item, depth + 1);
    }
    put_indent(out, l, depth);
    (void)buf_add_c(out, object ? '}' : ']');
}

/* --- changes --- */

static void put_text(struct buf *out, const struct edit *d, size_t from, size_t to)
{
    (void)buf_add(out, (struct str){ d->text.p + from, to - from });
}

static void replace_value(const struct edit *d, const struct found *f, const struct json *value,
                          struct buf *out)
{
    struct layout l;

    learn_layout(d, &l);
    set_base(&l, line_indent(d->text, f->key.at), STR(""));
    l.lines = has_newline(d->text, f->value.at, f->value.end);
    put_text(out, d, 0, f->value.at);
    put_value(out, &l, value, 0);
    put_text(out, d, f->value.end, d->text.n);
}

/* Whether a new member of the object gets a line of its own. */
static bool wants_lines(const struct edit *d, const struct found *f)
{
    size_t first = skip_blanks(d->plain, f->object.at + 1);
    struct str whole = str_trim(d->text);

    if (f->last.end)
        return has_newline(d->text, f->object.at, first) ||
               has_newline(d->text, f->last.end, f->object.end);
    return f->object.at == skip_blanks(d->plain, 0) || has_newline(whole, 0, whole.n);
}

/* The end of what the object holds, comments included. */
static size_t content_end(const struct edit *d, const struct found *f)
{
    size_t at = f->object.end - 1;

    while (at > f->object.at + 1 && strchr(" \t\r\n", d->text.p[at - 1]))
        at--;
    return at;
}

static void insert_member(const struct edit *d, const struct found *f, const char *name,
                          const struct json *value, struct buf *out)
{
    bool needs_comma = f->last.end && !f->trailing_comma;
    size_t end = content_end(d, f), comma = needs_comma ? f->last.end : end;
    struct str around = line_indent(d->text, f->object.at);
    struct layout l;

    learn_layout(d, &l);
    l.lines = wants_lines(d, f);
    if (f->last.end && begins_line(d->text, f->last_key.at))
        set_base(&l, line_indent(d->text, f->last_key.at), STR(""));
    else
        set_base(&l, around, l.unit);
    put_text(out, d, 0, comma);
    if (needs_comma)
        (void)buf_add_c(out, ',');
    put_text(out, d, comma, end);
    if (!l.lines && f->last.end && l.spaced)
        (void)buf_add_c(out, ' ');
    put_indent(out, &l, 0);
    put_key(out, &l, str_from(name));
    put_value(out, &l, value, 0);
    if (f->trailing_comma)
        (void)buf_add_c(out, ',');
    if (l.lines && !f->last.end && !has_newline(d->text, end, f->object.end))
        (void)buf_addf(out, "%s" STR_FMT, l.newline, STR_ARG(around));
    put_text(out, d, end, d->text.n);
}

/* The member without the blanks that only it needs: its lines, if it has them for itself. */
static struct span member_cut(const struct edit *d, const struct found *f)
{
    struct span cut = { f->key.at, f->value.end };
    size_t right;

    if (f->comma_after && skip_blanks(d->text, cut.end) == f->comma_after)
        cut.end = f->comma_after + 1;
    right = cut.end + strspn(d->text.p + cut.end, " \t\r");
    if (begins_line(d->text, cut.at) && d->text.p[right] == '\n') {
        cut.at -= line_indent(d->text, cut.at).n;
        cut.end = right + 1;
    } else if (f->comma_after) {
        cut.end = right;
    } else {
        while (strchr(" \t", d->text.p[cut.at - 1]))
            cut.at--;
    }
    return cut;
}

static void cut_member(const struct edit *d, const struct found *f, struct buf *out)
{
    struct span cut = member_cut(d, f);
    size_t before = f->comma_after ? 0 : f->comma_before;

    if (before) {
        put_text(out, d, 0, before);
        put_text(out, d, before + 1, cut.at);
    } else {
        put_text(out, d, 0, cut.at);
    }
    if (f->comma_after >= cut.end) {
        put_text(out, d, cut.end, f->comma_after);
        put_text(out, d, f->comma_after + 1, d->text.n);
    } else {
        put_text(out, d, cut.end, d->text.n);
    }
}

/* --- the interface --- */

static int edit_begin(struct edit *d, struct str text, struct json_dialect dialect,
                      struct buf *plain, struct err *e)
{
    int r = json_plain(text, dialect, plain, e);

    *d = (struct edit){ .text = text, .plain = buf_str(plain), .e = e };
    return r;
}

/* Reads what was found; a value that our reader refuses, such as one with a member twice, is NULL. */
static const struct json *read_found(const struct edit *d, const struct found *f, struct arena *a)
{
    struct str text = { d->plain.p + f->value.at, f->value.end - f->value.at };
    const struct json *v;

    return json_read(text, limits, a, &v, NULL) >= 0 ? v : NULL;
}

int json_edit_get(struct str text, struct json_dialect d, const struct json_path *path,
                  struct arena *a, const struct json **ret, struct err *e)
{
    AUTO(buf_done) struct buf plain = BUF_INIT(JSON_EDIT_MAX);
    const struct json *v;
    struct edit doc;
    struct found f;
    size_t depth;
    int r = edit_begin(&doc, text, d, &plain, e);

    if (r < 0)
        return r;
    r = find_path(&doc, path, &f, &depth);
    if (r < 0 || depth < path->n)
        return r;
    v = read_found(&doc, &f, a);
    if (!v)
        return fail_edit(&doc, f.key.at, path->names[path->n - 1], "cannot be read");
    *ret = v;
    return 1;
}

/* The result must be readable, with just this value; anything else is a mistake of ours. */
static int check_edited(const struct buf *out, size_t from, struct json_dialect d,
                        const struct json_path *path, const struct json *value, struct err *e)
{
    struct str made = { out->p + from, out->n - from };
    AUTO(arena_done) struct arena a = ARENA_INIT(2 * JSON_EDIT_MAX);
    const struct json *now = NULL;
    int r = json_edit_get(made, d, path, &a, &now, e);

    if (r < 0 || r != (value != NULL) || (value && !json_equal(now, value)))
        return err_set(e, ERR_BUG, "the changed text would not say the same; change it by hand");
    return 1;
}

/* `name` and the value below it: objects for the names behind the found ones. */
static const struct json *wrap_value(const struct json_path *path, size_t depth,
                                     const struct json *value,
                                     struct json nodes[static JSON_EDIT_PATH_MAX])
{
    size_t n = path->n - depth - 1;

    if (!n)
        return value;
    for (size_t i = 0; i < n; i++)
        nodes[i] = (struct json){ .type = JSON_OBJECT, .list = { &nodes[i + 1], 1 } };
    nodes[n] = *value;
    for (size_t i = 1; i <= n; i++)
        nodes[i].key = str_from(path->names[depth + i]);
    return &nodes[0];
}

static bool found_equals(const struct edit *d, const struct found *f, const struct json *value)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(2 * JSON_EDIT_MAX);
    const struct json *now = read_found(d, f, &a);

    return now && json_equal(now, value);
}

int json_edit_set(struct str text, struct json_dialect d, const struct json_path *path,
                  const struct json *value, struct buf *out, struct err *e)
{
    AUTO(buf_done) struct buf plain = BUF_INIT(JSON_EDIT_MAX);
    struct json nodes[JSON_EDIT_PATH_MAX];
    size_t depth, from = out->n;
    struct edit doc;
    struct found f;
    int r = edit_begin(&doc, text, d, &plain, e);

    if (r < 0)
        return r;
    r = find_path(&doc, path, &f, &depth);
    if (r < 0)
        return r;
    if (depth == path->n && found_equals(&doc, &f, value))
        return buf_add(out, text) < 0
                   ? err_set(e, ERR_TOO_BIG, "the file is larger than %d MiB", JSON_EDIT_MAX >> 20)
                   : 0;
    if (depth == path->n)
        replace_value(&doc, &f, value, out);
    else
        insert_member(&doc, &f, path->names[depth], wrap_value(path, depth, value, nodes), out);
    r = check_edited(out, from, d, path, value, e);
    if (r < 0)
        out->n = from;
    return r;
}

int json_edit_remove(struct str text, struct json_dialect d, const struct json_path *path,
                     struct buf *out, struct err *e)
{
    AUTO(buf_done) struct buf plain = BUF_INIT(JSON_EDIT_MAX);
    size_t depth, from = out->n;
    struct edit doc;
    struct found f;
    int r = edit_begin(&doc, text, d, &plain, e);

    if (r < 0)
        return r;
    r = find_path(&doc, path, &f, &depth);
    if (r < 0)
        return r;
    if (depth < path->n)
        return buf_add(out, text) < 0
                   ? err_set(e, ERR_TOO_BIG, "the file is larger than %d MiB", JSON_EDIT_MAX >> 20)
                   : 0;
    cut_member(&doc, &f, out);
    r = check_edited(out, from, d, path, NULL, e);
    if (r < 0)
        out->n = from;
    return r;
}
