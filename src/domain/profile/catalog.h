/* SPDX-License-Identifier: Apache-2.0 */
/* The catalog of profiles: all *.yaml files of some directories.
 *
 * Of two files with the same id and version, the one in the later directory takes precedence; the
 * highest version of an id is its default. An invalid file does not affect the others: it is listed
 * as a problem, and replaces the profile that it names, so that a create fails instead of using the
 * profile of an earlier directory.
 *
 * A catalog is immutable. catalog_reload() loads another one and swaps them. Loading reads files
 * and can run in a worker; a search takes a few comparisons. */
#ifndef DOMAIN_PROFILE_CATALOG_H
#define DOMAIN_PROFILE_CATALOG_H

#include "domain/profile/profile.h"

enum {
    CATALOG_FILES_MAX = 1024, /* in all directories; the first one beyond is a problem */
    CATALOG_DIRS_MAX = 32,
};

#define CATALOG_DEFAULT_PROFILE "profile.sandbox-canary" /* of a create without a profile */

struct catalog_problem {
    const char *file; /* or directory */
    struct err err;   /* "line 3: ttl.max: …" */
};

struct catalog_entry {
    struct profile_name name;
    const char *file;
    struct profile *profile;               /* NULL: … */
    const struct catalog_problem *problem; /* … because of this problem */
    size_t rank_;                          /* rank of its directory */
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

/* Loads a new catalog and, on success, replaces the old one, which is freed. References to its
 * profiles stay valid. */
int catalog_reload(struct catalog **c, struct json_strs dirs, struct err *e);

/* Finds "profile.x" or, for short, "x": its highest version; or "profile.x@2", that version. *ret is a new reference.
 * -ERR_NOT_FOUND if there is no such profile, or the problem's error if its file is invalid. */
int catalog_find(const struct catalog *c, struct str name, struct profile **ret, struct err *e);

#endif
