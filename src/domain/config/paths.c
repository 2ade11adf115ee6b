/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/config/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *absolute_variable(const char *variable)
{
    const char *value = getenv(variable);

    return value && value[0] == '/' ? value : NULL;
}

/* Strips trailing '/' from dir, so that a HOME of "/" gives a path with one leading '/'. */
static int join_path(char *out, size_t cap, const char *dir, const char *rest, struct err *e)
{
    int n = (int)strlen(dir);

    while (n > 0 && dir[n - 1] == '/')
        n--;
    if (snprintf(out, cap, "%.*s%s", n, dir, rest) < (int)cap)
        return 0;
    return err_set(e, ERR_TOO_BIG, "the path %.60s…%s has more than %zu bytes", dir, rest, cap - 1);
}

int paths_state(char *out, size_t cap, struct err *e)
{
    const char *data = absolute_variable("XDG_DATA_HOME"), *home = absolute_variable("HOME");

    if (geteuid() == 0)
        return join_path(out, cap, "/var/lib/sandboxer", "", e);
    if (data)
        return join_path(out, cap, data, "/sandboxer", e);
    if (home)
        return join_path(out, cap, home, "/.local/share/sandboxer", e);
    return err_set(
        e, ERR_INVALID,
        "no default state directory: neither XDG_DATA_HOME nor HOME is set; set SANDBOXER_STATE");
}

int paths_socket(const char *state, char *out, size_t cap, struct err *e)
{
    const char *runtime = absolute_variable("XDG_RUNTIME_DIR");

    if (geteuid() == 0)
        return join_path(out, cap, "/run/sandboxer", "/sandboxer.sock", e);
    return join_path(out, cap, runtime ? runtime : state, "/sandboxer.sock", e);
}

int paths_user_config(char *out, size_t cap, struct err *e)
{
    const char *config = absolute_variable("XDG_CONFIG_HOME"), *home = absolute_variable("HOME");

    if (geteuid() != 0 && config)
        return join_path(out, cap, config, "/sandboxer/sandboxer.yaml", e);
    if (geteuid() != 0 && home)
        return join_path(out, cap, home, "/.config/sandboxer/sandboxer.yaml", e);
    return err_set(e, ERR_NOT_FOUND, "there is no user configuration file");
}
