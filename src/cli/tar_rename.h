/* A tar stream whose tree gets another name at its top, on its way through.
 *
 * Everything in it must be below one top, whatever that is called: who asked for one directory
 * gets one directory, and not a file beside it. */
#ifndef CLI_RETOP_H
#define CLI_RETOP_H

#include "base/err.h"
#include "tree/reader.h"

/* Reads an archive to its end and writes it to out_fd. top: the new name, or "" for no top at all,
 * so that the entries of the tree come first. A reader of out_fd that goes away is an error. */
int retop(tar_read_fn *read, void *ctx, int out_fd, const char *top, struct err *e);

#endif
