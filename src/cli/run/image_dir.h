/* SPDX-License-Identifier: Apache-2.0 */
/* The root file system that --image names, as a directory: itself, or an archive unpacked for this
 * run. */
#ifndef CLI_RUN_IMAGE_DIR_H
#define CLI_RUN_IMAGE_DIR_H

#include <stdbool.h>

#include "base/err.h"

struct image_dir {
    int fd;     /* the directory, O_PATH or more */
    int parent; /* of an unpacked archive, which goes away with us; else -1 */
    int lock;   /* held while the directory is in use */
    char name[32];
    bool made_parent; /* which goes away with us, too, unless something else was stored there */
};

#define IMAGE_DIR_NONE ((struct image_dir){ .fd = -1, .parent = -1, .lock = -1 })

int image_dir_open(struct image_dir *d, const char *path, bool squash_owners, struct err *e);
void image_dir_done(struct image_dir *d);

#endif
