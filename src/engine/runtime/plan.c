/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/plan.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/own.h"
#include "lib/ipc/kernel.h"
#include "lib/proc/caps.h"

/* Directories of the runtime; a mount may not cover them, nor anything below them. */
static const char *const reserved[] = { "/proc", "/sys", "/dev" };

int plan_init(struct plan *p, struct err *e)
{
    *p = (struct plan){
        .magic = PLAN_MAGIC, .version = PLAN_VERSION, .size = sizeof *p, .terminals = PLAN_TERMINALS
    };
    snprintf(p->hostname, sizeof p->hostname, "sandbox");
    return id_make("sbx_", p->id, e);
}

uint64_t plan_grantable_caps(void)
{
    return CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) |
           CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_KILL);
}

size_t plan_size(const struct plan *p)
{
    size_t n = p->n_mounts < PLAN_MOUNTS_MAX ? p->n_mounts : PLAN_MOUNTS_MAX;

    return offsetof(struct plan, mounts) + n * sizeof p->mounts[0];
}

int plan_add_layer(struct plan *p, uint32_t root, const char *path, struct err *e)
{
    struct plan_layer *l = &p->layers[p->n_layers];

    if (p->n_layers == PLAN_LAYERS_MAX)
        return err_set(e, ERR_TOO_BIG, "more than %d image layers", PLAN_LAYERS_MAX);
    if (!str_copy(str_from(path), l->path, sizeof l->path))
        return err_set(e, ERR_TOO_BIG, "the path of an image layer is longer than %d bytes",
                       PLAN_LAYER_MAX - 1);
    l->root = root;
    p->n_layers++;
    return 0;
}

int plan_add_mount(struct plan *p, uint32_t root, const char *source, const char *target,
                   uint32_t flags, struct err *e)
{
    struct plan_mount *m = &p->mounts[p->n_mounts];
    int r = plan_check_target(target, e);

    if (r < 0)
        return r;
    if (p->n_mounts == PLAN_MOUNTS_MAX)
        return err_set(e, ERR_TOO_BIG, "more than %d mounts", PLAN_MOUNTS_MAX);
    if (!str_copy(str_from(source), m->source, sizeof m->source))
        return err_set(e, ERR_TOO_BIG, "the source of the mount %s is longer than %d bytes", target,
                       PLAN_SOURCE_MAX - 1);
    snprintf(m->target, sizeof m->target, "%s", target);
    m->flags = flags;
    m->root = root;
    p->n_mounts++;
    return 0;
}

/* A relative path of normal components only. */
static bool is_normal_path(struct str rest)
{
    struct str part;

    do {
        bool more = str_find(rest, '/') < rest.n;

        rest = str_cut(rest, '/', &part);
        if (part.n == 0 || part.n >= 256 || str_eq(part, STR(".")) || str_eq(part, STR("..")) ||
            (more && rest.n == 0))
            return false;
    } while (rest.n);
    return true;
}

int plan_check_target(const char *target, struct err *e)
{
    struct str path = str_from(target);

    if (path.n < 2 || path.p[0] != '/' || path.n >= PLAN_TARGET_MAX)
        return err_set(e, ERR_INVALID,
                       "cannot mount at '%.80s': a mount target must be an absolute path shorter "
                       "than %d bytes",
                       target, PLAN_TARGET_MAX);
    if (!is_normal_path((struct str){ path.p + 1, path.n - 1 }))
        return err_set(e, ERR_INVALID,
                       "cannot mount at '%.80s': a mount target must not have '.', '..', empty "
                       "components or a trailing slash",
                       target);
    for (size_t i = 0; i < COUNT_OF(reserved); i++) {
        struct str top = str_from(reserved[i]);

        if (str_starts(path, top) && (path.n == top.n || path.p[top.n] == '/'))
            return err_set(e, ERR_DENIED, "cannot mount at '%s': %s is reserved for the sandbox",
                           target, reserved[i]);
    }
    return 0;
}

static int check_hostname(const char *name, struct err *e)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
    size_t n = strlen(name);

    if (n > 0 && strspn(name, allowed) == n && !strchr("-.", name[0]) && !strchr("-.", name[n - 1]))
        return 0;
    return err_set(e, ERR_INVALID, "'%s' is not a valid hostname: use letters, digits, '-' and '.'",
                   name);
}

static int check_plan_strings(const struct plan *p, struct err *e)
{
    if (!memchr(p->id, '\0', sizeof p->id) || !memchr(p->hostname, '\0', sizeof p->hostname))
        return err_set(e, ERR_INVALID, "a string in the launch plan is not terminated");
    if (!id_valid("sbx_", str_from(p->id)))
        return err_set(e, ERR_INVALID, "the launch plan has an invalid sandbox id");
    for (uint32_t i = 0; i < p->n_mounts; i++)
        if (!memchr(p->mounts[i].target, '\0', PLAN_TARGET_MAX) ||
            !memchr(p->mounts[i].source, '\0', PLAN_SOURCE_MAX))
            return err_set(e, ERR_INVALID, "a string in the launch plan is not terminated");
    for (uint32_t i = 0; i < p->n_layers; i++)
        if (!memchr(p->layers[i].path, '\0', PLAN_LAYER_MAX))
            return err_set(e, ERR_INVALID, "a string in the launch plan is not terminated");
    return check_hostname(p->hostname, e);
}

static int check_plan_owner(const struct plan *p, struct err *e)
{
    bool none = p->owner.key[0] == '\0';

    if (!none && !cgroup_owner_key_valid(p->owner.key, sizeof p->owner.key))
        return err_set(e, ERR_INVALID, "the launch plan has an invalid owner key");
    if ((p->flags & PLAN_PREPARED) && (!none || p->flags & (PLAN_EPHEMERAL | PLAN_ONE_SHOT)))
        return err_set(e, ERR_INVALID,
                       "a prepared sandbox cannot have an owner, be ephemeral or one-shot");
    return 0;
}

static int check_plan_limits(const struct plan *p, struct err *e)
{
    if (p->memory && p->memory < (UINT64_C(1) << 20))
        return err_set(e, ERR_INVALID, "the memory limit is below the minimum of 1M");
    if (p->disk && p->disk < (UINT64_C(64) << 10))
        return err_set(e, ERR_INVALID, "the disk limit is below the minimum of 64K");
    if (p->memory > INT64_MAX || p->disk > INT64_MAX)
        return err_set(e, ERR_INVALID, "a memory or disk limit is larger than %lld bytes",
                       (long long)INT64_MAX);
    if (p->pids && (p->pids < 2 || p->pids > PLAN_PIDS_MAX))
        return err_set(e, ERR_INVALID,
                       "the pids limit must be from 2 (including the supervisor) to %d",
                       PLAN_PIDS_MAX);
    if (p->cpu_milli && (p->cpu_milli < 10 || p->cpu_milli > 1024000))
        return err_set(e, ERR_INVALID, "the cpu limit must be from 0.01 to 1024 processors");
    if (p->terminals < 1 || p->terminals > PLAN_TERMINALS_MAX)
        return err_set(e, ERR_INVALID, "the number of terminals must be from 1 to %d",
                       PLAN_TERMINALS_MAX);
    if (p->kernel & ~(uint32_t)KERNEL_PLAN_ALL_)
        return err_set(e, ERR_DENIED,
                       "the launch plan has a kernel permission that cannot be granted");
    if (p->caps & ~plan_grantable_caps())
        return err_set(e, ERR_DENIED, "the launch plan has a capability that cannot be granted");
    if (p->uid >= PLAN_IDS || p->gid >= PLAN_IDS)
        return err_set(e, ERR_INVALID, "user and group ids in a sandbox must be from 0 to %d",
                       PLAN_IDS - 1);
    return 0;
}

/* A source is a descriptor without a path, or a path that stays below a root. */
static int check_source(uint32_t root, uint32_t last, const char *path, const char *what,
                        struct err *e)
{
    if (root > last)
        return err_set(e, ERR_INVALID, "%s: invalid root number %u", what, root);
    if (root == 0 ? path[0] == '\0' : strcmp(path, ".") == 0 || is_normal_path(str_from(path)))
        return 0;
    return err_set(e, ERR_INVALID,
                   root ? "%s: '%.80s' is not a valid path below a root: it must be relative, "
                          "without '.', '..', empty components or a trailing slash"
                        : "%s: '%.80s' has no root",
                   what, path);
}

static int check_plan_sources(const struct plan *p, struct err *e)
{
    bool granted = false;
    int r = 0;

    for (uint32_t i = 0; i < p->n_layers && r >= 0; i++)
        r = check_source(p->layers[i].root, PLAN_STORE, p->layers[i].path, "an image layer", e);
    for (uint32_t i = 0; i < p->n_mounts && r >= 0; i++) {
        const struct plan_mount *m = &p->mounts[i];

        if (m->flags & ~(uint32_t)PLAN_MOUNT_FLAGS_ALL_)
            return err_set(e, ERR_INVALID, "a mount has unknown flags");
        granted |= m->root == PLAN_GRANT;
        r = plan_check_target(m->target, e);
        if (r >= 0 && m->root != PLAN_GRANT)
            r = check_source(m->root, PLAN_ROOTS_MAX, m->source, m->target, e);
        else if (r >= 0 && m->source[0])
            r = err_set(e, ERR_INVALID, "%s: a granted mount has a path", m->target);
    }
    if (r >= 0 && granted != !!(p->flags & PLAN_GRANTED))
        r = err_set(e, ERR_INVALID,
                    "the launch plan has granted mounts without their socket, or "
                    "the socket without such mounts");
    return r;
}

int plan_check(const struct plan *p, size_t size, struct err *e)
{
    int r;

    if (size < sizeof p->magic + sizeof p->version || p->magic != PLAN_MAGIC)
        return err_set(e, ERR_INVALID, "not a launch plan");
    if (p->version != PLAN_VERSION)
        return err_set(e, ERR_UNSUPPORTED,
                       "launch plan version %u is not supported; this launcher supports %d",
                       p->version, PLAN_VERSION);
    if (size < offsetof(struct plan, mounts) || size > sizeof *p || p->size != sizeof *p)
        return err_set(e, ERR_INVALID, "the launch plan has the wrong size");
    if ((p->flags & ~(uint32_t)PLAN_FLAGS_ALL_) || p->n_layers > PLAN_LAYERS_MAX ||
        p->n_mounts > PLAN_MOUNTS_MAX)
        return err_set(
            e, ERR_INVALID,
            "the launch plan has unknown flags, more than %d layers or more than %d mounts",
            PLAN_LAYERS_MAX, PLAN_MOUNTS_MAX);
    if (size < plan_size(p))
        return err_set(e, ERR_INVALID, "the launch plan is truncated");
    if (!listeners_taken_valid(&p->taken))
        return err_set(e, ERR_INVALID, "the launch plan reserves a port of the network boundary");
    r = check_plan_strings(p, e);
    if (r >= 0)
        r = check_plan_owner(p, e);
    if (r >= 0)
        r = check_plan_sources(p, e);
    return r < 0 ? r : check_plan_limits(p, e);
}

static int check_supply(uint32_t root, const char *what, size_t n_roots, bool trusted,
                        struct err *e)
{
    if (root > n_roots)
        return err_set(e, ERR_DENIED, "%s is below root %u, but this launcher has only %zu roots",
                       what, root, n_roots);
    if (root == 0 && !trusted)
        return err_set(e, ERR_DENIED,
                       "%s is a descriptor, but this launcher accepts only paths below its roots",
                       what);
    return 0;
}

int plan_check_sources(const struct plan *p, size_t n_roots, bool store, bool trusted,
                       struct err *e)
{
    int r = 0;

    if ((p->flags & PLAN_CHANGES) && !trusted)
        return err_set(e, ERR_DENIED, "this launcher does not hand out writable layers");
    for (uint32_t i = 0; i < p->n_layers && r >= 0; i++)
        if (p->layers[i].root != PLAN_STORE)
            r = check_supply(p->layers[i].root, "an image layer", n_roots, trusted, e);
        else if (!store)
            r = err_set(e, ERR_DENIED,
                        "the plan uses a layer of the store, but this launcher has no store");
    for (uint32_t i = 0; i < p->n_mounts && r >= 0; i++)
        if (p->mounts[i].root != PLAN_GRANT)
            r = check_supply(p->mounts[i].root, p->mounts[i].target, n_roots, trusted, e);
    return r;
}

static int check_control_socket(int fd, struct err *e)
{
    int domain = 0, type = 0;
    socklen_t n = sizeof domain;

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || domain != AF_UNIX ||
        type != SOCK_SEQPACKET)
        return err_set(e, ERR_INVALID, "the control descriptor is not a unix seqpacket socket");
    return 0;
}

/* PID 1 will call listen() on it, which needs a bound, unconnected socket. */
static int check_listener(int fd, struct err *e)
{
    struct sockaddr_un name = { 0 };
    socklen_t n = sizeof name;
    int r = check_control_socket(fd, e);

    if (r < 0)
        return r;
    if (getsockname(fd, (struct sockaddr *)&name, &n) < 0 || n <= sizeof name.sun_family)
        return err_set(e, ERR_INVALID, "the listener descriptor is not bound");
    n = sizeof name;
    if (getpeername(fd, (struct sockaddr *)&name, &n) == 0)
        return err_set(e, ERR_INVALID, "the listener descriptor is connected");
    return 0;
}

int plan_check_file(int fd, bool dir_only, const char *what, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "reading the attributes of %s", what);
    if (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && !dir_only))
        return 0;
    return err_set(e, ERR_INVALID, "%s is not a directory%s", what,
                   dir_only ? "" : " or a regular file");
}

static size_t count_plan_fds(const struct plan *p)
{
    size_t n = p->flags & PLAN_LISTENER ? 2 : 1;

    for (uint32_t i = 0; i < p->n_layers; i++)
        n += p->layers[i].root == 0;
    for (uint32_t i = 0; i < p->n_mounts; i++)
        n += p->mounts[i].root == 0;
    return n + !!(p->flags & PLAN_GRANTED);
}

int plan_check_fds(const struct plan *p, const int *fds, size_t n, struct err *e)
{
    int r;

    if (n != count_plan_fds(p))
        return err_set(e, ERR_INVALID, "the launch plan has %zu descriptors instead of %zu", n,
                       count_plan_fds(p));
    r = check_control_socket(*fds++, e);
    if (r >= 0 && (p->flags & PLAN_LISTENER))
        r = check_listener(*fds++, e);
    for (uint32_t i = 0; i < p->n_layers && r >= 0; i++)
        if (p->layers[i].root == 0)
            r = plan_check_file(*fds++, true, "an image layer", e);
    for (uint32_t i = 0; i < p->n_mounts && r >= 0; i++)
        if (p->mounts[i].root == 0)
            r = plan_check_file(*fds++, false, p->mounts[i].target, e);
    if (r >= 0 && (p->flags & PLAN_GRANTED))
        r = check_control_socket(*fds, e);
    return r;
}
