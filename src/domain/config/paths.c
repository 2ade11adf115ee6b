#include "config/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *absolute(const char *variable)
{
    const char *value = getenv(variable);

    return value && value[0] == '/' ? value : NULL;
}

/* Without the '/' at the end of dir, so that a HOME of "/" gives a path with one at its start. */
static int put(char *out, size_t cap, const char *dir, const char *rest, struct err *e)
{
    int n = (int)strlen(dir);

    while (n > 0 && dir[n - 1] == '/')
        n--;
    if (snprintf(out, cap, "%.*s%s", n, dir, rest) < (int)cap)
        return 0;
    return err_set(e, ERR_TOO_BIG, "the path %.60s…%s is too long", dir, rest);
}

int paths_state(char *out, size_t cap, struct err *e)
{
    const char *data = absolute("XDG_DATA_HOME"), *home = absolute("HOME");

    if (geteuid() == 0)
        return put(out, cap, "/var/lib/sandboxer", "", e);
    if (data)
        return put(out, cap, data, "/sandboxer", e);
    if (home)
        return put(out, cap, home, "/.local/share/sandboxer", e);
    return err_set(e, ERR_INVALID, "no place for state: set SANDBOXER_STATE to a directory");
}

int paths_socket(const char *state, char *out, size_t cap, struct err *e)
{
    const char *runtime = absolute("XDG_RUNTIME_DIR");

    if (geteuid() == 0)
        return put(out, cap, "/run/sandboxer", "/sandboxer.sock", e);
    return put(out, cap, runtime ? runtime : state, "/sandboxer.sock", e);
}

int paths_user_config(char *out, size_t cap, struct err *e)
{
    const char *config = absolute("XDG_CONFIG_HOME"), *home = absolute("HOME");

    if (geteuid() != 0 && config)
        return put(out, cap, config, "/sandboxer/sandboxer.yaml", e);
    if (geteuid() != 0 && home)
        return put(out, cap, home, "/.config/sandboxer/sandboxer.yaml", e);
    return err_set(e, ERR_NOT_FOUND, "there is no configuration of a user");
}
