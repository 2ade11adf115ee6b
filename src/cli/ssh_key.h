/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's own key for SSH, made once and kept in the state directory. */
#ifndef CLI_SSH_KEY_H
#define CLI_SSH_KEY_H

#include "base/buf.h"

/* The path of the private one, which is made by ssh-keygen if it is not there. */
int ssh_key_ensure(char *out, size_t cap, struct err *e);

/* The line of the public one. */
int ssh_key_public(struct buf *ret, struct err *e);

#endif
