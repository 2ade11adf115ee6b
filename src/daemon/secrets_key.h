/* SPDX-License-Identifier: Apache-2.0 */
/* The key of secrets in the store, found with the rights that the daemon was started with. */
#ifndef DAEMON_SECRETS_KEY_H
#define DAEMON_SECRETS_KEY_H

#include "domain/config/config.h"
#include "daemon/privilege.h"
#include "lib/secrets/keyring.h"

/* In the state directory; only the user of the control plane can enter it. */
#define SECRETS_DIR "secrets"

/* The systemd credential "sandboxer.key", else the file of secrets.key_file, else secrets/key in
 * the state directory. A file that does not exist is made, except a credential. Only the last one
 * is changed by a rotation. */
int secrets_key_load(const struct config *c, const struct identity_choice *who,
                     struct keyring **ret, struct err *e);

#endif
