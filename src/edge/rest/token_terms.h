/* The limits and approved capabilities of a new token: as it is asked for, within what its maker
 * has. */
#ifndef API_TOKEN_TERMS_H
#define API_TOKEN_TERMS_H

#include "json/bind.h"
#include "json/writer.h"
#include "model/token.h"
#include "trust/bundle.h"

/* As the request has them; the tables below count from its beginning. */
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
extern const char *const terms_preset_names[];

/* The terms that are asked for; texts on the arena. */
int terms_read(const struct terms_request *q, struct arena *a, struct token_terms *ret,
               struct err *e);

/* Within those of the token that makes it, whose role has these limits: what was asked for beyond
 * them is refused, a preset is cut down to them, and what was left out is the maker's. */
int terms_limit(const struct terms_request *q, const struct token_terms *maker,
                const struct trust_limits *role, struct token_terms *t, struct err *e);

void terms_write(struct json_writer *w, const struct token_terms *t); /* members */

#endif
