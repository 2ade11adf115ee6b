/* A consistent copy of the store, made piece by piece while it is used. */
#ifndef STORE_BACKUP_H
#define STORE_BACKUP_H

#include "base/err.h"
#include "store/db.h"

struct backup {
    int dir;
    struct db from, to;
    sqlite3_backup *copy;
    int file; /* what `to` is written to */
    int64_t sent;
    bool started;
};

/* One piece: 1 if there is more, 0 when all of it was written to out. Starts out zeroed. One at a
 * time in a directory. */
int backup_step(struct backup *b, const char *path, int dir, int out, struct err *e);
/* At the end and after a failure; harmless on a zeroed one. */
void backup_done(struct backup *b);

#endif
