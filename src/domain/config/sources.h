/* Where a configuration comes from: files and variables, one over the other. Private to the module.
 */
#ifndef CONFIG_SOURCES_H
#define CONFIG_SOURCES_H

#include "config/config.h"
#include "json/value.h"

enum { SOURCES_MAX = 4 };

struct source {
    const char *path;
    bool required;               /* it has to be there */
    bool foreign;                /* another daemon's: without what is that one's own */
    const struct json *document; /* what counts of it; NULL: not there, or empty */
};

struct sources {
    struct source files[SOURCES_MAX]; /* later ones win */
    size_t n;
};

/* Reads and merges the files, binds them, lets the environment have its say, fills in places that
 * depend on who we are, and checks the whole. */
int sources_load(struct sources *s, struct config *ret, struct arena *a, struct err *e);

/* "FILE: line 3: pool.total_max: REASON", for the file, or "VARIABLE: REASON", for the variable
 * that the field's value comes from; -ERR_INVALID. */
int sources_fail(const struct sources *s, const char *field, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* What the table cannot check; fills address and socket_mode. */
int config_check_(struct config *c, const struct sources *s, struct err *e);

#endif
