/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/bind.h"

#include <stdio.h>

/* The words that limit a value of a kind, in terms of the schema. */
struct limit_words {
    const char *min, *max;
    bool counts; /* so that a lower limit of 0 need not be said */
};

static const struct limit_words of_number = { "minimum", "maximum", false };
static const struct limit_words of_array = { "minItems", "maxItems", true };
static const struct limit_words of_map = { "minProperties", "maxProperties", true };

/* "type": the type, or also null. */
static void write_field_type(struct json_writer *w, const struct json_field *f, const char *type)
{
    if (!f->nullable) {
        json_field_cstr(w, "type", type);
        return;
    }
    json_field_begin_array(w, "type");
    json_put_str(w, str_from(type));
    json_put_str(w, STR("null"));
    json_end_array(w);
}

static void write_schema_limits(struct json_writer *w, const struct json_field *f,
                                struct limit_words words)
{
    if (!f->min && !f->max)
        return;
    if (f->min || !words.counts)
        json_field_int(w, words.min, f->min);
    if (f->max >= f->min)
        json_field_int(w, words.max, f->max);
}

typedef void describer(struct json_writer *w, const struct json_field *f,
                       enum json_schema_style style);

static void describe_bool(struct json_writer *w, const struct json_field *f,
                          enum json_schema_style style)
{
    json_field_cstr(w, "type", "boolean");
}

static void describe_whole(struct json_writer *w, const struct json_field *f,
                           enum json_schema_style style)
{
    write_field_type(w, f, "integer");
    if (f->min || f->max)
        write_schema_limits(w, f, of_number);
    else if (f->kind == JSON_KIND_UINT)
        json_field_int(w, "minimum", 0);
}

static void describe_double(struct json_writer *w, const struct json_field *f,
                            enum json_schema_style style)
{
    json_field_cstr(w, "type", "number");
    write_schema_limits(w, f, of_number);
}

/* Text with a unit, or a number. */
static void describe_units(struct json_writer *w, const char *number, const char *pattern,
                           enum json_schema_style style)
{
    if (style == JSON_SCHEMA_PLAIN) {
        json_field_cstr(w, "type", "string");
        json_field_cstr(w, "pattern", pattern);
        return;
    }
    json_field_begin_array(w, "type");
    json_put_str(w, STR("string"));
    json_put_str(w, str_from(number));
    json_end_array(w);
    json_field_cstr(w, "pattern", pattern);
    json_field_int(w, "minimum", 0);
}

static void describe_bytes(struct json_writer *w, const struct json_field *f,
                           enum json_schema_style style)
{
    describe_units(w, "integer", "^[0-9]+(\\.[0-9]+)?([KMGTkmgt]([Ii]?[Bb])?|[Bb])?$", style);
}

static void describe_duration(struct json_writer *w, const struct json_field *f,
                              enum json_schema_style style)
{
    describe_units(w, "number", "^([0-9]+(\\.[0-9]+)?([Mm][Ss]|[SsMmHhDd]))+$", style);
}

static void describe_enum(struct json_writer *w, const struct json_field *f,
                          enum json_schema_style style)
{
    json_field_cstr(w, "type", "string");
    if (f->loose)
        return; /* there are too many spellings to list */
    json_field_begin_array(w, "enum");
    for (size_t i = 0; f->names[i]; i++)
        if (f->names[i][0]) /* "" is as good as absent, and clients refuse it in a list */
            json_put_str(w, str_from(f->names[i]));
    json_end_array(w);
}

/* A schema counts characters, we count bytes, of which there are at least as many: the upper limit
 * holds for both, of the lower one only that the string is not empty. */
static void describe_str(struct json_writer *w, const struct json_field *f,
                         enum json_schema_style style)
{
    if (f->names) {
        describe_enum(w, f, style);
        return;
    }
    write_field_type(w, f, "string");
    if (f->min > 0)
        json_field_int(w, "minLength", 1);
    if (f->max && f->max >= f->min)
        json_field_int(w, "maxLength", f->max);
}

static void describe_time(struct json_writer *w, const struct json_field *f,
                          enum json_schema_style style)
{
    json_field_cstr(w, "type", "string");
    json_field_cstr(w, "format", "date-time");
}

/* {"type":"string"} under a key. */
static void write_string_type(struct json_writer *w, const char *key)
{
    json_field_begin_object(w, key);
    json_field_cstr(w, "type", "string");
    json_end_object(w);
}

static void describe_strs(struct json_writer *w, const struct json_field *f,
                          enum json_schema_style style)
{
    json_field_cstr(w, "type", "array");
    write_string_type(w, "items");
    write_schema_limits(w, f, of_array);
}

static void describe_texts(struct json_writer *w, const struct json_field *f,
                           enum json_schema_style style)
{
    json_field_cstr(w, "type", "array");
    json_field_begin_object(w, "items");
    write_field_type(w, f, "string");
    json_end_object(w);
}

static void describe_map(struct json_writer *w, const struct json_field *f,
                         enum json_schema_style style)
{
    json_field_cstr(w, "type", "object");
    write_string_type(w, "additionalProperties");
    write_schema_limits(w, f, of_map);
}

static void write_closed_shape(struct json_writer *w, const struct json_field *fields, size_t n,
                               enum json_schema_style style);

/* A reference, its fields, or without both any object. */
static void describe_object(struct json_writer *w, const struct json_field *f,
                            enum json_schema_style style)
{
    char path[96];

    snprintf(path, sizeof path, "#/components/schemas/%s", f->schema ? f->schema : "");
    if (f->schema)
        json_field_cstr(w, "$ref", path);
    else if (f->fields)
        write_closed_shape(w, f->fields, f->field_count, style);
    else
        json_field_cstr(w, "type", "object");
}

static void describe_objects(struct json_writer *w, const struct json_field *f,
                             enum json_schema_style style)
{
    json_field_cstr(w, "type", "array");
    json_field_begin_object(w, "items");
    describe_object(w, f, style);
    json_end_object(w);
    write_schema_limits(w, f, of_array);
}

static void describe_named(struct json_writer *w, const struct json_field *f,
                           enum json_schema_style style)
{
    json_field_cstr(w, "type", "object");
    json_key(w, STR("additionalProperties"));
    json_begin_object(w);
    write_closed_shape(w, f->fields, f->field_count, style);
    json_end_object(w);
    write_schema_limits(w, f, of_map);
}

static void write_last_type(struct json_writer *w, const char *types)
{
    const char *space = strrchr(types, ' '), *last = space ? space + 1 : types;

    json_field_cstr(w, "type", last);
    if (strcmp(last, "array") == 0)
        write_string_type(w, "items");
}

/* One of several types, each said by itself: clients that translate schemas for a model take that,
 * and some of them no list of types. Without .types it says nothing, which allows everything. */
static void describe_any(struct json_writer *w, const struct json_field *f,
                         enum json_schema_style style)
{
    struct str rest = str_from(f->types), type;

    if (!f->types)
        return;
    if (style == JSON_SCHEMA_PLAIN || !strchr(f->types, ' ')) {
        write_last_type(w, f->types);
        return;
    }
    json_field_begin_array(w, "anyOf");
    while (rest.p) {
        rest = str_cut(rest, ' ', &type);
        json_begin_object(w);
        json_field_str(w, "type", type);
        if (str_eq(type, STR("array")))
            write_string_type(w, "items");
        json_end_object(w);
    }
    json_end_array(w);
}

static describer *const describers[JSON_KIND_COUNT_] = {
    [JSON_KIND_BOOL] = describe_bool,         [JSON_KIND_INT] = describe_whole,
    [JSON_KIND_UINT] = describe_whole,        [JSON_KIND_DOUBLE] = describe_double,
    [JSON_KIND_STR] = describe_str,           [JSON_KIND_BYTES] = describe_bytes,
    [JSON_KIND_DURATION] = describe_duration, [JSON_KIND_ENUM] = describe_enum,
    [JSON_KIND_STRS] = describe_strs,         [JSON_KIND_MAP] = describe_map,
    [JSON_KIND_OBJECT] = describe_object,     [JSON_KIND_OBJECTS] = describe_objects,
    [JSON_KIND_NAMED] = describe_named,       [JSON_KIND_ANY] = describe_any,
    [JSON_KIND_TEXT] = describe_str,          [JSON_KIND_CHARS] = describe_str,
    [JSON_KIND_SLICE] = describe_str,         [JSON_KIND_TEXTS] = describe_texts,
    [JSON_KIND_TIME] = describe_time,         [JSON_KIND_SECONDS] = describe_whole,
};

static void write_property(struct json_writer *w, const struct json_field *f,
                           enum json_schema_style style)
{
    struct json v;

    json_field_begin_object(w, f->name);
    describers[f->kind](w, f, style);
    if (f->doc)
        json_field_cstr(w, "description", f->doc);
    if (f->preset && json_preset_(f, &v))
        json_field_tree(w, "default", &v);
    else if (f->preset)
        json_writer_fail(w, ERR_BUG, "the preset '%s' of '%s' is no value", f->preset, f->name);
    json_end_object(w);
}

static void write_required(struct json_writer *w, const struct json_field *fields, size_t n)
{
    bool any = false;

    for (size_t i = 0; i < n; i++)
        any |= fields[i].required;
    if (!any)
        return;
    json_field_begin_array(w, "required");
    for (size_t i = 0; i < n; i++)
        if (fields[i].required)
            json_put_str(w, str_from(fields[i].name));
    json_end_array(w);
}

static void write_shape(struct json_writer *w, const struct json_field *fields, size_t n,
                        enum json_schema_style style)
{
    json_field_cstr(w, "type", "object");
    json_field_begin_object(w, "properties");
    for (size_t i = 0; i < n; i++)
        write_property(w, &fields[i], style);
    json_end_object(w);
    write_required(w, fields, n);
}

static void write_closed_shape(struct json_writer *w, const struct json_field *fields, size_t n,
                               enum json_schema_style style)
{
    write_shape(w, fields, n, style);
    json_field_bool(w, "additionalProperties", false);
}

void json_schema(const struct json_field *fields, size_t n, enum json_schema_style style,
                 struct json_writer *w)
{
    json_begin_object(w);
    write_closed_shape(w, fields, n, style);
    json_end_object(w);
}

void json_shape_schema(const struct json_shape *s, struct json_writer *w)
{
    json_begin_object(w);
    write_shape(w, s->fields, s->field_count, JSON_SCHEMA_EXACT);
    json_end_object(w);
}
