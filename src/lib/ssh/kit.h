/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's sshd, with the loader and the libraries that it needs, as sealed memory: so it can
 * run in a sandbox without access to the host's files, on any root file system. */
#ifndef LIB_SSH_KIT_H
#define LIB_SSH_KIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { SSH_KIT_FILES_MAX = 36 };

/* In this order; libraries behind. */
enum { SSH_KIT_LOADER, SSH_KIT_SERVER, SSH_KIT_PRELOAD, SSH_KIT_LIBRARIES };

struct ssh_kit;

/* Reads them; blocks. -ERR_UNSUPPORTED: there is no sshd here that this can be done with. */
int ssh_kit_make(struct ssh_kit **ret, struct err *e);
void ssh_kit_free(struct ssh_kit *k); /* NULL is fine */

/* False: one of the files is another by now. */
bool ssh_kit_fresh(const struct ssh_kit *k);

const int *ssh_kit_files(const struct ssh_kit *k, size_t *ret_n);

/* preload.c, built. */
extern const char ssh_preload_so[];
extern const size_t ssh_preload_size;

#endif
