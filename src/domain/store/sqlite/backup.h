/* SPDX-License-Identifier: Apache-2.0 */
/* A consistent copy of the store, made piece by piece while the store is in use. */
#ifndef DOMAIN_STORE_SQLITE_BACKUP_H
#define DOMAIN_STORE_SQLITE_BACKUP_H

#include "base/err.h"
#include "domain/store/sqlite/db.h"

struct store_backup {
    int dir;
    struct db from, to;
    sqlite3_backup *copy;
    int file; /* descriptor of the copy, which `to` writes */
    int64_t sent;
    bool started;
};

/* Copies or sends one piece: 1 if there are more, 0 when the whole copy is written to out. *b is
 * zeroed before the first call. At most one backup at a time per directory. */
int backup_step(struct store_backup *b, const char *path, int dir, int out, struct err *e);
/* Frees a finished or failed backup; does nothing on a zeroed one. */
void backup_done(struct store_backup *b);

#endif
