/* A directory inside and what is below it, to a depth: level by level, one list after the other. */
#ifndef API_FILE_WALK_H
#define API_FILE_WALK_H

#include "api/file_take.h"
#include "extensions/records.h"

enum { FILE_WALK_MAX = 50000 }; /* entries */

struct file_walk;
struct file_place;

/* A member of its owner, which is freed with its call. */
struct file_walk {
    const char *user;
    uint32_t mode;    /* of EXT_LIST */
    int64_t deadline; /* by clock_mono(); 0: none */
    size_t most;      /* entries; 0: FILE_WALK_MAX */
    /* An entry; the path is borrowed. False: there is no room for it. */
    bool (*entry)(struct file_walk *w, const char *path, const struct ext_entry *v);
    /* e: why the directory itself could not be listed, or that it is too much; NULL: it is done.
     * What is below may have gone meanwhile, or keep us out: that is passed over. */
    void (*done)(struct file_walk *w, const struct err *e);
    struct call *call;
    /* private */
    struct file_take take_;
    struct file_place *places_, **last_;
    const char *root_, *paths_[2];
    size_t entries_;
};

/* The path is absolute and stays as long as the call; depth 1 is the directory alone. */
void file_walk_start(struct file_walk *w, struct call *c, const char *path, uint32_t depth);
void file_walk_done(struct file_walk *w);

#endif
