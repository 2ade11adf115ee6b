/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/secrets_key.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/crypto/secret.h"
#include "daemon/state.h"

#define CREDENTIAL "sandboxer.key"

static int read_credential(const char *dir, struct keyring **ret, struct err *e)
{
    char path[PATH_MAX], text[KEYRING_TEXT_MAX + 1];
    AUTO_CLOSE int fd = -1;
    ssize_t n;
    int r;

    snprintf(path, sizeof path, "%s/" CREDENTIAL, dir);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return -(int)ERR_NOT_FOUND;
    n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (n < 0)
        return err_sys(e, "reading the credential %s", path);
    r = keyring_parse((struct str){ text, (size_t)n }, ret, e);
    crypto_wipe(text, sizeof text);
    return err_wrap(e, r, "the credential %s", path);
}

static int open_keyring_file(const char *file, struct keyring **ret, struct err *e)
{
    AUTO_CLOSE int dir = -1;
    char path[PATH_MAX];
    char *name;
    int r;

    if (!str_copy(str_from(file), path, sizeof path) || !(name = strrchr(path, '/')))
        return err_set(e, ERR_INVALID, "secrets.key_file: %s is not an absolute path", file);
    *name++ = 0;
    dir = open(path[0] ? path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_sys(e, "secrets.key_file: opening %s", path);
    r = keyring_open(dir, name, ret, e);
    if (r >= 0)
        keyring_detach(*ret);
    return r;
}

int secrets_key_load(const struct config *c, const struct identity_choice *who,
                     struct keyring **ret, struct err *e)
{
    const char *credentials = getenv("CREDENTIALS_DIRECTORY");
    AUTO_CLOSE int dir = -1;
    int r = credentials ? read_credential(credentials, ret, e) : -(int)ERR_NOT_FOUND;

    if (r != -(int)ERR_NOT_FOUND)
        return r;
    if (c->secrets.key_file)
        return open_keyring_file(c->secrets.key_file, ret, e);
    r = state_open_part(c->state, SECRETS_DIR, who, &dir, e);
    return r < 0 ? r : keyring_open(dir, "key", ret, e);
}
