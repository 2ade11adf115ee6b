/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/plane_fence.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/own.h"
#include "daemon/plane_calls.h"
#include "lib/fence/fence.h"
#include "domain/profile/catalog.h"
#include "lib/secrets/keyring.h"

enum { PLACES_MAX = 16 + CATALOG_DIRS_MAX + CATALOG_FILES_MAX + CONFIG_REGISTRIES_MAX };

struct plane_places {
    struct fence_place p[PLACES_MAX];
    size_t n;
};

static void add_fd(struct plane_places *all, int fd, unsigned access)
{
    if (fd < 0)
        return;
    if (all->n < PLACES_MAX)
        all->p[all->n++] = (struct fence_place){ fd, access };
    else
        close(fd);
}

/* A path that does not exist, or that the control plane cannot reach anyway, needs no rule. */
static void add_path(struct plane_places *all, const char *path, unsigned access)
{
    if (path)
        add_fd(all, open(path, O_PATH | O_CLOEXEC), access);
}

/* Files that operators replace are reached through their directory, since a rule for a file holds
 * only until another is renamed to its name. */
static void add_parent(struct plane_places *all, const char *file)
{
    char path[PATH_MAX];
    char *end;

    if (!file || !str_copy(str_from(file), path, sizeof path))
        return;
    end = strrchr(path, '/');
    if (!end)
        return;
    end[end == path] = 0;
    add_path(all, path, FENCE_READ);
}

/* Images that are directories of the host: names of users and settings of package managers are read
 * there. */
static int add_profiles(struct plane_places *all, struct json_strs dirs, struct err *e)
{
    AUTO(catalog_freep_) struct catalog *c = NULL;
    int r = catalog_load(dirs, &c, e);

    if (r < 0)
        return r;
    for (size_t i = 0; i < dirs.n; i++)
        add_path(all, dirs.p[i], FENCE_READ);
    for (size_t i = 0; i < c->n; i++)
        if (c->entries[i].profile)
            add_path(all, c->entries[i].profile->image, FENCE_READ);
    return 0;
}

static void add_readable_places(struct plane_places *all, const struct config *c)
{
    /* Settings of package managers (egress.packages), the ssh server and its libraries, the
     * flattening of layers on the host's system; facts about this process and the machine. */
    static const char *const readable[] = { "/usr",   "/bin", "/sbin", "/lib",
                                            "/lib64", "/etc", "/proc" };
    const struct config_registry *registries = c->images.registries.p;

    for (size_t i = 0; i < COUNT_OF(readable); i++)
        add_path(all, readable[i], FENCE_READ);
    for (size_t i = 0; i < CONFIG_FILES; i++)
        if (config_files[i].plane)
            add_parent(all, config_file(c, &config_files[i]));
    for (size_t i = 0; i < c->images.registries.n; i++) {
        add_parent(all, registries[i].creds_file);
        add_parent(all, registries[i].ca_file);
    }
}

static void on_call_refused(int call, const char *name)
{
    LOG(ERROR, "daemon.call_refused", LOG_S("call", name), LOG_I("number", call),
        LOG_S("effect", "failed with EPERM"));
}

int plane_fence_enter(const struct serve_setup *s, struct err *e)
{
    /* Sandboxes and the monitor; addresses of the host's interfaces. TCP comes from listeners
     * that were opened before: requests to other machines are made by the fetch process. */
    static const int families[] = { AF_UNIX, AF_NETLINK };
    static const int ioctls[] = { TIOCSWINSZ };
    static struct plane_places places;
    struct fence_rules rules = { .who = "the control plane",
                                 .calls = { FENCE_CALLS(fence_base_calls),
                                            FENCE_CALLS(fence_service_calls),
                                            FENCE_CALLS(plane_calls) },
                                 .families = families,
                                 .n_families = COUNT_OF(families),
                                 .ioctls = ioctls,
                                 .n_ioctls = COUNT_OF(ioctls),
                                 .places = places.p,
                                 .threads = true,
                                 .refusal = FENCE_TRAP };
    int secrets = keyring_dir(s->keys), r;

    places.n = 0;
    add_fd(&places, s->state, FENCE_READ | FENCE_CHANGE);
    if (secrets >= 0)
        add_fd(&places, fcntl(secrets, F_DUPFD_CLOEXEC, 3), FENCE_READ | FENCE_CHANGE);
    add_readable_places(&places, s->config);
    r = add_profiles(&places, s->profiles, e);
    if (r >= 0)
        r = fence_trap(on_call_refused, e);
    rules.n_places = places.n;
    if (r >= 0)
        r = fence_apply(&rules, e);
    for (size_t i = 1; i < places.n; i++) /* the first is the state directory, which stays open */
        drop_fd(&places.p[i].fd);
    return r;
}
