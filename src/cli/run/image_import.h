/* SPDX-License-Identifier: Apache-2.0 */
/* Extracts the root file system of an image from an untrusted archive. */
#ifndef CLI_RUN_IMAGE_IMPORT_H
#define CLI_RUN_IMAGE_IMPORT_H

#include "base/err.h"
#include "lib/tar/tree.h"
#include "lib/tar/unpack.h"

/* Unpacks a tar archive into dest_dir as tree_unpack() does (see there for what is refused and how
 * owners, limits, devices are dealt with), but in a process of its own that can reach nothing
 * except dest_dir and has no capabilities but, as root with TREE_OWNERS_KEEP, those that keeping
 * owners takes. So, as root without TREE_OWNERS_KEEP, dest_dir must belong to root.
 *
 * The archive is a file, read from its current offset, or a pipe. If it is compressed with gzip, xz
 * or zstd, the program of that name in /usr/bin or /bin decompresses it, in another such process
 * that has its input and its output and nothing else; -ERR_UNSUPPORTED if there is no such program.
 *
 * Blocks until it is done. Both processes die with the calling thread. SIGCHLD must not be ignored.
 * On failure dest_dir may hold a part of the tree. */
int image_import(int archive_fd, int dest_dir, const struct tree_unpack_options *o,
                 struct tree_report *ret, struct err *e);

#endif
