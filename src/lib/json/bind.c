/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/bind.h"

#include <string.h>

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "base/clock.h"
#include "base/units.h"
#include "lib/json/number.h"
#include "lib/json/place.h"

enum { UNITS_TEXT = 32 }; /* bytes, longer than any quantity people write */

/* The context of every reader of a value. */
struct bind {
    struct arena *arena;
    struct err *e;
    const struct json_mistakes *all; /* NULL: the first mistake is the last */
    int *first;                      /* mistake that was passed over; 0: none */
};

/* Reports a mistake of the document and continues, if the caller wants all mistakes. */
static int pass_mistake_over(const struct bind *b, int r)
{
    if (r != -(int)ERR_INVALID || !b->all)
        return r;
    b->all->each(b->all->user, b->e);
    *b->first = *b->first ? *b->first : r;
    return 0;
}

static int fail_bind_memory(const struct bind *b)
{
    return err_set(b->e, ERR_TOO_BIG, "the document needs more memory than the allowed %zu bytes",
                   b->arena->max);
}

static bool is_limited(const struct json_field *f)
{
    return f->min || f->max;
}

static bool limited_above(const struct json_field *f)
{
    return is_limited(f) && f->max >= f->min;
}

static bool is_within_limits(const struct json_field *f, __int128 n)
{
    return !is_limited(f) || (n >= f->min && (!limited_above(f) || n <= f->max));
}

typedef void shower(int64_t n, char out[static 24]);

static void show_number(int64_t n, char out[static 24])
{
    snprintf(out, 24, "%" PRId64, n);
}

static void show_size(int64_t n, char out[static 24])
{
    units_show_bytes((uint64_t)n, out);
}

static void show_seconds(int64_t ns, char out[static 24])
{
    snprintf(out, 24, "%.9gs", (double)ns / (double)NS_PER_S);
}

static int fail_limits(const struct bind *b, const struct json_place *at, const struct json *v,
                       const struct json_field *f, const char *noun, shower *show)
{
    char min[24], max[24];

    show(f->min, min);
    show(f->max, max);
    if (limited_above(f))
        return json_place_fail(at, v, b->e, "must be %s from %s to %s", noun, min, max);
    return json_place_fail(at, v, b->e, "must be %s of at least %s", noun, min);
}

static int check_member_count(const struct bind *b, const struct json_place *at,
                              const struct json *v, const struct json_field *f, size_t n,
                              const char *what)
{
    bool below = (__int128)n < f->min;

    if (is_within_limits(f, (__int128)n))
        return 0;
    return json_place_fail(at, v, b->e, "the %s must be at %s %" PRId64 ", not %zu", what,
                           below ? "least" : "most", below ? f->min : f->max, n);
}

typedef int reader(const struct bind *b, const struct json_place *at, const struct json *v,
                   const struct json_field *f, void *out);

static int bind_bool(const struct bind *b, const struct json_place *at, const struct json *v,
                     const struct json_field *f, void *out)
{
    if (v->type != JSON_BOOL)
        return json_place_expected(at, v, "true or false", b->e);
    memcpy(out, &v->b, sizeof v->b);
    return 0;
}

/* Stores the low bytes of the value; the caller made sure that they are all of it. */
static void store_integer(uint64_t value, size_t size, void *out)
{
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low bytes come first");
    memcpy(out, &value, size);
}

static void show_wide(__int128 n, char out[static 24])
{
    if (n < 0)
        snprintf(out, 24, "%" PRId64, (int64_t)n);
    else
        snprintf(out, 24, "%" PRIu64, (uint64_t)n);
}

/* Checks both limits: that of the table and that of the member's type. */
static int check_whole(const struct bind *b, const struct json_place *at, const struct json *v,
                       const struct json_field *f, __int128 least, __int128 most)
{
    __int128 n = v->type == JSON_UINT ? (__int128)v->u : (__int128)v->i;
    char min[24], max[24];

    if (is_limited(f) && f->min > least)
        least = f->min;
    if (limited_above(f) && f->max < most)
        most = f->max;
    if (n >= least && n <= most)
        return 0;
    show_wide(least, min);
    show_wide(most, max);
    return json_place_fail(at, v, b->e, "must be a whole number from %s to %s", min, max);
}

static int bind_whole(const struct bind *b, const struct json_place *at, const struct json *v,
                      const struct json_field *f, void *out)
{
    size_t size = json_member_size_(f);
    unsigned bits = (unsigned)size * 8;
    bool is_signed = f->kind == JSON_KIND_INT;
    __int128 least = is_signed ? -((__int128)1 << (bits - 1)) : 0;
    __int128 most = ((__int128)1 << (is_signed ? bits - 1 : bits)) - 1;
    int r;

    if (v->type != JSON_INT && v->type != JSON_UINT)
        return json_place_expected(at, v, "a whole number", b->e);
    r = check_whole(b, at, v, f, least, most);
    if (r < 0)
        return r;
    store_integer(v->u, size, out);
    return 0;
}

static double as_double(const struct json *v)
{
    return v->type == JSON_INT ? (double)v->i : v->type == JSON_UINT ? (double)v->u : v->d;
}

static int bind_double(const struct bind *b, const struct json_place *at, const struct json *v,
                       const struct json_field *f, void *out)
{
    double d;

    if (v->type < JSON_INT || v->type > JSON_DOUBLE)
        return json_place_expected(at, v, "a number", b->e);
    d = as_double(v);
    if (is_limited(f) && (d < (double)f->min || (limited_above(f) && d > (double)f->max)))
        return fail_limits(b, at, v, f, "a number", show_number);
    memcpy(out, &d, sizeof d);
    return 0;
}

/* A C string on the arena. */
static int copy_bound_str(const struct bind *b, const struct json_place *at, const struct json *v,
                          struct str s, const char **ret)
{
    char *copy;

    if (s.n && memchr(s.p, '\0', s.n))
        return json_place_fail(at, v, b->e, "must not hold a NUL character");
    copy = arena_dup(b->arena, s);
    if (!copy)
        return fail_bind_memory(b);
    *ret = copy;
    return 0;
}

static int bind_str_field(const struct bind *b, const struct json_place *at, const struct json *v,
                          const struct json_field *f, void *out)
{
    int r;

    if (v->type != JSON_STR)
        return json_place_expected(at, v, "a string", b->e);
    r = check_member_count(b, at, v, f, v->s.n, "length in bytes");
    return r < 0 ? r : copy_bound_str(b, at, v, v->s, out);
}

static int bind_bytes_field(const struct bind *b, const struct json_place *at, const struct json *v,
                            const struct json_field *f, void *out)
{
    uint64_t n = 0;

    if (v->type == JSON_INT || v->type == JSON_UINT) {
        if (v->type == JSON_INT && v->i < 0)
            return json_place_fail(at, v, b->e, "a size cannot be negative");
        n = v->u;
    } else if (v->type != JSON_STR || v->s.n > UNITS_TEXT || units_bytes(v->s, "", &n, NULL) < 0) {
        return json_place_expected(at, v, "a size such as \"64M\" or a number of bytes", b->e);
    }
    if (!is_within_limits(f, (__int128)n))
        return fail_limits(b, at, v, f, "a size", show_size);
    memcpy(out, &n, sizeof n);
    return 0;
}

/* Whole or broken seconds as nanoseconds; false if they are negative or too many. */
static bool seconds_to_ns(const struct json *v, int64_t *ret)
{
    double ns = as_double(v) * (double)NS_PER_S + 0.5;

    if (v->type == JSON_INT)
        return v->i >= 0 && !__builtin_mul_overflow(v->i, NS_PER_S, ret);
    if (v->type != JSON_DOUBLE || v->d < 0 || ns >= (double)INT64_MAX)
        return false;
    *ret = (int64_t)ns;
    return true;
}

static int bind_duration(const struct bind *b, const struct json_place *at, const struct json *v,
                         const struct json_field *f, void *out)
{
    int64_t ns = 0;
    bool good = v->type == JSON_STR
                    ? v->s.n <= UNITS_TEXT && units_duration(v->s, "", &ns, NULL) == 0
                    : seconds_to_ns(v, &ns);

    if (!good)
        return json_place_expected(
            at, v, "a duration such as \"90s\" or \"1h30m\", or a number of seconds", b->e);
    if (!is_within_limits(f, ns))
        return fail_limits(b, at, v, f, "a duration", show_seconds);
    memcpy(out, &ns, sizeof ns);
    return 0;
}

static bool is_enum_word(const struct json_field *f, struct str s, const char *word)
{
    if (!f->loose)
        return str_eq(s, str_from(word));
    return s.n == strlen(word) && strncasecmp(s.p, word, s.n) == 0;
}

static int bind_enum(const struct bind *b, const struct json_place *at, const struct json *v,
                     const struct json_field *f, void *out)
{
    char words[128] = "", wanted[144];

    for (size_t i = 0; f->names[i]; i++) {
        if (v->type == JSON_STR && is_enum_word(f, v->s, f->names[i])) {
            store_integer(i, json_member_size_(f), out);
            return 0;
        }
        json_place_add_word(words, sizeof words, f->names[i]);
    }
    snprintf(wanted, sizeof wanted, "one of: %s", words);
    return json_place_expected(at, v, wanted, b->e);
}

/* Checks type and number of the items, and makes room for them. */
static int begin_list_field(const struct bind *b, const struct json_place *at, const struct json *v,
                            const struct json_field *f, enum json_type type, const char *wanted,
                            size_t item_size, void **ret)
{
    int r;

    if (v->type != type)
        return json_place_expected(at, v, wanted, b->e);
    r = check_member_count(b, at, v, f, v->list.n,
                           type == JSON_ARRAY ? "number of items" : "number of members");
    if (r < 0)
        return r;
    *ret = arena_array(b->arena, v->list.n, item_size);
    return *ret ? 0 : fail_bind_memory(b);
}

static int bind_strs(const struct bind *b, const struct json_place *at, const struct json *v,
                     const struct json_field *f, void *out)
{
    struct json_strs list = { 0 };
    void *room = NULL;
    const char **strs;
    int r = begin_list_field(b, at, v, f, JSON_ARRAY, "a list of strings", sizeof *strs, &room);

    if (r < 0 || !room)
        return r;
    strs = room;
    for (const struct json *item = json_first(v); item != json_end(v); item++) {
        struct json_place here = json_place_item(at, list.n);

        strs[list.n] = "";
        r = item->type == JSON_STR ? copy_bound_str(b, &here, item, item->s, &strs[list.n])
                                   : json_place_expected(&here, item, "a string", b->e);
        r = pass_mistake_over(b, r);
        if (r < 0)
            return r;
        list.n++;
    }
    list.p = strs;
    memcpy(out, &list, sizeof list);
    return 0;
}

static int bind_map_field(const struct bind *b, const struct json_place *at, const struct json *v,
                          const struct json_field *f, void *out)
{
    struct json_map map = { 0 };
    void *room = NULL;
    struct json_pair *pair;
    int r = begin_list_field(b, at, v, f, JSON_OBJECT, "an object of strings", sizeof *pair, &room);

    if (r < 0 || !room)
        return r;
    map.p = pair = room;
    for (const struct json *member = json_first(v); member != json_end(v); member++, pair++) {
        struct json_place here = json_place_member(at, member->key);

        if (member->type != JSON_STR)
            return json_place_expected(&here, member, "a string", b->e);
        r = copy_bound_str(b, &here, member, member->key, &pair->key);
        if (r >= 0)
            r = copy_bound_str(b, &here, member, member->s, &pair->value);
        if (r < 0)
            return r;
        map.n++;
    }
    memcpy(out, &map, sizeof map);
    return 0;
}

static int bind_object(const struct bind *b, const struct json_place *at, const struct json *v,
                       const struct json_field *fields, size_t n, void *out);

static int bind_nested_object(const struct bind *b, const struct json_place *at,
                              const struct json *v, const struct json_field *f, void *out)
{
    return bind_object(b, at, v, f->fields, f->field_count, out);
}

/* Of an array, or with their names of an object. */
static int bind_objects(const struct bind *b, const struct json_place *at, const struct json *v,
                        const struct json_field *f, void *out)
{
    bool named = f->kind == JSON_KIND_NAMED;
    struct json_objects list = { 0 };
    int r = begin_list_field(b, at, v, f, named ? JSON_OBJECT : JSON_ARRAY,
                             named ? "an object of objects" : "a list of objects", f->item_size,
                             &list.p);

    if (r < 0 || !list.p)
        return r;
    for (const struct json *item = json_first(v); item != json_end(v); item++) {
        struct json_place here =
            named ? json_place_member(at, item->key) : json_place_item(at, list.n);
        char *to = (char *)list.p + list.n++ * f->item_size;

        if (named)
            r = copy_bound_str(b, &here, item, item->key, (const char **)(void *)to);
        if (r >= 0)
            r = pass_mistake_over(b, bind_object(b, &here, item, f->fields, f->field_count, to));
        if (r < 0)
            return r;
    }
    memcpy(out, &list, sizeof list);
    return 0;
}

static int bind_any(const struct bind *b, const struct json_place *at, const struct json *v,
                    const struct json_field *f, void *out)
{
    memcpy(out, &v, sizeof v);
    return 0;
}

static int refuse_answer_kind(const struct bind *b, const struct json_place *at,
                              const struct json *v, const struct json_field *f, void *out)
{
    return err_set(b->e, ERR_BUG, "'%s' has a kind that is only written", f->name);
}

static const struct {
    reader *read;
    size_t size;  /* of the largest member type */
    bool as_text; /* the preset is a string, even if it looks like a number */
} kinds[JSON_KIND_COUNT_] = {
    [JSON_KIND_BOOL] = { bind_bool, sizeof(bool), false },
    [JSON_KIND_INT] = { bind_whole, sizeof(int64_t), false },
    [JSON_KIND_UINT] = { bind_whole, sizeof(uint64_t), false },
    [JSON_KIND_DOUBLE] = { bind_double, sizeof(double), false },
    [JSON_KIND_STR] = { bind_str_field, sizeof(char *), true },
    [JSON_KIND_BYTES] = { bind_bytes_field, sizeof(uint64_t), true },
    [JSON_KIND_DURATION] = { bind_duration, sizeof(int64_t), true },
    [JSON_KIND_ENUM] = { bind_enum, sizeof(int), true },
    [JSON_KIND_STRS] = { bind_strs, sizeof(struct json_strs), false },
    [JSON_KIND_MAP] = { bind_map_field, sizeof(struct json_map), false },
    [JSON_KIND_OBJECT] = { bind_nested_object, 0, false },
    [JSON_KIND_OBJECTS] = { bind_objects, sizeof(struct json_objects), false },
    [JSON_KIND_NAMED] = { bind_objects, sizeof(struct json_objects), false },
    [JSON_KIND_ANY] = { bind_any, sizeof(struct json *), false },
    [JSON_KIND_TEXT] = { refuse_answer_kind, sizeof(char *), true },
    [JSON_KIND_CHARS] = { refuse_answer_kind, 0, true },
    [JSON_KIND_SLICE] = { refuse_answer_kind, sizeof(struct str), true },
    [JSON_KIND_TEXTS] = { refuse_answer_kind, sizeof(struct json_strs), false },
    [JSON_KIND_TIME] = { refuse_answer_kind, sizeof(int64_t), true },
    [JSON_KIND_SECONDS] = { refuse_answer_kind, sizeof(int64_t), false },
};

size_t json_member_size_(const struct json_field *f)
{
    return f->size ? f->size : kinds[f->kind].size;
}

bool json_preset_(const struct json_field *f, struct json *ret)
{
    struct str text = str_from(f->preset);
    struct json v = { .type = JSON_STR, .s = text };
    const char *why, *end;

    if (f->kind == JSON_KIND_BOOL) {
        v = (struct json){ .type = JSON_BOOL, .b = str_eq(text, STR("true")) };
        if (!v.b && !str_eq(text, STR("false")))
            return false;
    } else if (!kinds[f->kind].as_text) {
        end = json_number(text.p, &v, &why);
        if (!end || *end || f->kind > JSON_KIND_DOUBLE)
            return false;
    }
    *ret = v;
    return true;
}

static int bind_absent(const struct bind *b, const struct json_place *at,
                       const struct json_field *f, char *member)
{
    struct json v;
    int r = 0;

    if (f->kind == JSON_KIND_OBJECT) {
        for (size_t i = 0; i < f->field_count && r >= 0; i++)
            r = bind_absent(b, at, &f->fields[i], member + f->fields[i].offset);
        return r;
    }
    if (!f->preset)
        return 0;
    if (!json_preset_(f, &v))
        return err_set(b->e, ERR_BUG, "the preset '%s' of '%s' is no value", f->preset, f->name);
    return kinds[f->kind].read(b, at, &v, f, member);
}

static int bind_field(const struct bind *b, const struct json_place *up, const struct json *object,
                      const struct json_field *f, char *out)
{
    const struct json *v = json_get(object, str_from(f->name));
    struct json_place at = json_place_member(up, str_from(f->name));
    bool null = v && v->type == JSON_NULL && !f->no_null;
    bool there = v && !null && !(f->loose && v->type == JSON_STR && v->s.n == 0), wrong;
    int r = 0;

    if (f->seen)
        memcpy(out + f->seen, &there, sizeof there);
    if (there)
        r = kinds[f->kind].read(b, &at, v, f, out + f->offset);
    else if (f->required)
        r = json_place_fail(&at, object, b->e, "is required");
    wrong = r < 0;
    r = pass_mistake_over(b, r);
    return r < 0 || (there && !wrong) ? r : bind_absent(b, &at, f, out + f->offset);
}

static int check_known_field(const struct bind *b, const struct json_place *up,
                             const struct json *v, const struct json_field *fields, size_t n)
{
    struct json_place at = json_place_member(up, v->key);
    char names[128] = "";

    for (size_t i = 0; i < n; i++) {
        if (str_eq(v->key, str_from(fields[i].name)))
            return 0;
        json_place_add_word(names, sizeof names, fields[i].name);
    }
    return json_place_fail(&at, v, b->e, "no such field; there are: %s", names);
}

static int bind_object(const struct bind *b, const struct json_place *at, const struct json *v,
                       const struct json_field *fields, size_t n, void *out)
{
    int r = 0;

    if (v->type != JSON_OBJECT)
        return json_place_expected(at, v, "an object", b->e);
    for (const struct json *m = json_first(v); r >= 0 && m != json_end(v); m++)
        r = pass_mistake_over(b, check_known_field(b, at, m, fields, n));
    for (size_t i = 0; r >= 0 && i < n; i++)
        r = bind_field(b, at, v, &fields[i], out);
    return r < 0 ? r : 0;
}

int json_bind(const struct json *v, const struct json_field *fields, size_t n, void *out,
              struct arena *a, struct err *e)
{
    return json_bind_all(v, fields, n, out, a, NULL, e);
}

int json_bind_all(const struct json *v, const struct json_field *fields, size_t n, void *out,
                  struct arena *a, const struct json_mistakes *all, struct err *e)
{
    int first = 0;
    struct bind b = { .arena = a, .e = e, .all = all, .first = &first };
    struct json_place document = { 0 };
    int r = pass_mistake_over(&b, bind_object(&b, &document, v, fields, n, out));

    return r < 0 ? r : first;
}

bool json_map_copy(struct json_map *m, struct arena *a)
{
    struct json_pair *p = arena_array(a, m->n, sizeof *p);

    if (!p)
        return false;
    for (size_t i = 0; i < m->n; i++) {
        p[i].key = arena_dup(a, str_from(m->p[i].key));
        p[i].value = arena_dup(a, str_from(m->p[i].value));
        if (!p[i].key || !p[i].value)
            return false;
    }
    m->p = p;
    return true;
}

const char *json_map_get(const struct json_map *m, const char *key)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->p[i].key, key) == 0)
            return m->p[i].value;
    return NULL;
}

bool json_strs_copy(struct json_strs *list, struct arena *a)
{
    const char **p = arena_array(a, list->n, sizeof *p);

    for (size_t i = 0; p && i < list->n; i++)
        if (!(p[i] = arena_dup(a, str_from(list->p[i]))))
            return false;
    if (p)
        list->p = p;
    return p;
}
