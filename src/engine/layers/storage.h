/* The storage directory as a keeper sees it, which has made it its root:
 *
 *     layers/NAME/{fs/,info}   whole, or not there
 *     boxes/ID/                what sandboxes write, where that is on disk (uppers/driver.h)
 *     tmp/                     being made or removed; each entry is locked by who works on it
 *
 * What is made grows in an entry of tmp/, is forced to disk, and is renamed. What is removed is
 * renamed first. */
#ifndef LAYERS_STORAGE_H
#define LAYERS_STORAGE_H

#include <stdint.h>

#include "base/err.h"
#include "layers/job.h"

struct storage {
    int dir, layers, boxes, tmp; /* descriptors */
};
#define STORAGE_NONE ((struct storage){ -1, -1, -1, -1 })

/* Makes what is missing. `dir` stays the caller's. */
int storage_open(struct storage *s, int dir, struct err *e);
void storage_done(struct storage *s);

/* A layer that is being made. */
struct growth {
    const struct storage *storage;
    char entry[LAYER_NAME_MAX + 16]; /* its name in tmp/ */
    int dir;                         /* … and its descriptor, which holds the lock */
    int fs;                          /* the directory that becomes the layer's root */
};
#define GROWTH_NONE ((struct growth){ .dir = -1, .fs = -1 })

/* What is said of a layer beside its tree. */
struct layer_info {
    uint64_t bytes, entries;
    uint32_t ids; /* the id on disk that is the sandbox's root; 0 where owners are as inside */
};

int growth_begin(struct growth *g, const struct storage *s, const char *name, struct err *e);
/* The same with all that a box has, which is a subvolume. */
int growth_snapshot(struct growth *g, const struct storage *s, const char *name, int box,
                    struct err *e);
/* Forces it all to disk and gives it its name. Somebody else may have made the same layer
 * meanwhile: theirs stays. */
int growth_publish(struct growth *g, const char *name, const struct layer_info *info,
                   struct err *e);
/* Closes; what was not published is removed. */
void growth_done(struct growth *g);

/* Its root directory, to read: a descriptor. -ERR_NOT_FOUND if there is no such layer. */
int storage_open_layer(const struct storage *s, const char *name, struct err *e);

/* A box's directory, as it is: a descriptor. -ERR_NOT_FOUND: there is nothing on disk. */
int storage_open_box(const struct storage *s, const char *id, struct err *e);
/* In one step, when nothing runs in it any more, a box becomes a layer. -ERR_BUSY: something does.
 */
int storage_take_box(const struct storage *s, const char *id, const char *name,
                     const struct layer_info *info, struct err *e);
/* Removes it, when nothing runs in it any more. One that is not there is fine. */
int storage_clear_box(const struct storage *s, const char *id, struct err *e);

/* What each sandbox has of its own in /etc, whatever a layer has there: ended by NULL. */
extern const char *const storage_own_names[];
/* Leaves them out of what a sandbox wrote, which nobody writes to any more: an image or a file that
 * is moved tells nobody whose it was. */
int storage_forget_names(int fs, struct err *e);

/* Takes a layer out of sight, for good, and then removes it; waits for whoever makes it, who was
 * told to stop. One that is not there is fine. */
int storage_remove(const struct storage *s, const char *name, struct err *e);
/* Removes every entry of tmp/ that nobody works on. */
int storage_sweep(const struct storage *s, struct err *e);

#endif
