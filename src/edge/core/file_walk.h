/* SPDX-License-Identifier: Apache-2.0 */
/* Lists a directory inside a sandbox recursively to a depth, one list operation at a time: each
 * directory is sorted by the bytes of its names, and followed by what is in it. */
#ifndef EDGE_CORE_FILE_WALK_H
#define EDGE_CORE_FILE_WALK_H

#include "edge/core/file_take.h"
#include "backends/records.h"

enum { FILE_WALK_MAX = 50000 }; /* entries */

struct file_walk;
struct file_level;

/* A member of the call's state. */
struct file_walk {
    const char *user;
    uint32_t mode;    /* mode of START_LIST */
    int64_t deadline; /* clock_mono(); 0: none */
    size_t most;      /* limit of entries; 0: FILE_WALK_MAX */
    /* Called for each entry; the path is borrowed. False: no room for it. */
    bool (*entry)(struct file_walk *w, const char *path, const struct backend_entry *v);
    /* e: the top directory could not be listed, or the limit was reached; NULL: complete.
     * Subdirectories that vanished or cannot be read are skipped. */
    void (*done)(struct file_walk *w, const struct err *e);
    struct call *call;
    /* private */
    struct file_take take_;
    struct file_level *level_; /* the innermost one */
    const char *paths_[2];
    size_t entries_;
};

/* The path is absolute and must stay valid as long as the call; depth 1 lists the directory
 * alone. */
void file_walk_start(struct file_walk *w, struct call *c, const char *path, uint32_t depth);

/* Copies records of START_LIST to the arena, sorted by the bytes of their names. False: malformed,
 * or no room. */
bool file_walk_sort(struct str in, struct arena *a, struct str *ret);

/* --- entries in the formats of SDK clients --- */

enum { ENTRY_MODE_TEXT = 11 };
/* "drwxr-xr-x" as Go formats it: a symbolic link has an L. */
void entry_mode_text(uint32_t mode, char ret[static ENTRY_MODE_TEXT]);
/* Writes a user or group as a member: the name if every sandbox has it (root, user), else the
 * number. */
void entry_write_owner(struct json_writer *w, const char *key, uint32_t id);

#endif
