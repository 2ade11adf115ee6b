/* SPDX-License-Identifier: Apache-2.0 */
/* YAML files that people edit and that a daemon obeys: opened with care, and complained about by
 * line and field. */
#ifndef LIB_YAML_FILE_H
#define LIB_YAML_FILE_H

#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"
#include "lib/json/value.h"

enum yaml_file_flags {
    YAML_FILE_NO_LINK = 1 << 0,   /* refuse a symbolic link */
    YAML_FILE_ANY_OWNER = 1 << 1, /* do not ask who could have written it */
};

/* Reads the file `name` below the directory `dir` (or AT_FDCWD). Anything but a regular file is
 * refused without waiting for it, as is what yaml_file_trusted() refuses. -ERR_NOT_FOUND if it is
 * not there. Messages do not name the file: the caller knows how people call it. */
int yaml_file_read(int dir, const char *name, unsigned flags, struct json_limits limits,
                   struct arena *a, const struct json **ret, struct err *e);

/* Checks that only trusted users can write a file or directory. As root: root owns it, and neither
 * group nor others may write. As a plain user: others may not write. */
int yaml_file_trusted(const struct stat *st, struct err *e);

/* The value at a path such as "network.egress[2].host", or, where the document does not go that
 * deep, the last one on the way; *ret_whole says whether the path was there to its end. */
const struct json *yaml_file_at(const struct json *document, const char *path, bool *ret_whole);

/* "line 3: ttl.max: REASON", -ERR_INVALID, for what a table of fields cannot check. */
int yaml_file_fail(const struct json *document, const char *path, struct err *e, const char *fmt,
                   ...) __attribute__((format(printf, 4, 5)));

#endif
