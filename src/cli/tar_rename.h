/* SPDX-License-Identifier: Apache-2.0 */
/* Renames the top directory of a tar stream while copying it.
 *
 * All entries must be below one top directory, of any name: a request for one directory yields one
 * directory, without files beside it. */
#ifndef CLI_TAR_RENAME_H
#define CLI_TAR_RENAME_H

#include "base/err.h"
#include "lib/tar/reader.h"

/* Reads an archive to its end and writes it to out_fd. top: the new name, or "" to remove the top,
 * so that the entries of the tree come first. A closed reader of out_fd is an error. */
int tar_rename(tar_read_fn *read, void *ctx, int out_fd, const char *top, struct err *e);

#endif
