/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "backends/local/local.h"
#include "lib/ipc/kernel.h"
#include "lib/proc/caps.h"
#include "lib/proc/passwd.h"
#include "lib/proc/sys.h"
#include "engine/runtime/user.h"

void local_plan_free(struct local_plan *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n; i++)
        drop_fd(&p->fds[i]);
    free(p);
}

void local_plan_freep_(struct local_plan **p)
{
    local_plan_free(*p);
}

/* The part of path below root: "" for root itself; NULL if it is outside. */
static const char *plan_path_below_root(const char *root, const char *path)
{
    size_t n = strlen(root);

    while (n > 0 && root[n - 1] == '/')
        n--;
    if (strncmp(root, path, n) != 0 || (path[n] && path[n] != '/'))
        return NULL;
    return path[n] ? path + n + 1 : path + n;
}

/* A file of the host, as it is passed to the launcher. */
struct plan_source {
    uint32_t root; /* 0: a descriptor of the plan */
    const char *path;
};

static int find_root(const struct backend_context *c, const char *path, struct plan_source *ret,
                     struct err *e)
{
    size_t shortest = SIZE_MAX; /* of several roots, the innermost */

    for (uint32_t i = 0; c->roots && c->roots[i]; i++) {
        const char *rest = plan_path_below_root(c->roots[i], path);

        if (!rest || strlen(rest) >= shortest)
            continue;
        shortest = strlen(rest);
        *ret = (struct plan_source){ .root = i + 1, .path = rest[0] ? rest : "." };
    }
    return shortest < SIZE_MAX
               ? 0
               : err_set(e, ERR_DENIED, "'%.120s' is not below a directory of workspaces.roots",
                         path);
}

/* The plan owns the descriptor of the source, if it has one. */
static int find_source(const struct backend_context *c, struct local_plan *p, const char *path,
                       struct plan_source *ret, struct err *e)
{
    int fd;

    if (path[0] != '/')
        return err_set(e, ERR_INVALID, "'%.120s' is not an absolute path", path);
    if (c->roots_only)
        return find_root(c, path, ret, e);
    fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "'%.120s'", path);
    p->fds[p->n++] = fd;
    *ret = (struct plan_source){ .path = "" };
    return 0;
}

static int add_plan_mount(const struct backend_context *c, struct local_plan *p,
                          const struct backend_mount *m, struct err *e)
{
    struct plan_source s = { .root = PLAN_GRANT, .path = "" };
    int r = plan_check_target(m->target, e);

    if (r >= 0 && m->source)
        r = find_source(c, p, m->source, &s, e);
    if (s.root == PLAN_GRANT)
        p->plan.flags |= PLAN_GRANTED;
    return r < 0 ? r
                 : plan_add_mount(&p->plan, s.root, s.path, m->target,
                                  m->writable ? PLAN_MOUNT_RW : 0, e);
}

/* The socket of granted mounts is the last of the plan's descriptors. */
static int add_granted(struct local_plan *p, int granted, struct err *e)
{
    int fd;

    if (!(p->plan.flags & PLAN_GRANTED))
        return 0;
    fd = granted < 0 ? -1 : fcntl(granted, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return err_set(e, ERR_BUG, "the granted mounts were not opened");
    p->fds[p->n++] = fd;
    return 0;
}

static int add_image_dir(const struct backend_context *c, struct local_plan *p, const char *image,
                         struct err *e)
{
    struct plan_source s;
    int r = find_source(c, p, image, &s, e);

    return r < 0 ? r : plan_add_layer(&p->plan, s.root, s.path, e);
}

static int add_stored_layers(struct local_plan *p, const char *const *layers, size_t n,
                             struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++) {
        char path[PLAN_LAYER_MAX];

        snprintf(path, sizeof path, "layers/%s/fs", layers[i]);
        r = plan_add_layer(&p->plan, PLAN_STORE, path, e);
    }
    return r;
}

static int add_caps(struct plan *p, struct json_strs names, struct err *e)
{
    for (size_t i = 0; i < names.n; i++) {
        int cap;

        if (!caps_from_name(str_from(names.p[i]), &cap) || !(plan_grantable_caps() & CAP_BIT(cap)))
            return err_set(e, ERR_INVALID, "caps: '%.40s' cannot be granted", names.p[i]);
        p->caps |= CAP_BIT(cap);
    }
    return 0;
}

static int add_kernel(struct plan *p, const struct profile *of, struct err *e)
{
    p->kernel = of->kernel.calls == CALLS_STRICT ? KERNEL_STRICT : 0;
    for (size_t i = 0; i < of->kernel.allow.n; i++) {
        uint32_t bit;

        if (!kernel_from_name(str_from(of->kernel.allow.p[i]), &bit))
            return err_set(e, ERR_INVALID, "kernel.allow: '%.40s' cannot be granted",
                           of->kernel.allow.p[i]);
        p->kernel |= bit;
    }
    return 0;
}

/* A plain user's sandbox may have only this identity: so a name must be resolved to its number
 * here. On the host's system directories the names are the runtime's own. */
static int choose_plan_identity(struct local_plan *p, const char *text, struct err *e)
{
    struct user u;
    struct passwd_entry found = { 0 };
    AUTO_CLOSE int file = -1;
    int r = user_parse(text, &u, e);

    if (r < 0)
        return r;
    if (u.name && p->n > LOCAL_FD_LISTENER + 1) { /* the image; mounts are added later */
        file = sys_openat2(p->fds[LOCAL_FD_LISTENER + 1], "etc/passwd", O_RDONLY | O_NONBLOCK, 0,
                           RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
        if (file >= 0 && passwd_find(file, str_from(u.name), 0, &found)) {
            u.uid = found.uid;
            u.gid = found.gid;
        }
    } else {
        user_number(&u);
    }
    p->plan.uid = u.uid;
    p->plan.gid = u.gid;
    return 0;
}

struct cgroup_owner local_owner(const struct backend_owner *o)
{
    struct cgroup_owner ret = {
        .memory = o->memory,
        .io = o->io,
        .pids = o->pids,
        .cpu_milli = o->cpu_milli,
        .disk = o->disk,
    };

    snprintf(ret.key, sizeof ret.key, "%s", o->key);
    return ret;
}

/* A sandbox has a unique hostname unless another one was asked for, so that logs of copies can be
 * distinguished. */
static void set_plan_basics(struct plan *p, const char *id, const struct backend_spec *s)
{
    snprintf(p->id, sizeof p->id, "%s", id);
    snprintf(p->hostname, sizeof p->hostname, "%s", s->hostname ? s->hostname : id);
    for (char *at = p->hostname; (at = strchr(at, '_'));)
        *at = '-';
    p->taken = s->taken;
    p->memory = s->memory;
    p->disk = s->disk;
    p->pids = s->pids;
    p->cpu_milli = s->cpu_milli;
    p->terminals = s->profile->resources.terminals;
    if (s->owner)
        p->owner = local_owner(s->owner);
}

/* Resolves "auto" of the profile by whether other users can reach the daemon. */
static uint32_t plan_isolation_flags(const struct backend_context *c, const struct profile *p)
{
    bool guarded = p->isolation.side_channels == SIDE_CHANNELS_AUTO
                       ? c->tenants
                       : p->isolation.side_channels == SIDE_CHANNELS_GUARDED;
    uint32_t flags = guarded ? PLAN_GUARDED : 0;

    if (p->isolation.system != SYSTEM_SHARED)
        flags |= PLAN_SYSTEM_APART;
    if (p->isolation.system == SYSTEM_AUTO && !c->tenants)
        flags |= PLAN_SYSTEM_EITHER;
    return flags;
}

static int fill_local_plan(const struct backend_context *c, const char *id,
                           const struct backend_spec *s, struct local_plan *p, struct err *e)
{
    const struct profile *of = s->profile;
    int r = plan_init(&p->plan, e);

    if (r < 0)
        return r;
    set_plan_basics(&p->plan, id, s);
    p->plan.flags = PLAN_LISTENER | (of->writable_system ? PLAN_WRITABLE_SYSTEM : 0) |
                    (s->egress ? PLAN_EGRESS : 0) | plan_isolation_flags(c, of) |
                    (s->owner ? 0 : PLAN_PREPARED) | (s->again ? PLAN_AGAIN : 0) |
                    (s->n_layers && !of->image && !s->image ? PLAN_HOST_SYSTEM : 0);
    r = add_caps(&p->plan, of->caps, e);
    if (r >= 0)
        r = add_kernel(&p->plan, of, e);
    if (r >= 0) /* captured layers are above the image's */
        r = add_stored_layers(p, s->layers, s->n_layers, e);
    if (r >= 0 && s->image)
        r = err_wrap(e, add_stored_layers(p, s->image->layers, s->image->n, e), "image");
    else if (r >= 0 && of->image)
        r = err_wrap(e, add_image_dir(c, p, of->image, e), "image");
    if (r >= 0)
        r = choose_plan_identity(p, backend_usual_user(s), e);
    for (size_t i = 0; i < s->n_mounts && r >= 0; i++)
        r = err_wrap(e, add_plan_mount(c, p, &s->mounts[i], e), "mount");
    if (r >= 0)
        r = add_granted(p, s->granted, e);
    return r < 0 ? r : plan_check(&p->plan, sizeof p->plan, e);
}

int local_plan_new(const struct backend_context *c, const char *id, const struct backend_spec *s,
                   struct local_plan **ret, struct err *e)
{
    AUTO(local_plan_freep_) struct local_plan *p = new0(sizeof *p);
    int r;

    p->fds[LOCAL_FD_CONTROL] = p->fds[LOCAL_FD_LISTENER] = -1;
    p->n = LOCAL_FD_LISTENER + 1;
    r = fill_local_plan(c, id, s, p, e);
    if (r >= 0)
        *ret = take_ptr(p);
    return r;
}
