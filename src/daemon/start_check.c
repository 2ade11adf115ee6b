/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/start_check.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/certificate.h"
#include "base/own.h"
#include "daemon/listen.h"
#include "daemon/privilege.h"
#include "daemon/state.h"
#include "daemon/volume.h"
#include "domain/store/store.h"
#include "engine/storage/driver.h"

/* Whether things can be made in the directory: a file without a name, which goes when it is closed;
 * or a directory that goes at once, on a file system that has no such files. A full disk keeps no
 * daemon from starting: its store has a reserve, and what is stored can be removed. */
static int check_writable(const char *dir, struct err *e)
{
    AUTO_CLOSE int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int fd = at < 0 ? -1 : openat(at, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char probe[40];

    if (fd >= 0)
        return 0;
    if (at >= 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        snprintf(probe, sizeof probe, ".sandboxer-check-%d", (int)getpid());
        if (mkdirat(at, probe, 0700) == 0)
            return unlinkat(at, probe, AT_REMOVEDIR) < 0 ? err_sys(e, "removing %s", probe) : 0;
    }
    if (at >= 0 && (errno == ENOSPC || errno == EDQUOT))
        return 0;
    return err_sys(e, "cannot make anything in %s", dir);
}

/* Cuts the path down by its last part: false if nothing is left of it. */
static bool cut_last(char *path)
{
    char *slash = strrchr(path, '/');

    if (!slash || path[1] == '\0')
        return false;
    slash[slash == path] = '\0'; /* "/" stays */
    return true;
}

/* The directory, or where it is missing the nearest of up to `most` parents that exists. */
static int find_existing(const char *path, unsigned most, char ret[static PATH_MAX], struct err *e)
{
    if (!str_copy(str_from(path), ret, PATH_MAX))
        return err_set(e, ERR_TOO_BIG, "the path has more than %d bytes", PATH_MAX - 1);
    for (unsigned i = 0; i <= most && access(ret, F_OK) < 0 && errno == ENOENT; i++)
        if (!cut_last(ret))
            break;
    return 0;
}

/* Checks that a directory exists, or can be made with up to `most` of its parents. */
static int check_dir(const char *path, unsigned most, struct err *e)
{
    char existing[PATH_MAX];
    int r = find_existing(path, most, existing, e);

    return r < 0 ? r : check_writable(existing, e);
}

static int check_user(const struct config *c, struct err *e)
{
    struct identity_choice who;

    return privilege_choose(c->user, &who, e);
}

static int check_state_path(const struct config *c, struct err *e)
{
    struct identity_choice who;
    int r = privilege_choose(c->user, &who, e);

    if (r >= 0)
        r = check_dir(c->state, PATH_MAX, e);
    if (r >= 0)
        r = state_check(c->state, &who, e);
    return err_wrap(e, r, "state directory %s (state, SANDBOXER_STATE)", c->state);
}

static int check_socket_path(const struct config *c, struct err *e)
{
    char dir[PATH_MAX];
    size_t n = strlen(c->state);
    int r = doors_check_path(c->socket.path, e);

    if (r < 0)
        return r;
    if (c->socket.group && !getgrnam(c->socket.group))
        return err_set(e, ERR_INVALID, "socket.group: there is no group '%s'", c->socket.group);
    if (!str_copy(str_from(c->socket.path), dir, sizeof dir) || !cut_last(dir))
        return err_set(e, ERR_INVALID, "socket.path: '%s' is not a path for a socket",
                       c->socket.path);
    if (strncmp(dir, c->state, n) == 0 && (dir[n] == '\0' || dir[n] == '/'))
        return 0; /* made with the state directory */
    return err_wrap(e, check_dir(dir, 0, e), "directory of socket.path %s", c->socket.path);
}

/* Tries the driver in a directory of its own, which is removed with all that the trial makes. */
static int try_storage(int dir, const char *name, struct err *e)
{
    AUTO_CLOSE int trial = -1;
    struct driver_choice choice;
    char place[40];
    int r;

    snprintf(place, sizeof place, ".sandboxer-check-%d", (int)getpid());
    if (mkdirat(dir, place, 0700) < 0)
        return errno == ENOSPC || errno == EDQUOT ? 0 : err_sys(e, "making %s", place);
    trial = openat(dir, place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = trial < 0 ? err_sys(e, "opening %s", place) : driver_choose(name, trial, &choice, e);
    if (trial >= 0)
        unlinkat(trial, STORAGE_BOXES, AT_REMOVEDIR);
    if (unlinkat(dir, place, AT_REMOVEDIR) < 0 && r >= 0)
        r = err_sys(e, "removing %s", place);
    return r;
}

/* "auto" and "memory" work everywhere. A trial of btrfs would leave a group of quotas behind. */
static int check_driver(const struct config *c, struct err *e)
{
    const char *name = config_drivers[c->storage.driver];
    const struct driver *d = driver_find(name);
    char existing[PATH_MAX];
    AUTO_CLOSE int dir = -1;
    int r;

    if (!d || !d->on_disk || (volume_exists(c->state) && geteuid() == 0))
        return 0;
    r = find_existing(c->state, PATH_MAX, existing, e);
    if (r < 0)
        return r;
    dir = open(existing, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_sys(e, "opening %s", existing);
    return strcmp(name, "btrfs") == 0 ? volume_check(dir, e) : try_storage(dir, name, e);
}

/* 1 if a daemon has the store open. */
static int probe_store(const struct config *c, struct err *e)
{
    char path[PATH_MAX];
    AUTO_CLOSE int dir = -1;

    if (snprintf(path, sizeof path, "%s/daemon", c->state) >= (int)sizeof path)
        return err_set(e, ERR_TOO_BIG, "the path has more than %d bytes", PATH_MAX - 1);
    dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return errno == ENOENT ? 0 : err_sys(e, "opening %s", path);
    return store_probe(dir, e);
}

static int check_store(const struct config *c, struct err *e)
{
    return err_wrap(e, probe_store(c, e), "state directory %s", c->state);
}

static int check_doors(const struct config *c, struct err *e)
{
    return doors_held(c) || probe_store(c, e) > 0 ? 0 : doors_check_free(c, e);
}

/* One of our own authority is made where it is missing. */
static int check_certificate(const struct config *c, struct err *e)
{
    struct certificate found = { 0 };
    int r;

    if (!c->domain.certificate)
        return 0;
    r = certificate_load(c, &found, e);
    certificate_done(&found);
    return r;
}

static int check_secrets(const struct config *c, struct err *e)
{
    if (c->secrets.key_file && access(c->secrets.key_file, R_OK) < 0 && errno != ENOENT)
        return err_sys(e, "secrets.key_file: reading %s", c->secrets.key_file);
    return 0;
}

int start_check(const struct config *c, struct err *e)
{
    static int (*const checks[])(const struct config *c, struct err *e) = {
        check_user,        check_state_path, check_driver,      check_store,
        check_socket_path, check_doors,      check_certificate, check_secrets,
    };
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(checks) && r >= 0; i++)
        r = checks[i](c, e);
    return r;
}
