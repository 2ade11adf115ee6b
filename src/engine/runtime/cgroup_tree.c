/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/cgroup_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/runtime/cgroup_file.h"
#include "engine/runtime/cgroup_limits.h"

enum {
    REMOVE_TRIES = 200,
    REMOVE_WAIT_MS = 10,
    MAKE_TRIES = 4,
    HOLD_TRIES = 20,
    HOLD_WAIT_MS = 1,
    STALE_SECONDS = 60,
    /* The weight of all sandboxes of a daemon against the host: their number must neither starve
     * nor outweigh it. Below this group, owners have equal weights by default. */
    BASE_WEIGHT_V1 = 10240,
    BASE_WEIGHT_V2 = 1000,
};

static const char group_prefix[] = "sandboxer-";
static const char pool_name[] = "pool";

/* paths */

static void base_path(const struct cgroup_host *h, char ret[CGROUP_PATH_MAX])
{
    snprintf(ret, CGROUP_PATH_MAX, "%s%s", group_prefix, h->tag);
}

/* The groups of runs without a daemon, and of sandboxes that an earlier version made. */
static void flat_path(const struct cgroup_host *h, const char *id, char ret[CGROUP_PATH_MAX])
{
    snprintf(ret, CGROUP_PATH_MAX, "%s%s%s%s", group_prefix, h->tag, h->tag[0] ? "-" : "", id);
}

static void path_below(const struct cgroup_host *h, const char *parent, const char *id,
                       char ret[CGROUP_PATH_MAX])
{
    snprintf(ret, CGROUP_PATH_MAX, "%s%s/%s%s%s", group_prefix, h->tag, parent,
             parent[0] ? "/" : "", id);
}

void cgroup_tree_path(const struct cgroup_host *h, int hierarchy, const char *id, const char *owner,
                      char ret[CGROUP_PATH_MAX])
{
    bool limits = hierarchy != CGROUP_V2_ || cgroup_tree_v2_limits(h);

    if (!h->tag[0] || !owner)
        flat_path(h, id, ret);
    else
        path_below(h, limits ? owner : "", id, ret);
}

void cgroup_tree_pool_path(const struct cgroup_host *h, char ret[CGROUP_PATH_MAX])
{
    path_below(h, "", pool_name, ret);
}

bool cgroup_owner_key_valid(const char *key, size_t cap)
{
    size_t n = strnlen(key, cap);

    return n > 0 && n < cap && n < CGROUP_OWNER_MAX &&
           strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == n && key[0] != '.' &&
           strncmp(key, "sbx_", 4) != 0 && strcmp(key, pool_name) != 0;
}

static bool is_sandbox_name(const char *name)
{
    return strncmp(name, "sbx_", 4) == 0;
}

/* A group of runs without a daemon or of an earlier version, for any tag. */
static bool is_flat_name(const char *name)
{
    size_t n = sizeof group_prefix - 1;
    const char *rest = strncmp(name, group_prefix, n) == 0 ? name + n : "";
    const char *dash = strchr(rest, '-');

    return is_sandbox_name(dash ? dash + 1 : rest);
}

static bool is_base_name(const char *name)
{
    size_t n = sizeof group_prefix - 1;

    return strncmp(name, group_prefix, n) == 0 && cgroup_tag_valid(name + n);
}

/* making */

/* -1: errno. */
static int make_or_open(int top, const char *path)
{
    if (mkdirat(top, path, 0755) < 0 && errno != EEXIST)
        return -1;
    return cgroup_dir_open(top, path);
}

static void set_up_base(const struct cgroup_host *h, int hierarchy, int dir)
{
    char weight[16];

    snprintf(weight, sizeof weight, "%d",
             hierarchy == CGROUP_V2_ ? BASE_WEIGHT_V2 : BASE_WEIGHT_V1);
    if (hierarchy == CGROUP_V2_ && cgroup_tree_v2_limits(h))
        (void)cgroup_enable_controllers(dir);
    if (hierarchy == CGROUP_V2_ || hierarchy == CGROUP_CPU)
        (void)cgroup_file_write(dir, hierarchy == CGROUP_V2_ ? "cpu.weight" : "cpu.shares", weight);
    if (hierarchy == CGROUP_V2_ ? h->unified_has & (1u << CGROUP_HUGETLB)
                                : hierarchy == CGROUP_HUGETLB)
        cgroup_forbid_huge_pages(dir);
}

/* Keeps other launchers from removing an empty group while this descriptor is open, because a
 * process that joins a removed one gets ENODEV. False: it was removed already, errno is ENOENT.
 * Any user may lock it, so that without the lock the group is used all the same. */
static bool hold_group(int top, const char *path, int dir)
{
    struct stat opened, named;

    for (int i = 0; flock(dir, LOCK_SH | LOCK_NB) < 0 && i < HOLD_TRIES; i++)
        poll(NULL, 0, HOLD_WAIT_MS);
    return fstat(dir, &opened) == 0 && fstatat(top, path, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           opened.st_ino == named.st_ino;
}

static int make_and_hold(int top, const char *path)
{
    AUTO_CLOSE int dir = make_or_open(top, path);

    if (dir < 0 || hold_group(top, path, dir))
        return dir < 0 ? -1 : take_fd(&dir);
    errno = ENOENT;
    return -1;
}

/* Retries: another launcher may remove an empty group before its child is made. */
int cgroup_tree_make_shared(struct cgroup_host *h, int hierarchy, const char *path, int *ret,
                            struct err *e)
{
    int top = cgroup_tree_top(h, hierarchy), fd = -1;
    char base[CGROUP_PATH_MAX];

    base_path(h, base);
    for (int i = 0; i < MAKE_TRIES && fd < 0; i++) {
        AUTO_CLOSE int dir = make_or_open(top, base);

        if (dir >= 0)
            set_up_base(h, hierarchy, dir);
        if (dir >= 0)
            fd = make_and_hold(top, path ? path : base);
        if (fd < 0 && errno != ENOENT)
            break;
    }
    *ret = fd;
    return fd < 0 ? err_sys(e, "creating cgroup %s", path ? path : base) : 0;
}

static int set_up_owner(const struct cgroup_host *h, int hierarchy, int dir,
                        const struct cgroup_owner *o, struct err *e)
{
    struct cgroup_limits limits = { .memory = o->memory,
                                    .pids = o->pids,
                                    .cpu_milli = o->cpu_milli };
    struct cgroup_setting s[CGROUP_SETTINGS_MAX];
    int r = 0;

    if (hierarchy != CGROUP_V2_) {
        if (hierarchy == CGROUP_MEMORY) /* so that the memory limit can be raised */
            (void)cgroup_file_write(dir, "memory.memsw.limit_in_bytes", "-1");
        return cgroup_settings_apply(dir, s, cgroup_settings_v1(hierarchy, &limits, s), e);
    }
    (void)cgroup_enable_controllers(dir);
    for (int c = 0; c <= CGROUP_CPU && r >= 0; c++)
        if (h->unified_has & (1u << c))
            r = cgroup_settings_apply(dir, s, cgroup_settings_v2(c, &limits, s), e);
    if (r >= 0 && h->unified_has & (1u << CGROUP_IO))
        r = cgroup_settings_apply(dir, s, cgroup_settings_io(h->disk, o->io, s), e);
    return r;
}

static int make_owner_group(struct cgroup_host *h, int hierarchy, const struct cgroup_owner *o,
                            struct err *e)
{
    char path[CGROUP_PATH_MAX];
    AUTO_CLOSE int dir = -1;
    int r;

    path_below(h, "", o->key, path);
    r = cgroup_tree_make_shared(h, hierarchy, path, &dir, e);
    return r < 0 ? r : set_up_owner(h, hierarchy, dir, o, e);
}

int cgroup_tree_make(struct cgroup_host *h, int hierarchy, const char *path,
                     const struct cgroup_owner *o, int *ret, struct err *e)
{
    int top = cgroup_tree_top(h, hierarchy), r;

    for (int i = 0; mkdirat(top, path, 0755) < 0; i++) {
        AUTO_CLOSE int base = -1;

        if (errno != ENOENT || !o || i == MAKE_TRIES)
            return err_sys(e, "creating cgroup %s", path);
        r = hierarchy != CGROUP_V2_ || cgroup_tree_v2_limits(h)
                ? make_owner_group(h, hierarchy, o, e)
                : cgroup_tree_make_shared(h, hierarchy, NULL, &base, e);
        if (r < 0)
            return r;
    }
    *ret = cgroup_dir_open(top, path);
    return *ret < 0 ? err_sys(e, "opening cgroup %s", path) : 0;
}

static struct cgroup_owner *find_seen_owner(struct cgroup_host *h, const char *key)
{
    for (size_t i = 0; i < CGROUP_SEEN_MAX; i++)
        if (strcmp(h->seen[i].key, key) == 0)
            return &h->seen[i];
    return NULL;
}

int cgroup_tree_refresh(struct cgroup_host *h, const struct cgroup_owner *o, struct err *e)
{
    struct cgroup_owner *s = find_seen_owner(h, o->key);
    int r = 0;

    if (s && s->memory == o->memory && s->io == o->io && s->pids == o->pids &&
        s->cpu_milli == o->cpu_milli)
        return 0;
    for (int i = 0; i <= CGROUP_CPU && r >= 0; i++)
        if (h->legacy[i] >= 0 && !(h->unified_has & (1u << i)))
            r = make_owner_group(h, i, o, e);
    if (r >= 0 && cgroup_tree_v2_limits(h))
        r = make_owner_group(h, CGROUP_V2_, o, e);
    if (r >= 0)
        *(s ? s : &h->seen[h->next_seen++ % CGROUP_SEEN_MAX]) = *o;
    return r;
}

/* finding */

/* Calls `use` with the path of each group below sandboxer-TAG (`base`) until it returns true. */
static bool each_group(int top, const char *base,
                       bool (*use)(int top, const char *path, void *user), void *user)
{
    int fd = top < 0 ? -1 : cgroup_dir_open(top, base);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool stop = false;
    const struct dirent *d;

    if (!dir) {
        drop_fd(&fd);
        return false;
    }
    while (!stop && (d = readdir(dir))) {
        char path[CGROUP_PATH_MAX];

        if (d->d_name[0] != '.' && (d->d_type == DT_DIR || d->d_type == DT_UNKNOWN) &&
            snprintf(path, sizeof path, "%s/%s", base, d->d_name) < (int)sizeof path)
            stop = use(top, path, user);
    }
    closedir(dir);
    return stop;
}

struct group_search {
    const char *id;
    int found;
    bool stayed;
};

static int open_group_below(int top, const char *parent, const char *id)
{
    char path[CGROUP_PATH_MAX];

    return snprintf(path, sizeof path, "%s/%s", parent, id) < (int)sizeof path
               ? cgroup_dir_open(top, path)
               : -1;
}

static bool open_in_parent(int top, const char *parent, void *user)
{
    struct group_search *s = user;

    s->found = open_group_below(top, parent, s->id);
    return s->found >= 0;
}

int cgroup_tree_open(const struct cgroup_host *h, int hierarchy, const char *id)
{
    int top = cgroup_tree_top(h, hierarchy), fd;
    struct group_search s = { .id = id, .found = -1 };
    char path[CGROUP_PATH_MAX];

    if (top < 0) {
        errno = ENOENT;
        return -1;
    }
    flat_path(h, id, path);
    fd = cgroup_dir_open(top, path);
    if (fd >= 0 || !h->tag[0])
        return fd;
    base_path(h, path);
    fd = open_group_below(top, path, id);
    if (fd >= 0)
        return fd;
    each_group(top, path, open_in_parent, &s);
    if (s.found < 0)
        errno = ENOENT;
    return s.found;
}

/* removing */

static bool remove_group(int top, const char *path)
{
    for (int i = 0; i < REMOVE_TRIES; i++) {
        if (unlinkat(top, path, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return true;
        if (errno != EBUSY)
            return false;
        poll(NULL, 0, REMOVE_WAIT_MS);
    }
    return false;
}

static bool remove_in_parent(int top, const char *parent, void *user)
{
    struct group_search *s = user;
    char path[CGROUP_PATH_MAX];

    if (snprintf(path, sizeof path, "%s/%s", parent, s->id) < (int)sizeof path)
        s->stayed = !remove_group(top, path) || s->stayed;
    return false;
}

bool cgroup_tree_remove(const struct cgroup_host *h, int hierarchy, const char *id)
{
    int top = cgroup_tree_top(h, hierarchy);
    struct group_search s = { .id = id };
    char path[CGROUP_PATH_MAX];

    if (top < 0)
        return true;
    flat_path(h, id, path);
    s.stayed = !remove_group(top, path);
    if (h->tag[0]) {
        path_below(h, "", id, path);
        s.stayed = !remove_group(top, path) || s.stayed;
        base_path(h, path);
        each_group(top, path, remove_in_parent, &s);
    }
    return !s.stayed;
}

/* sweeping */

/* False: a launcher holds it for a process that is about to join it (hold_group()), and will remove
 * it later. Another one that just tries to remove it has found it in use perhaps, by what has left
 * since: it is waited for. */
static bool lock_unheld(int dir)
{
    for (int i = 0; i < HOLD_TRIES; i++) {
        if (flock(dir, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (flock(dir, LOCK_SH | LOCK_NB) == 0)
            return false;
        poll(NULL, 0, HOLD_WAIT_MS);
    }
    return false;
}

/* The kernel refuses to remove a group with processes or children. */
static void remove_unheld(int top, const char *path)
{
    AUTO_CLOSE int dir = cgroup_dir_open(top, path);

    if (dir >= 0 && lock_unheld(dir))
        (void)unlinkat(top, path, AT_REMOVEDIR);
}

static bool remove_if_empty(int top, const char *path, void *user)
{
    if (!is_sandbox_name(strrchr(path, '/') + 1))
        remove_unheld(top, path);
    return false;
}

void cgroup_tidy(const struct cgroup_host *h)
{
    char base[CGROUP_PATH_MAX];

    if (!h->tag[0])
        return;
    base_path(h, base);
    for (int i = 0; i <= CGROUP_V2_; i++) {
        int top = cgroup_tree_top(h, i);

        if (top < 0)
            continue;
        each_group(top, base, remove_if_empty, NULL);
        remove_unheld(top, base);
    }
}

/* A live sandbox's groups contain its PID 1 from a moment after their creation. */
static bool is_stale(int top, const char *path)
{
    struct stat st;

    return fstatat(top, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_mtim.tv_sec + STALE_SECONDS < time(NULL);
}

static bool sweep_sandbox(int top, const char *path, void *user)
{
    if (is_sandbox_name(strrchr(path, '/') + 1) && is_stale(top, path))
        (void)unlinkat(top, path, AT_REMOVEDIR);
    return false;
}

static bool sweep_owner(int top, const char *path, void *user)
{
    if (is_sandbox_name(strrchr(path, '/') + 1))
        return sweep_sandbox(top, path, user);
    each_group(top, path, sweep_sandbox, NULL);
    if (is_stale(top, path))
        remove_unheld(top, path);
    return false;
}

static bool sweep_top(int top, const char *path, void *user)
{
    const char *name = strrchr(path, '/') + 1;

    if (is_base_name(name))
        each_group(top, path, sweep_owner, NULL);
    if ((is_base_name(name) || is_flat_name(name)) && is_stale(top, path))
        remove_unheld(top, path);
    return false;
}

void cgroup_sweep(const struct cgroup_host *h)
{
    for (int i = 0; i <= CGROUP_V2_; i++)
        each_group(cgroup_tree_top(h, i), ".", sweep_top, NULL);
}
