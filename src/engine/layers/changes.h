/* Records of what differs: a letter for the change, one for the kind of file, and the path, each
 * ended by NUL. Private to the module. */
#ifndef LAYERS_CHANGES_H
#define LAYERS_CHANGES_H

#include <sys/stat.h>

#include "layers/keeper.h"

struct changes {
    struct keeper *keeper; /* whose second descriptor they go to, and whose limit counts */
    uint64_t entries;
    size_t n;
    char out[64 << 10];
};

enum change { CHANGE_ADDED = 'A', CHANGE_CHANGED = 'C', CHANGE_DELETED = 'D' };

/* st: of what is there; not used for CHANGE_DELETED. */
int changes_add(struct changes *c, enum change change, const struct stat *st, const char *path,
                struct err *e);
int changes_flush(struct changes *c, struct err *e);

/* What the job is about becomes the keeper's first descriptor, wherever it is. */
int changes_find(struct keeper *k, struct err *e);

/* Files that the runtime gives to every sandbox, whatever a layer has there: nothing is told of
 * them. */
bool changes_is_rewritten(const char *path);
/* What is made anew for every sandbox, at the top. */
bool changes_is_unwanted(const char *path);

#endif
