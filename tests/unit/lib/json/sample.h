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

#endif
