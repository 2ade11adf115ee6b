/* The profiles that there are: the *.yaml files of some directories, read at once.
 *
 * Of two files with the same id and version the one in the later directory counts; the highest
 * version of an id is its default. A file that is wrong is a problem of its own and not of the
 * others: it is listed, and takes the place of the profile that it says it is, so that nobody gets
 * an earlier directory's recipe where a later one was meant.
 *
 * A catalog does not change. To reload is to load another and swap: catalog_reload(). Loading reads
 * files and may be done in a worker; finding takes a few comparisons. */
#ifndef PROFILE_CATALOG_H
#define PROFILE_CATALOG_H

#include "profile/profile.h"

enum {
    CATALOG_FILES_MAX = 1024, /* in all directories; what comes after them is a problem */
    CATALOG_DIRS_MAX = 32,
};

#define CATALOG_DEFAULT_PROFILE "profile.sandbox-canary" /* of a create that names none */

struct catalog_problem {
    const char *file; /* or directory */
    struct err err;   /* "line 3: ttl.max: …" */
};

struct catalog_entry {
    struct profile_name name;
    const char *file;
    struct profile *profile;               /* NULL: … */
    const struct catalog_problem *problem; /* … because of this */
    size_t rank_;                          /* of its directory */
};

struct catalog {
    struct catalog_entry *entries; /* by id, then version */
    size_t n;
    struct catalog_problem *problems; /* in the order of directories and names */
    size_t problem_count;

    struct arena arena_;
};

/* Fails only if there are too many directories; everything else is a problem in the catalog. A
 * directory that does not exist has no profiles. */
int catalog_load(struct json_strs dirs, struct catalog **ret, struct err *e);
void catalog_free(struct catalog *c);
void catalog_freep_(struct catalog **c); /* for AUTO() */

/* Loads and, if that went well, puts the new catalog in the place of the old one, which is freed.
 * References to its profiles stay good. */
int catalog_reload(struct catalog **c, struct json_strs dirs, struct err *e);

/* "profile.x" is its highest version, "profile.x@2" that one. *ret is a reference of the caller's.
 * -ERR_NOT_FOUND if there is none, and the problem's error if its file is wrong. */
int catalog_find(const struct catalog *c, struct str name, struct profile **ret, struct err *e);

#endif
