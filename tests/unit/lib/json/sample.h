/* SPDX-License-Identifier: Apache-2.0 */
/* A struct with a member of every kind, and its table: for the tests of all that reads tables. */
#ifndef TESTS_JSON_SAMPLE_H
#define TESTS_JSON_SAMPLE_H

#include "base/clock.h"
#include "lib/json/bind.h"

enum scope { SCOPE_READ, SCOPE_WRITE, SCOPE_ADMIN };

struct port {
    uint16_t number;
    const char *name;
};

struct resources {
    uint64_t memory;
    uint8_t cpus;
};

struct sample {
    const char *name;
    bool fast, has_level;
    int32_t level;
    uint64_t seed;
    double ratio;
    int64_t ttl;
    enum scope scope;
    struct json_strs args;
    struct json_map labels;
    struct resources resources;
    struct json_objects ports;
    const struct json *extra;
};

static const char *const scope_names[] = { "read", "write", "admin", NULL };

static const struct json_field port_fields[] = {
    { "number", JSON_KIND_UINT, JSON_AT(struct port, number), .min = 1, .required = true },
    { "name", JSON_KIND_STR, JSON_AT(struct port, name), .min = 1, .max = 8 },
};

static const struct json_field resources_fields[] = {
    { "memory", JSON_KIND_BYTES, JSON_AT(struct resources, memory), .min = 1 << 20, .max = 1 << 30,
      .preset = "64M", .doc = "Memory of the sandbox." },
    { "cpus", JSON_KIND_UINT, JSON_AT(struct resources, cpus), .preset = "2" },
};

static const struct json_field sample_fields[] = {
    { "name", JSON_KIND_STR, JSON_AT(struct sample, name), .max = 16, .required = true,
      .doc = "What to call it." },
    { "fast", JSON_KIND_BOOL, JSON_AT(struct sample, fast), .preset = "true" },
    { "level", JSON_KIND_INT, JSON_AT(struct sample, level),
      .seen = offsetof(struct sample, has_level) },
    { "seed", JSON_KIND_UINT, .offset = offsetof(struct sample, seed) },
    { "ratio", JSON_KIND_DOUBLE, JSON_AT(struct sample, ratio), .max = 1 },
    { "ttl", JSON_KIND_DURATION, JSON_AT(struct sample, ttl), .max = 3600 * NS_PER_S,
      .preset = "90s" },
    { "scope", JSON_KIND_ENUM, JSON_AT(struct sample, scope), .names = scope_names,
      .preset = "write" },
    { "args", JSON_KIND_STRS, JSON_AT(struct sample, args), .max = 3 },
    { "labels", JSON_KIND_MAP, JSON_AT(struct sample, labels), .max = 3 },
    { "resources", JSON_KIND_OBJECT, JSON_AT(struct sample, resources),
      JSON_FIELDS(resources_fields) },
    { "ports", JSON_KIND_OBJECTS, JSON_AT(struct sample, ports), JSON_FIELDS(port_fields),
      .item_size = sizeof(struct port), .max = 4 },
    { "extra", JSON_KIND_ANY, JSON_AT(struct sample, extra) },
};

/* An answer with a field of every kind that is only written. */
struct owner {
    char name[8];
    int64_t age_ns;
};

struct answer {
    const char *text;
    const struct owner *owner;
    char chars[8];
    struct str slice;
    struct json_strs texts;
    int64_t time_ns, born_ns;
    uint32_t count;
    int32_t code;
    bool has_code;
};

static inline void write_answer_twice(struct json_writer *w, const char *name, const void *in)
{
    const struct answer *a = in;

    if (a->count)
        json_field_uint(w, name, 2 * a->count);
}

static const char *const answer_words[] = { "good", "bad", NULL };

static const struct json_field answer_fields[] = {
    { "text", JSON_KIND_TEXT, JSON_AT(struct answer, text), .required = true,
      .names = answer_words },
    { "chars", JSON_KIND_CHARS, JSON_AT(struct answer, chars), .optional = true },
    { "slice", JSON_KIND_SLICE, JSON_AT(struct answer, slice) },
    { "texts", JSON_KIND_TEXTS, JSON_AT(struct answer, texts), .nullable = true },
    { "time", JSON_KIND_TIME, JSON_AT(struct answer, time_ns) },
    { "born", JSON_KIND_TIME, JSON_AT(struct answer, born_ns), .required = true },
    { "count", JSON_KIND_UINT, JSON_AT(struct answer, count), .optional = true },
    { "twice", JSON_KIND_UINT, .write = write_answer_twice },
    { "code", JSON_KIND_INT, JSON_AT(struct answer, code), .nullable = true,
      .seen = offsetof(struct answer, has_code) },
    { "owner", JSON_KIND_CHARS, .via = offsetof(struct answer, owner),
      JSON_AT(struct owner, name) },
    { "age", JSON_KIND_SECONDS, .via = offsetof(struct answer, owner),
      JSON_AT(struct owner, age_ns) },
    { "more", JSON_KIND_OBJECT, .schema = "More" },
    { "others", JSON_KIND_OBJECTS, .schema = "Other" },
    { "any", JSON_KIND_OBJECT, .doc = NULL },
};
/* Without the last three, which are only described. */
static const struct json_shape written_answer = { "Answer", answer_fields,
                                                  COUNT_OF(answer_fields) - 3 };
static const struct json_shape described_answer = { "Answer", JSON_FIELDS(answer_fields) };

#endif
