/* SPDX-License-Identifier: Apache-2.0 */
/* The limits and approved capabilities of a new token: as requested, within those of its maker. */
#ifndef EDGE_REST_TOKEN_TERMS_H
#define EDGE_REST_TOKEN_TERMS_H

#include "lib/json/bind.h"
#include "lib/json/writer.h"
#include "domain/model/token.h"
#include "trust/bundle.h"

/* The request; the field tables below have offsets from its start. */
struct terms_request {
    const char *preset;
    struct {
        int64_t per_hour, per_day, concurrent, calls;
        bool per_hour_given, per_day_given, concurrent_given, calls_given;
    } limits;
    struct {
        const struct json *network; /* false, "public" or a list */
        unsigned filesystem;        /* 0 ro, 1 rw */
        bool filesystem_given;
        int64_t duration_s, memory_mb;
        double cpu_quota;
    } capabilities;
};

enum { TERMS_LIMIT_FIELDS = 4, TERMS_CAPABILITY_FIELDS = 5 };
extern const struct json_field terms_limit_fields[TERMS_LIMIT_FIELDS];
extern const struct json_field terms_capability_fields[TERMS_CAPABILITY_FIELDS];

/* Reads the requested terms, on those of the preset; strings are on the arena. */
int terms_read(const struct terms_request *q, struct arena *a, struct token_terms *ret,
               struct err *e);

/* Limits the terms to those of the token that makes the new one, whose role has these limits:
 * explicit requests beyond them are refused, presets are reduced, and omitted values are the
 * maker's. */
int terms_limit(const struct terms_request *q, const struct token_terms *maker,
                const struct trust_limits *role, struct token_terms *t, struct err *e);

/* Objects. */
void terms_write_limits(struct json_writer *w, const struct token_terms *t);
void terms_write_capabilities(struct json_writer *w, const struct token_terms *t);

#endif
