/* SPDX-License-Identifier: Apache-2.0 */
/* How sshd is started inside a sandbox: one connection on its stdin and stdout, one user, one key,
 * and a configuration of which nothing is read from a file. */
#ifndef LIB_SSH_SERVER_H
#define LIB_SSH_SERVER_H

#include "base/arena.h"
#include "lib/ssh/key.h"
#include "lib/ssh/kit.h"
#include "lib/ssh/preload.h"

struct ssh_server {
    const struct ssh_kit *kit;
    const unsigned char *host_key; /* CRYPTO_SIGN_KEY_SIZE bytes */
    struct str client_key;         /* as ssh_public_key_read() gives it */
    bool agent;                    /* the client's agent may be forwarded */
};

enum { SSH_SERVER_FILES_MAX = 1 + SSH_KIT_FILES_MAX };

struct ssh_start {
    const char **argv;               /* ended by NULL; on the arena */
    int files[SSH_SERVER_FILES_MAX]; /* that it must find open, from SSH_KEYS_FD on … */
    size_t n;
    int keys; /* … of which the first is the caller's to close */
};

int ssh_server_fill(const struct ssh_server *s, struct arena *a, struct ssh_start *ret,
                    struct err *e);

#endif
