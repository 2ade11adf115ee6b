/* SPDX-License-Identifier: Apache-2.0 */
/* A text file of another program: read, and replaced as a whole, so that a reader finds the old or
 * the new text, and a change that was made in between is not lost. */
#ifndef CLI_CLIENTS_CONFIG_FILE_H
#define CLI_CLIENTS_CONFIG_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

struct config_file {
    char path[PATH_MAX]; /* absolute */
    char name[NAME_MAX + 1];
    int dir; /* its directory; -1: it does not exist yet */
    bool exists;
    struct stat st; /* when it was read */
    struct buf text;
};

/* A project is a directory that others may have written: below it no symbolic link is followed. The
 * path has at most one directory. */
int config_file_open_below(struct config_file *f, const char *project, const char *path, size_t max,
                           struct err *e);
/* An absolute path; links are followed, and the file that they lead to is replaced. */
int config_file_open(struct config_file *f, const char *path, size_t max, struct err *e);
void config_file_done(struct config_file *f);

/* Keeps a copy (NAME.bak-sandboxer, or with -2 and so on behind it; copies that are there stay;
 * `backup` is "" without an old file) and replaces the text; owner and mode stay, a new file gets
 * `mode`. -ERR_CONFLICT: the file changed after it was read. */
int config_file_replace(struct config_file *f, struct str text, mode_t mode,
                        char backup[static PATH_MAX], struct err *e);

#endif
