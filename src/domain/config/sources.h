/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of a configuration: files and variables, in order of precedence. Private to the
 * module. */
#ifndef DOMAIN_CONFIG_SOURCES_H
#define DOMAIN_CONFIG_SOURCES_H

#include "domain/config/config.h"
#include "lib/json/value.h"

enum { SOURCES_MAX = 4 };

struct config_source {
    const char *path;
    bool required;               /* its absence is an error */
    bool foreign;                /* of another daemon: without the fields that identify it */
    const struct json *document; /* its effective content; NULL: absent or empty */
};

struct sources {
    struct config_source files[SOURCES_MAX]; /* later files override earlier ones */
    size_t n;
};

/* The files that a configuration is read from; path: as for config_load(). The paths are borrowed, or
 * static. */
void sources_choose(const char *path, struct sources *ret);

/* The variable that overrides the field, if it is set; NULL: none. */
const char *sources_variable(const char *field);

/* Reads and merges the files, binds them, applies the environment, fills in default paths, and
 * checks the result. */
int sources_load(struct sources *s, struct config *ret, struct arena *a, struct err *e);

/* "FILE: line 3: pool.total_max: REASON", for the file, or "VARIABLE: REASON", for the variable
 * that the field's value comes from; -ERR_INVALID. */
int sources_fail(const struct sources *s, const char *field, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Checks that the table cannot express; fills address and socket_mode. */
int config_check_(struct config *c, const struct sources *s, struct err *e);

#endif
