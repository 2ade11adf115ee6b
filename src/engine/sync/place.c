/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/place.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"

/* Present at the top of nearly every home, and of hardly any project. */
static const char *const home_names[] = {
    ".ssh",   ".bashrc",      ".bash_profile", ".profile", ".bash_history",
    ".zshrc", ".zsh_history", ".local/share",  ".gnupg",   ".Xauthority",
};

static bool path_is_home(const char *path)
{
    static const char *const parents[] = { "/home/", "/Users/", "/var/home/" };

    if (strcmp(path, "/root") == 0)
        return true;
    for (size_t i = 0; i < COUNT_OF(parents); i++) {
        size_t n = strlen(parents[i]);

        if (strncmp(path, parents[i], n) == 0 && path[n] && !strchr(path + n, '/'))
            return true;
    }
    return false;
}

static bool holds_name(int dir, const char *name)
{
    struct stat st;

    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static unsigned char mark_directory(int dir, const char *path)
{
    bool home = path_is_home(path);

    for (size_t i = 0; !home && i < COUNT_OF(home_names); i++)
        home = holds_name(dir, home_names[i]);
    return (unsigned char)((home ? PLACE_HOME : 0) | (holds_name(dir, "HEAD") ? PLACE_HEAD : 0));
}

/* A directory that cannot be opened has the marks of its path alone. */
void sync_place_find(int dir, struct sync_place *ret)
{
    char link[64], path[PATH_MAX] = "";
    ssize_t n;

    memset(ret, 0, sizeof *ret);
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    n = readlink(link, ret->path, sizeof ret->path - 1);
    ret->known = n > 0 && (size_t)n < sizeof ret->path - 1 && ret->path[0] == '/';
    ret->n = ret->known && n > 1 ? (size_t)n : 0;
    ret->path[ret->n] = '\0';
    for (size_t i = 0; i < ret->n; i++) {
        if (ret->path[i] == '/') {
            AUTO_CLOSE int above =
                open(i ? path : "/", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

            ret->marks[i] = mark_directory(above, path);
        }
        path[i] = ret->path[i];
    }
    ret->marks[ret->n] = mark_directory(dir, ret->path);
}
