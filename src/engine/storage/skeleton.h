/* SPDX-License-Identifier: Apache-2.0 */
/* The names that the launcher makes in every root on the host's system directories. A diff of a
 * sandbox's writable layer leaves them out. */
#ifndef ENGINE_STORAGE_SKELETON_H
#define ENGINE_STORAGE_SKELETON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct skeleton_dir {
    const char *path; /* relative to the root; parents come first */
    mode_t mode;
};
extern const struct skeleton_dir skeleton_dirs[];
extern const size_t skeleton_dir_count;

/* The host's system directories: mounted, or links as on the host; missing on some hosts. */
extern const char *const skeleton_system[];
extern const size_t skeleton_system_count;

/* Everything else, most of it in /etc. */
enum skeleton_kind {
    SKELETON_LINK, /* a link to the target */
    SKELETON_COPY, /* a copy of the host's file */
    SKELETON_BIND, /* the host's file or directory, mounted */
    SKELETON_STEP, /* made by a step of its own */
};

struct skeleton_name {
    enum skeleton_kind kind;
    const char *path;   /* relative to the root */
    const char *target; /* of a link */
};
extern const struct skeleton_name skeleton_names[];
extern const size_t skeleton_name_count;

/* Whether the path is in one of the lists. */
bool skeleton_has(const char *path);

#endif
