/* The root file system that --image names, as a directory: itself, or an archive unpacked for this
 * run. */
#ifndef CLI_IMAGE_DIR_H
#define CLI_IMAGE_DIR_H

#include <stdbool.h>

#include "base/err.h"

struct image_dir {
    int fd;     /* the directory, O_PATH or more */
    int parent; /* of an unpacked archive, which goes away with us; else -1 */
    int lock;   /* says that we still use it */
    char name[32];
};

#define IMAGE_DIR_NONE ((struct image_dir){ .fd = -1, .parent = -1, .lock = -1 })

int image_dir_open(struct image_dir *d, const char *path, bool squash_owners, struct err *e);
void image_dir_done(struct image_dir *d);

#endif
