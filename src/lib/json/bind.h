/* SPDX-License-Identifier: Apache-2.0 */
/* Reads structs from documents, and writes them back, by one table of fields.
 *
 *     static const char *const scopes[] = { "read", "write", NULL };
 *     static const struct json_field create_fields[] = {
 *         { "profile", JSON_KIND_STR, JSON_AT(struct create, profile), .max = 128 },
 *         { "ttl", JSON_KIND_DURATION, JSON_AT(struct create, ttl), .preset = "2h" },
 *         { "scope", JSON_KIND_ENUM, JSON_AT(struct create, scope), .names = scopes },
 *     };
 *     struct create c = { 0 };
 *     r = json_bind(tree, create_fields, COUNT_OF(create_fields), &c, &arena, e);
 *
 * The same table reads JSON and YAML, writes JSON, and describes itself as a JSON Schema. Tables of
 * answers are only written and described; they have a name and more kinds of fields:
 *
 *     static const struct json_field host_fields[] = {
 *         { "name", JSON_KIND_CHARS, JSON_AT(struct host_record, name), .required = true },
 *         { "added_at", JSON_KIND_TIME, JSON_AT(struct host_record, added_ns) },
 *     };
 *     const struct json_shape host_answer = { "Host", JSON_FIELDS(host_fields) };
 *
 *     json_put_shape(&w, &host_answer, &record); */
#ifndef LIB_JSON_BIND_H
#define LIB_JSON_BIND_H

#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "lib/json/value.h"
#include "lib/json/writer.h"

/* The kind of a field: its form in the document, the type of the member, the meaning of min and
 * max. */
enum json_kind {
    JSON_KIND_BOOL,     /* true or false; bool */
    JSON_KIND_INT,      /* whole number; a signed type of any size; its value */
    JSON_KIND_UINT,     /* whole number; an unsigned type of any size; its value */
    JSON_KIND_DOUBLE,   /* any number; double; its value */
    JSON_KIND_STR,      /* string without NUL; const char *; its length in bytes */
    JSON_KIND_BYTES,    /* "64M" or a number of bytes; uint64_t; bytes */
    JSON_KIND_DURATION, /* "2h" or a number of seconds; int64_t nanoseconds; nanoseconds */
    JSON_KIND_ENUM,     /* one of .names; an enum or unsigned of any size: the index */
    JSON_KIND_STRS,     /* array of strings; struct json_strs; how many */
    JSON_KIND_MAP,      /* object of strings, as labels are; struct json_map; how many */
    JSON_KIND_OBJECT,   /* object by .fields; the struct itself */
    JSON_KIND_OBJECTS,  /* array of objects by .fields; struct json_objects; how many */
    JSON_KIND_NAMED, /* object of objects by .fields; struct json_objects, whose structs begin with
                        the key, a const char *; how many */
    JSON_KIND_ANY,   /* anything; const struct json *, borrowed from the tree */
    /* For answers only. Texts may hold bytes outside UTF-8, as json_put_lossy() writes them. */
    JSON_KIND_TEXT,    /* string; const char *; NULL: absent, or "" if required */
    JSON_KIND_CHARS,   /* string; an array of char */
    JSON_KIND_SLICE,   /* string; struct str; p == NULL: the same */
    JSON_KIND_TEXTS,   /* array of strings; struct json_strs */
    JSON_KIND_TIME,    /* RFC 3339; int64_t ns of the wall clock; 0: absent, unless required */
    JSON_KIND_SECONDS, /* whole number of seconds; int64_t nanoseconds */
    JSON_KIND_COUNT_,
};

/* Writes a member of the struct: its key and its value, or nothing if it is absent. */
typedef void json_member_fn(struct json_writer *w, const char *name, const void *in);
/* Writes the items of a list. */
typedef void json_items_fn(struct json_writer *w, const void *in);

struct json_field {
    const char *name;
    enum json_kind kind;
    bool required;
    bool loose;               /* ENUM: in any case, and "" is an absent field */
    bool no_null;             /* null is a bad value: absence would mean more, not less */
    size_t offset, size;      /* of the member: JSON_AT(); size 0 is the kind's largest type */
    int64_t min, max;         /* both 0: no limits; min > max: no upper limit */
    const char *const *names; /* ENUM: the words in order of value, ended by NULL; texts of answers:
                                 the possible ones, for schemas */
    const struct json_field *fields; /* OBJECT, OBJECTS, NAMED: JSON_FIELDS() */
    size_t field_count;
    size_t item_size;   /* OBJECTS, NAMED: size of one struct */
    size_t seen;        /* offset of a bool that says whether the field was there; 0: none */
    const char *preset; /* for an absent field, as YAML would write it: "true", "5", "2h" */
    const char
        *types;      /* ANY: the accepted types, for schemas: "boolean array" (of strings); a plain
                          schema has the last one */
    const char *doc; /* one sentence, for schemas and help */
    /* Of answers: */
    bool optional;      /* absent if it is empty: 0, false, "", no items */
    bool nullable;      /* null where it would be absent; TEXTS: an item that is NULL is null */
    size_t via;         /* offset of a pointer to the struct of the member; NULL: absent; 0: none */
    const char *schema; /* OBJECT, OBJECTS: the name of a schema, which is referred to */
    json_member_fn *write; /* instead of the writer of the kind, which then only describes it */
    json_items_fn *items;  /* OBJECTS: the same between the brackets */
};

/* An answer: a table and the name of its schema. */
struct json_shape {
    const char *name;
    const struct json_field *fields;
    size_t field_count;
};

/* The only field of an answer: a list whose items a function writes. */
#define JSON_LIST(key, schema_, items_)                                                            \
    .fields = &(const struct json_field){ .name = (key),                                           \
                                          .kind = JSON_KIND_OBJECTS,                               \
                                          .required = true,                                        \
                                          .schema = (schema_),                                     \
                                          .items = (items_) },                                     \
    .field_count = 1

#define JSON_AT(type, member)                                                                      \
    .offset = offsetof(type, member), .size = sizeof(((type *)NULL)->member)
#define JSON_FIELDS(table) .fields = (table), .field_count = COUNT_OF(table)

struct json_strs {
    const char *const *p;
    size_t n;
};

struct json_pair {
    const char *key, *value;
};

struct json_map {
    const struct json_pair *p;
    size_t n;
};

struct json_objects {
    void *p; /* n structs, as .fields describes them */
    size_t n;
};

/* Fills out from an object. A field that is absent or null gets its preset, and without one the
 * member stays as it is: give a zeroed struct, or one with defaults. A field that the table does
 * not know, or that does not fit, is -ERR_INVALID with a message that names its path, its line
 * where the tree has places, and what would be right. Everything out points to is on the arena,
 * except for JSON_KIND_ANY. After a failure out may be partly filled, and need not be released. */
int json_bind(const struct json *v, const struct json_field *fields, size_t n, void *out,
              struct arena *a, struct err *e);

/* The same, with a report of every mistake: the field is skipped, as if it were absent. Returns the
 * error of the first mistake. */
struct json_mistakes {
    void (*each)(void *user, const struct err *e);
    void *user;
};
int json_bind_all(const struct json *v, const struct json_field *fields, size_t n, void *out,
                  struct arena *a, const struct json_mistakes *all, struct err *e);

/* Writes the struct as an object that json_bind() reads back as the same struct. Left out: strings
 * and trees that are NULL, and fields whose `seen` is false. Sizes are written in bytes, durations
 * in seconds where they are whole. */
void json_unbind(const void *in, const struct json_field *fields, size_t n, struct json_writer *w);

/* The same, without the fields that have the same value in the struct `defaults`: zeros, and what
 * the presets say. */
void json_unbind_changed(const void *in, const void *defaults, const struct json_field *fields,
                         size_t n, struct json_writer *w);

void json_put_shape(struct json_writer *w, const struct json_shape *s, const void *in);
/* Only its members, for an object that has others too. */
void json_put_members(struct json_writer *w, const struct json_shape *s, const void *in);

/* Copies the map and its texts to the arena. False, with the map unchanged: the arena is full. */
bool json_map_copy(struct json_map *m, struct arena *a);
const char *json_map_get(const struct json_map *m, const char *key); /* NULL: it has no such key */
/* The same for a list. */
bool json_strs_copy(struct json_strs *list, struct arena *a);

/* The forms of a schema. A model's vendor translates the schemas of tools and refuses a whole request
 * over one that it does not know: a plain schema gives each property exactly one type. */
enum json_schema_style {
    JSON_SCHEMA_EXACT, /* accepts every document that json_bind() accepts, except null values */
    /* names one of several forms: the text of a duration or size, the last of .types */
    JSON_SCHEMA_PLAIN,
};

/* Writes a JSON Schema (2020-12) for the table. Rules that a schema cannot express, such as the
 * bounds of "64M", are left to json_bind(). */
void json_schema(const struct json_field *fields, size_t n, enum json_schema_style style,
                 struct json_writer *w);
/* The same for an answer, as a component of an OpenAPI document: a client must expect additional
 * members, and named schemas are references to other components. */
void json_shape_schema(const struct json_shape *s, struct json_writer *w);

/* The value of the field's preset. False, and *ret untouched, if the preset is invalid, which is a
 * mistake in the table. */
bool json_preset_(const struct json_field *f, struct json *ret);

/* The member's size: from the table, or the size of the kind's largest type. */
size_t json_member_size_(const struct json_field *f);

#endif
