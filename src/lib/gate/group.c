/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of workers, and the places that each may connect to. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "lib/gate/bpf.h"
#include "lib/gate/gate.h"

enum { MAKE_TRIES = 16, REMOVE_TRIES = 200, REMOVE_WAIT_MS = 10 };

static int open_group(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void write_group_file(int dir, const char *name, const char *text)
{
    AUTO_CLOSE int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        errno = 0; /* whether it worked is seen later */
}

/* --- the group above --- */

/* A lock of a process, not of a descriptor: children of the supervisor do not keep it. */
static bool lock_group(int dir, int *ret)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    AUTO_CLOSE int fd = openat(dir, "cgroup.procs", O_RDWR | O_CLOEXEC);

    if (fd < 0 || fcntl(fd, F_SETLK, &lock) < 0)
        return false;
    *ret = take_fd(&fd);
    return true;
}

/* Calls fn for each directory in the group whose name begins so. */
static void each_group(int dir, const char *prefix, void (*fn)(int dir, const char *name))
{
    int copy = open_group(dir, ".");
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *d;

    if (!list) {
        drop_fd(&copy);
        return;
    }
    while ((d = readdir(list)))
        if (strncmp(d->d_name, prefix, strlen(prefix)) == 0 && d->d_type == DT_DIR)
            fn(dir, d->d_name);
    closedir(list);
}

static void remove_worker_group(int dir, const char *name)
{
    (void)unlinkat(dir, name, AT_REMOVEDIR);
}

/* The kernel ends what is in it and below; groups can be removed when that is done. */
static void remove_dead_groups(int top, const char *name)
{
    AUTO_CLOSE int dir = open_group(top, name), lock = -1;

    if (dir < 0 || !lock_group(dir, &lock))
        return;
    write_group_file(dir, "cgroup.kill", "1");
    for (int i = 0; i < REMOVE_TRIES; i++) {
        each_group(dir, "w", remove_worker_group);
        if (unlinkat(top, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
            return;
        poll(NULL, 0, REMOVE_WAIT_MS);
    }
}

/* Removes groups whose name begins so, unless a living supervisor has them. */
void gate_sweep_(int top, const char *prefix)
{
    each_group(top, prefix, remove_dead_groups);
}

/* Between its making and its lock, another daemon may take a group for a dead one's. */
static bool is_name_of_dir(int top, const char *name, int dir)
{
    struct stat now, ours;

    return fstatat(top, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && fstat(dir, &ours) == 0 &&
           now.st_ino == ours.st_ino;
}

static int lock_dir(struct gate *g, struct err *e)
{
    for (int i = 0; i < MAKE_TRIES; i++) {
        snprintf(g->name, sizeof g->name, "%s%ld", g->prefix, (long)getpid() + i);
        if (mkdirat(g->top, g->name, 0755) < 0) {
            if (errno == EEXIST)
                continue;
            break;
        }
        g->dir = open_group(g->top, g->name);
        if (g->dir >= 0 && lock_group(g->dir, &g->lock) && is_name_of_dir(g->top, g->name, g->dir))
            return 0;
        drop_fd(&g->lock);
        drop_fd(&g->dir);
    }
    return err_sys(e, "making cgroup %s", g->name);
}

static void remove_upper_group(struct gate *g)
{
    if (g->dir < 0 || unlinkat(g->top, g->name, AT_REMOVEDIR) < 0)
        return;
    drop_fd(&g->lock);
    drop_fd(&g->dir);
}

int gate_make_dir_(struct gate *g, struct err *e)
{
    int r = lock_dir(g, e);

    if (r >= 0)
        r = gate_attach_(g, e);
    if (r < 0)
        remove_upper_group(g);
    return r;
}

/* --- groups of workers --- */

static void name_group(const struct gate_group *w, char ret[static 24])
{
    snprintf(ret, 24, "w%llu", (unsigned long long)w->number);
}

static struct gate_group *last_group(const struct gate *g)
{
    return &g->groups[g->n - 1];
}

int gate_add(struct gate *g, uint64_t worker, struct err *e)
{
    struct gate_group *w;
    struct stat st;
    char name[24];
    int r = g->open && g->dir < 0 ? gate_make_dir_(g, e) : 0;

    if (!g->open || r < 0)
        return r;
    if (g->n == g->cap) {
        g->cap = g->cap ? g->cap * 2 : 16;
        g->groups = realloc(g->groups, g->cap * sizeof *g->groups);
        if (!g->groups)
            abort();
    }
    w = &g->groups[g->n];
    *w = (struct gate_group){ .worker = worker, .number = ++g->made };
    name_group(w, name);
    /* The number of a group's inode is its id on machines of 64 bits. */
    if (mkdirat(g->dir, name, 0755) < 0 || fstatat(g->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "making cgroup %s/%s", g->name, name);
    w->id = st.st_ino;
    g->n++;
    return 0;
}

void gate_started(struct gate *g, pid_t pid)
{
    if (!g->open)
        return;
    last_group(g)->pid = pid;
    last_group(g)->over = pid == 0;
    g->ended += pid == 0;
}

int gate_enter(const struct gate *g, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    char name[24], path[48];

    if (!g->open)
        return 0;
    name_group(last_group(g), name);
    snprintf(path, sizeof path, "%s/cgroup.procs", name);
    fd = openat(g->dir, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1)
        return err_sys(e, "joining cgroup %s/%s", g->name, name);
    return 0;
}

/* A process that a worker has left behind ends with it. */
bool gate_tidy(struct gate *g)
{
    bool all = true;

    for (size_t i = 0; g->ended && i < g->n;) {
        AUTO_CLOSE int dir = -1;
        char name[24];

        if (!g->groups[i].over) {
            i++;
            continue;
        }
        name_group(&g->groups[i], name);
        if (unlinkat(g->dir, name, AT_REMOVEDIR) == 0 || errno != EBUSY) {
            free(g->groups[i].list);
            g->groups[i] = g->groups[--g->n];
            g->ended--;
            continue;
        }
        dir = open_group(g->dir, name);
        if (dir >= 0)
            write_group_file(dir, "cgroup.kill", "1");
        all = false;
        i++;
    }
    if (!g->n)
        remove_upper_group(g);
    return all;
}

/* --- places --- */

static struct gate_key key_of(uint64_t group, const struct gate_place *p)
{
    struct gate_key k = { .group = group };

    memcpy(k.address, p->address, sizeof k.address);
    memcpy(k.port, p->port, sizeof k.port);
    return k;
}

int gate_except(const struct gate *g, const struct address *a, uint16_t port, struct err *e)
{
    const struct gate_place p = gate_place_of(a, port);
    const struct gate_key k = key_of(0, &p);

    return g->open ? bpf_key_add(g->places, &k, e) : 0;
}

static bool has_gate_place(const struct gate_place *list, size_t n, const struct gate_place *p)
{
    return n && bsearch(p, list, n, sizeof *p, gate_place_compare);
}

/* Removes those of `from` that `but` does not have. */
static void remove_places(const struct gate *g, uint64_t group, const struct gate_place *from,
                          size_t n, const struct gate_place *but, size_t n_but)
{
    for (size_t i = 0; i < n; i++)
        if (!has_gate_place(but, n_but, &from[i])) {
            const struct gate_key k = key_of(group, &from[i]);

            bpf_key_remove(g->places, &k);
        }
}

/* Adds those that it does not have; on failure none of them stays. */
static int add_places(const struct gate *g, const struct gate_group *w,
                      const struct gate_place *list, size_t n, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++) {
        const struct gate_key k = key_of(w->id, &list[i]);

        if (!has_gate_place(w->list, w->n, &list[i]))
            r = bpf_key_add(g->places, &k, e);
    }
    if (r < 0)
        remove_places(g, w->id, list, n, w->list, w->n);
    return r;
}

int gate_set(struct gate *g, uint64_t worker, const struct gate_place *list, size_t n,
             struct err *e)
{
    struct gate_group *w = NULL;
    struct gate_place *copy;
    int r;

    if (!g->open)
        return 0;
    for (size_t i = g->n; i > 0 && !w; i--)
        if (g->groups[i - 1].worker == worker && !g->groups[i - 1].over)
            w = &g->groups[i - 1];
    if (!w)
        return err_set(e, ERR_NOT_FOUND, "there is no egress worker %llu",
                       (unsigned long long)worker);
    r = add_places(g, w, list, n, e);
    if (r < 0)
        return r;
    remove_places(g, w->id, w->list, w->n, list, n);
    copy = malloc(n * sizeof *list + 1);
    if (!copy)
        abort();
    memcpy(copy, list, n * sizeof *list);
    free(w->list);
    w->n = n;
    w->list = copy;
    return 0;
}

void gate_ended(struct gate *g, pid_t pid)
{
    for (size_t i = 0; i < g->n; i++) {
        struct gate_group *w = &g->groups[i];

        if (w->pid != pid || w->over)
            continue;
        remove_places(g, w->id, w->list, w->n, NULL, 0);
        w->n = 0;
        w->over = true;
        g->ended++;
    }
}
