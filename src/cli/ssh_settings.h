/* SPDX-License-Identifier: Apache-2.0 */
/* How OpenSSH's client reaches sandboxes: the same settings for `ssh` and in what `ssh-config`
 * prints. */
#ifndef CLI_SSH_SETTINGS_H
#define CLI_SSH_SETTINGS_H

#include "base/buf.h"
#include "base/err.h"

/* Logs in as the sandbox's default user: an ssh configuration needs a user name, and this one is
 * the same for all sandboxes. */
#define SSH_USUAL_USER "sandboxer"

struct ssh_settings {
    const char *key;    /* the path of the private one */
    const char *server; /* --server, or NULL */
    const char *user;   /* NULL: the usual one */
    bool agent;
    bool places; /* for programs that may not have our environment: names the daemon's places */
};

typedef void ssh_setting_fn(void *user, const char *name, const char *value);
/* Calls `each` for every one. */
int ssh_settings_each(const struct ssh_settings *s, ssh_setting_fn *each, void *user,
                      struct err *e);

#endif
