/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/bind.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/rfc3339.h"

typedef void writer(struct json_writer *w, const struct json_field *f, const void *in);

static void write_bool(struct json_writer *w, const struct json_field *f, const void *in)
{
    json_put_bool(w, *(const bool *)in);
}

static uint64_t load_unsigned(const void *in, size_t size)
{
    uint64_t value = 0;

    memcpy(&value, in, size); /* little-endian, as in bind.c */
    return value;
}

static void write_int(struct json_writer *w, const struct json_field *f, const void *in)
{
    size_t size = json_member_size_(f);
    uint64_t low = load_unsigned(in, size);
    unsigned above = 64 - 8 * (unsigned)size;

    json_put_int(w, (int64_t)(low << above) >> above); /* carries the sign to the top */
}

static void write_uint(struct json_writer *w, const struct json_field *f, const void *in)
{
    json_put_uint(w, load_unsigned(in, json_member_size_(f)));
}

static void write_double(struct json_writer *w, const struct json_field *f, const void *in)
{
    json_put_double(w, *(const double *)in);
}

static void write_str(struct json_writer *w, const struct json_field *f, const void *in)
{
    json_put_str(w, str_from(*(const char *const *)in));
}

/* Seconds as a number where they are whole. A double could not hold every other duration, text can:
 * "1s500ms", "0.000001ms". */
static void write_duration(struct json_writer *w, const struct json_field *f, const void *in)
{
    int64_t ns = *(const int64_t *)in, s = ns / NS_PER_S, rest = ns % NS_PER_S;
    char text[64], whole[24] = "";

    if (ns < 0) {
        json_writer_fail(w, ERR_BUG, "negative duration written as JSON");
    } else if (rest == 0) {
        json_put_int(w, s);
    } else {
        if (s)
            snprintf(whole, sizeof whole, "%" PRId64 "s", s);
        if (rest % NS_PER_MS)
            snprintf(text, sizeof text, "%s%" PRId64 ".%06" PRId64 "ms", whole, rest / NS_PER_MS,
                     rest % NS_PER_MS);
        else
            snprintf(text, sizeof text, "%s%" PRId64 "ms", whole, rest / NS_PER_MS);
        json_put_str(w, str_from(text));
    }
}

static void write_enum(struct json_writer *w, const struct json_field *f, const void *in)
{
    uint64_t value = load_unsigned(in, json_member_size_(f));

    for (uint64_t i = 0; f->names[i]; i++)
        if (i == value) {
            json_put_str(w, str_from(f->names[i]));
            return;
        }
    json_writer_fail(w, ERR_BUG, "%s: the value %" PRIu64 " has no name", f->name, value);
}

static void write_strs(struct json_writer *w, const struct json_field *f, const void *in)
{
    const struct json_strs *strs = in;

    json_begin_array(w);
    for (size_t i = 0; i < strs->n; i++)
        json_put_str(w, str_from(strs->p[i]));
    json_end_array(w);
}

static void write_map(struct json_writer *w, const struct json_field *f, const void *in)
{
    const struct json_map *map = in;

    json_begin_object(w);
    for (size_t i = 0; i < map->n; i++) {
        json_key(w, str_from(map->p[i].key));
        json_put_str(w, str_from(map->p[i].value));
    }
    json_end_object(w);
}

static void write_object(struct json_writer *w, const struct json_field *f, const void *in)
{
    json_unbind(in, f->fields, f->field_count, w);
}

static void write_objects(struct json_writer *w, const struct json_field *f, const void *in)
{
    const struct json_objects *objects = in;

    json_begin_array(w);
    for (size_t i = 0; i < objects->n; i++)
        json_unbind((const char *)objects->p + i * f->item_size, f->fields, f->field_count, w);
    json_end_array(w);
}

static void write_named(struct json_writer *w, const struct json_field *f, const void *in)
{
    const struct json_objects *objects = in;

    json_begin_object(w);
    for (size_t i = 0; i < objects->n; i++) {
        const void *item = (const char *)objects->p + i * f->item_size;

        json_key(w, str_from(*(const char *const *)item));
        json_unbind(item, f->fields, f->field_count, w);
    }
    json_end_object(w);
}

static void write_any(struct json_writer *w, const struct json_field *f, const void *in)
{
    json_put_tree(w, *(const struct json *const *)in);
}

static void write_text(struct json_writer *w, const struct json_field *f, const void *in)
{
    json_put_lossy(w, str_from(*(const char *const *)in));
}

static void write_chars(struct json_writer *w, const struct json_field *f, const void *in)
{
    json_put_lossy(w, str_from(in));
}

static void write_slice(struct json_writer *w, const struct json_field *f, const void *in)
{
    json_put_lossy(w, *(const struct str *)in);
}

static void write_texts(struct json_writer *w, const struct json_field *f, const void *in)
{
    const struct json_strs *texts = in;

    json_begin_array(w);
    for (size_t i = 0; i < texts->n; i++)
        if (f->nullable && !texts->p[i])
            json_put_null(w);
        else
            json_put_lossy(w, str_from(texts->p[i]));
    json_end_array(w);
}

static void write_time(struct json_writer *w, const struct json_field *f, const void *in)
{
    char text[TIME_TEXT];

    time_text(*(const int64_t *)in, text);
    json_put_str(w, str_from(text));
}

static void write_seconds(struct json_writer *w, const struct json_field *f, const void *in)
{
    json_put_int(w, *(const int64_t *)in / NS_PER_S);
}

static writer *const writers[JSON_KIND_COUNT_] = {
    [JSON_KIND_BOOL] = write_bool,         [JSON_KIND_INT] = write_int,
    [JSON_KIND_UINT] = write_uint,         [JSON_KIND_DOUBLE] = write_double,
    [JSON_KIND_STR] = write_str,           [JSON_KIND_BYTES] = write_uint,
    [JSON_KIND_DURATION] = write_duration, [JSON_KIND_ENUM] = write_enum,
    [JSON_KIND_STRS] = write_strs,         [JSON_KIND_MAP] = write_map,
    [JSON_KIND_OBJECT] = write_object,     [JSON_KIND_OBJECTS] = write_objects,
    [JSON_KIND_NAMED] = write_named,       [JSON_KIND_ANY] = write_any,
    [JSON_KIND_TEXT] = write_text,         [JSON_KIND_CHARS] = write_chars,
    [JSON_KIND_SLICE] = write_slice,       [JSON_KIND_TEXTS] = write_texts,
    [JSON_KIND_TIME] = write_time,         [JSON_KIND_SECONDS] = write_seconds,
};

static bool is_empty_member(const struct json_field *f, const void *member)
{
    switch (f->kind) {
    case JSON_KIND_STR:
    case JSON_KIND_TEXT:
        return !*(const char *const *)member || !**(const char *const *)member;
    case JSON_KIND_CHARS:
        return !*(const char *)member;
    case JSON_KIND_SLICE:
        return ((const struct str *)member)->n == 0;
    case JSON_KIND_STRS:
    case JSON_KIND_TEXTS:
        return ((const struct json_strs *)member)->n == 0;
    case JSON_KIND_MAP:
        return ((const struct json_map *)member)->n == 0;
    case JSON_KIND_OBJECTS:
    case JSON_KIND_NAMED:
        return ((const struct json_objects *)member)->n == 0;
    case JSON_KIND_OBJECT:
    case JSON_KIND_ANY:
        return false;
    default:
        return load_unsigned(member, json_member_size_(f)) == 0;
    }
}

/* `in` is the struct with the flag, `member` the member itself. */
static bool is_field_present(const struct json_field *f, const char *in, const void *member)
{
    if (f->seen && !*(const bool *)(in + f->seen))
        return false;
    switch (f->kind) {
    case JSON_KIND_STR:
    case JSON_KIND_ANY:
        if (!*(const void *const *)member)
            return false;
        break;
    case JSON_KIND_TEXT:
    case JSON_KIND_SLICE: /* begins with a pointer */
        if ((!f->required || f->nullable) && !*(const void *const *)member)
            return false;
        break;
    case JSON_KIND_TIME:
        if (!f->required && !*(const int64_t *)member)
            return false;
        break;
    case JSON_KIND_STRS:
    case JSON_KIND_OBJECTS:
        if (f->min > 0 && is_empty_member(f, member)) /* it may not be empty */
            return false;
        break;
    default:
        break;
    }
    return !f->optional || !is_empty_member(f, member);
}

static void write_member(struct json_writer *w, const struct json_field *f, const char *in)
{
    const char *base = f->via ? *(const char *const *)(const void *)(in + f->via) : in;

    if (f->write) {
        f->write(w, f->name, in);
    } else if (f->items) {
        json_field_begin_array(w, f->name);
        f->items(w, in);
        json_end_array(w);
    } else if (base && is_field_present(f, in, base + f->offset)) {
        json_key(w, str_from(f->name));
        writers[f->kind](w, f, base + f->offset);
    } else if (f->nullable && f->kind != JSON_KIND_TEXTS) {
        json_field_null(w, f->name);
    }
}

void json_unbind_changed(const void *in, const void *defaults, const struct json_field *fields,
                         size_t n, struct json_writer *w)
{
    json_begin_object(w);
    for (size_t i = 0; i < n; i++)
        if (!defaults ||
            memcmp((const char *)in + fields[i].offset, (const char *)defaults + fields[i].offset,
                   json_member_size_(&fields[i])) != 0)
            write_member(w, &fields[i], in);
    json_end_object(w);
}

void json_unbind(const void *in, const struct json_field *fields, size_t n, struct json_writer *w)
{
    json_unbind_changed(in, NULL, fields, n, w);
}

void json_put_members(struct json_writer *w, const struct json_shape *s, const void *in)
{
    for (size_t i = 0; i < s->field_count; i++)
        write_member(w, &s->fields[i], in);
}

void json_put_shape(struct json_writer *w, const struct json_shape *s, const void *in)
{
    json_unbind(in, s->fields, s->field_count, w);
}
