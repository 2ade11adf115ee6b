#include "runtime/plan.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/own.h"
#include "ipc/kernel.h"
#include "proc/caps.h"

/* Places that belong to the runtime; a mount may not cover them, nor anything below them. */
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

static bool component_is_normal(struct str c)
{
    return c.n > 0 && c.n < 256 && !str_eq(c, STR(".")) && !str_eq(c, STR(".."));
}

/* A relative path of normal components only. */
static bool is_normal(struct str rest)
{
    struct str part;

    do {
        bool more = str_find(rest, '/') < rest.n;

        rest = str_cut(rest, '/', &part);
        if (!component_is_normal(part) || (more && rest.n == 0))
            return false;
    } while (rest.n);
    return true;
}

static bool is_below(struct str path, const char *top)
{
    struct str t = str_from(top);

    return str_starts(path, t) && (path.n == t.n || path.p[t.n] == '/');
}

int plan_check_target(const char *target, struct err *e)
{
    struct str path = str_from(target);

    if (path.n < 2 || path.p[0] != '/' || path.n >= PLAN_TARGET_MAX)
        return err_set(
            e, ERR_INVALID,
            "'%.80s' is not a place for a mount: give an absolute path shorter than %d bytes",
            target, PLAN_TARGET_MAX);
    if (!is_normal((struct str){ path.p + 1, path.n - 1 }))
        return err_set(e, ERR_INVALID,
                       "'%.80s' is not a place for a mount: give it without '.', '..', empty parts "
                       "or a slash at the end",
                       target);
    for (size_t i = 0; i < COUNT_OF(reserved); i++)
        if (is_below(path, reserved[i]))
            return err_set(e, ERR_DENIED,
                           "'%s' is not a place for a mount: %s belongs to the sandbox", target,
                           reserved[i]);
    return 0;
}

static int check_hostname(const char *name, struct err *e)
{
    size_t n = strlen(name);

    if (n == 0 || name[0] == '-' || name[0] == '.' || name[n - 1] == '-' || name[n - 1] == '.')
        goto bad;
    for (size_t i = 0; i < n; i++)
        if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
              (name[i] >= '0' && name[i] <= '9') || name[i] == '-' || name[i] == '.'))
            goto bad;
    return 0;
bad:
    return err_set(e, ERR_INVALID, "'%s' is not a hostname: letters, digits, '-' and '.' make one",
                   name);
}

static int check_strings(const struct plan *p, struct err *e)
{
    if (!memchr(p->id, '\0', sizeof p->id) || !memchr(p->hostname, '\0', sizeof p->hostname))
        return err_set(e, ERR_INVALID, "a string in the plan does not end");
    if (!id_valid("sbx_", str_from(p->id)))
        return err_set(e, ERR_INVALID, "the plan's id is not a sandbox id");
    for (uint32_t i = 0; i < p->n_mounts; i++)
        if (!memchr(p->mounts[i].target, '\0', PLAN_TARGET_MAX) ||
            !memchr(p->mounts[i].source, '\0', PLAN_SOURCE_MAX))
            return err_set(e, ERR_INVALID, "a string in the plan does not end");
    for (uint32_t i = 0; i < p->n_layers; i++)
        if (!memchr(p->layers[i].path, '\0', PLAN_LAYER_MAX))
            return err_set(e, ERR_INVALID, "a string in the plan does not end");
    return check_hostname(p->hostname, e);
}

static int check_owner(const struct plan *p, struct err *e)
{
    bool none = p->owner.key[0] == '\0';

    if (!none && !cgroup_owner_key_valid(p->owner.key, sizeof p->owner.key))
        return err_set(e, ERR_INVALID, "the plan's owner is not the key of one");
    if ((p->flags & PLAN_PREPARED) && (!none || p->flags & (PLAN_EPHEMERAL | PLAN_ONE_SHOT)))
        return err_set(e, ERR_INVALID, "a prepared sandbox has no owner and no end of its own yet");
    return 0;
}

static int check_limits(const struct plan *p, struct err *e)
{
    if (p->memory && p->memory < (UINT64_C(1) << 20))
        return err_set(e, ERR_INVALID, "a memory limit below 1M leaves no room to start anything");
    if (p->disk && p->disk < (UINT64_C(64) << 10))
        return err_set(e, ERR_INVALID, "a disk limit below 64K leaves no room to start anything");
    if (p->memory > INT64_MAX || p->disk > INT64_MAX)
        return err_set(e, ERR_INVALID, "a limit larger than any machine");
    if (p->pids && (p->pids < 2 || p->pids > PLAN_PIDS_MAX))
        return err_set(e, ERR_INVALID, "a pids limit goes from 2 (the supervisor is one) to %d",
                       PLAN_PIDS_MAX);
    if (p->cpu_milli && (p->cpu_milli < 10 || p->cpu_milli > 1024000))
        return err_set(e, ERR_INVALID, "a cpu limit goes from 0.01 to 1024 processors");
    if (p->terminals < 1 || p->terminals > PLAN_TERMINALS_MAX)
        return err_set(e, ERR_INVALID, "a sandbox has 1 to %d terminals", PLAN_TERMINALS_MAX);
    if (p->kernel & ~(uint32_t)KERNEL_PLAN_ALL_)
        return err_set(e, ERR_DENIED, "a part of the kernel that no sandbox is given");
    if (p->caps & ~plan_grantable_caps())
        return err_set(e, ERR_DENIED, "a capability that no sandbox is given");
    if (p->uid >= PLAN_IDS || p->gid >= PLAN_IDS)
        return err_set(e, ERR_INVALID, "user and group ids in a sandbox go from 0 to %d",
                       PLAN_IDS - 1);
    return 0;
}

/* A source is a descriptor and has no path, or is below a root and has one that stays there. */
static int check_source(uint32_t root, uint32_t last, const char *path, const char *what,
                        struct err *e)
{
    if (root > last)
        return err_set(e, ERR_INVALID, "%s below a root %u that cannot be", what, root);
    if (root == 0 ? path[0] == '\0' : strcmp(path, ".") == 0 || is_normal(str_from(path)))
        return 0;
    return err_set(e, ERR_INVALID,
                   root ? "%s: '%.80s' is not a path below a root: give it relative, without '.', "
                          "'..', empty parts or a slash at the end"
                        : "%s: '%.80s' is a path, but below no root",
                   what, path);
}

static int check_parts(const struct plan *p, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; i < p->n_layers && r >= 0; i++)
        r = check_source(p->layers[i].root, PLAN_STORE, p->layers[i].path, "an image layer", e);
    for (uint32_t i = 0; i < p->n_mounts && r >= 0; i++) {
        const struct plan_mount *m = &p->mounts[i];

        if (m->flags & ~(uint32_t)PLAN_MOUNT_FLAGS_ALL_)
            return err_set(e, ERR_INVALID, "a mount with unknown flags");
        r = plan_check_target(m->target, e);
        if (r >= 0)
            r = check_source(m->root, PLAN_ROOTS_MAX, m->source, m->target, e);
    }
    return r;
}

int plan_check(const struct plan *p, size_t size, struct err *e)
{
    int r;

    if (size < sizeof p->magic + sizeof p->version || p->magic != PLAN_MAGIC)
        return err_set(e, ERR_INVALID, "not a launch plan");
    if (p->version != PLAN_VERSION)
        return err_set(e, ERR_UNSUPPORTED, "a launch plan of version %u; this launcher knows %d",
                       p->version, PLAN_VERSION);
    if (size < offsetof(struct plan, mounts) || size > sizeof *p || p->size != sizeof *p)
        return err_set(e, ERR_INVALID, "a launch plan of another size");
    if ((p->flags & ~(uint32_t)PLAN_FLAGS_ALL_) || p->n_layers > PLAN_LAYERS_MAX ||
        p->n_mounts > PLAN_MOUNTS_MAX)
        return err_set(e, ERR_INVALID, "a launch plan with unknown flags or too many parts");
    if (size < plan_size(p))
        return err_set(e, ERR_INVALID, "a launch plan that was cut short");
    if (!listeners_taken_valid(&p->taken))
        return err_set(e, ERR_INVALID, "a launch plan that takes a port of the network boundary");
    r = check_strings(p, e);
    if (r >= 0)
        r = check_owner(p, e);
    if (r >= 0)
        r = check_parts(p, e);
    return r < 0 ? r : check_limits(p, e);
}

static int check_supply(uint32_t root, const char *what, size_t n_roots, bool trusted,
                        struct err *e)
{
    if (root > n_roots)
        return err_set(e, ERR_DENIED, "%s is below root %u; this launcher has %zu", what, root,
                       n_roots);
    if (root == 0 && !trusted)
        return err_set(e, ERR_DENIED,
                       "%s comes as a descriptor; this launcher takes only paths below its roots",
                       what);
    return 0;
}

int plan_check_sources(const struct plan *p, size_t n_roots, bool store, bool trusted,
                       struct err *e)
{
    int r = 0;

    if ((p->flags & PLAN_CHANGES) && !trusted)
        return err_set(e, ERR_DENIED, "this launcher hands out no sandbox's files");
    for (uint32_t i = 0; i < p->n_layers && r >= 0; i++)
        if (p->layers[i].root != PLAN_STORE)
            r = check_supply(p->layers[i].root, "an image layer", n_roots, trusted, e);
        else if (!store)
            r = err_set(e, ERR_DENIED, "a layer of a store; this launcher has none");
    for (uint32_t i = 0; i < p->n_mounts && r >= 0; i++)
        r = check_supply(p->mounts[i].root, p->mounts[i].target, n_roots, trusted, e);
    return r;
}

static int check_socket(int fd, struct err *e)
{
    int domain = 0, type = 0;
    socklen_t n = sizeof domain;

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || domain != AF_UNIX ||
        type != SOCK_SEQPACKET)
        return err_set(e, ERR_INVALID, "a control descriptor that is no seqpacket socket");
    return 0;
}

/* PID 1 will listen on it, which works once and on a socket that has a name. */
static int check_listener(int fd, struct err *e)
{
    struct sockaddr_un name = { 0 };
    socklen_t n = sizeof name;
    int r = check_socket(fd, e);

    if (r < 0)
        return r;
    if (getsockname(fd, (struct sockaddr *)&name, &n) < 0 || n <= sizeof name.sun_family)
        return err_set(e, ERR_INVALID, "a listening descriptor that is not bound");
    n = sizeof name;
    if (getpeername(fd, (struct sockaddr *)&name, &n) == 0)
        return err_set(e, ERR_INVALID, "a listening descriptor that is connected");
    return 0;
}

int plan_check_file(int fd, bool dir_only, const char *what, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "looking at %s", what);
    if (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && !dir_only))
        return 0;
    return err_set(e, ERR_INVALID, "%s is not a directory%s", what,
                   dir_only ? "" : " or a regular file");
}

static size_t count_fds(const struct plan *p)
{
    size_t n = p->flags & PLAN_LISTENER ? 2 : 1;

    for (uint32_t i = 0; i < p->n_layers; i++)
        n += p->layers[i].root == 0;
    for (uint32_t i = 0; i < p->n_mounts; i++)
        n += p->mounts[i].root == 0;
    return n;
}

int plan_check_fds(const struct plan *p, const int *fds, size_t n, struct err *e)
{
    int r;

    if (n != count_fds(p))
        return err_set(e, ERR_INVALID, "%zu descriptors came with a plan that needs %zu", n,
                       count_fds(p));
    r = check_socket(*fds++, e);
    if (r >= 0 && (p->flags & PLAN_LISTENER))
        r = check_listener(*fds++, e);
    for (uint32_t i = 0; i < p->n_layers && r >= 0; i++)
        if (p->layers[i].root == 0)
            r = plan_check_file(*fds++, true, "an image layer", e);
    for (uint32_t i = 0; i < p->n_mounts && r >= 0; i++)
        if (p->mounts[i].root == 0)
            r = plan_check_file(*fds++, false, p->mounts[i].target, e);
    return r;
}
