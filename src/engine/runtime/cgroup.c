/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "engine/runtime/cgroup_file.h"
#include "engine/runtime/cgroup_limits.h"
#include "engine/runtime/cgroup_tree.h"

enum { FREEZE_MS = 2000 };

void cgroup_init(struct cgroup *c)
{
    *c = (struct cgroup){ .unified = -1, .procs = -1, .kills = -1, .cpu = -1 };
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        c->tasks[i] = c->held[i] = -1;
}

static bool limit_wanted(const struct cgroup_limits *l, int controller)
{
    return controller == CGROUP_MEMORY ? l->memory != 0
           : controller == CGROUP_PIDS ? l->pids != 0
                                       : l->cpu_milli != 0;
}

static bool is_on_v2(const struct cgroup_host *h, int controller)
{
    return h->unified_has & (1u << controller);
}

static bool is_on_v1(const struct cgroup_host *h, int controller)
{
    return !is_on_v2(h, controller) && h->legacy[controller] >= 0;
}

static int open_tasks(int dir, int *ret, struct err *e)
{
    *ret = openat(dir, "tasks", O_WRONLY | O_CLOEXEC);
    return *ret < 0 ? err_sys(e, "opening the tasks of a cgroup") : 0;
}

static const char *kills_file(bool v2)
{
    return v2 ? "memory.events" : "memory.oom_control";
}

/* Without the file, kills are counted only when the group is removed. */
static void open_kills(int dir, bool v2, struct cgroup *c)
{
    drop_fd(&c->kills);
    c->kills = openat(dir, kills_file(v2), O_RDONLY | O_CLOEXEC);
}

/* Every v2 group counts; in v1 the group of the cpu controller does if cpuacct is mounted with it.
 * Without either, PID 1 sums up the usage of its processes. */
static void open_cpu(int dir, bool v2, struct cgroup *c)
{
    if (c->cpu < 0)
        c->cpu = openat(dir, v2 ? "cpu.stat" : "cpuacct.usage", O_RDONLY | O_CLOEXEC);
}

/* --- sandboxes with a known owner, or none --- */

int cgroup_make(struct cgroup_host *h, const char *id, const struct cgroup_owner *owner,
                struct cgroup *ret, struct err *e)
{
    char path[CGROUP_PATH_MAX];
    int r = owner ? cgroup_tree_refresh(h, owner, e) : 0;

    cgroup_init(ret);
    if (r < 0)
        return r;
    ret->made = true;
    cgroup_tree_path(h, CGROUP_V2_, id, owner ? owner->key : NULL, path);
    return h->unified >= 0 ? cgroup_tree_make(h, CGROUP_V2_, path, owner, &ret->unified, e) : 0;
}

static int make_legacy(struct cgroup_host *h, int controller, const char *id,
                       const struct cgroup_owner *owner, const struct cgroup_limits *limits,
                       struct cgroup *g, struct err *e)
{
    struct cgroup_setting s[CGROUP_SETTINGS_MAX];
    char path[CGROUP_PATH_MAX];
    AUTO_CLOSE int dir = -1;
    int r;

    cgroup_tree_path(h, controller, id, owner ? owner->key : NULL, path);
    r = cgroup_tree_make(h, controller, path, owner, &dir, e);
    if (r >= 0 && limit_wanted(limits, controller))
        r = cgroup_settings_apply(dir, s, cgroup_settings_v1(controller, limits, s), e);
    if (r >= 0 && controller == CGROUP_MEMORY)
        open_kills(dir, false, g);
    if (r >= 0 && controller == CGROUP_CPU)
        open_cpu(dir, false, g);
    return r < 0 ? r : open_tasks(dir, &g->tasks[controller], e);
}

/* In v1, a group cannot have a larger cpu quota than its parent. */
static struct cgroup_limits within_owner(const struct cgroup_limits *l,
                                         const struct cgroup_owner *owner)
{
    struct cgroup_limits ret = *l;

    if (owner && owner->cpu_milli && ret.cpu_milli > owner->cpu_milli)
        ret.cpu_milli = owner->cpu_milli;
    return ret;
}

static unsigned missing_limits(const struct cgroup_host *h, const struct cgroup_limits *l)
{
    unsigned missing = 0;

    for (int i = 0; i <= CGROUP_CPU; i++)
        if (limit_wanted(l, i) && !is_on_v2(h, i) && !is_on_v1(h, i))
            missing |= 1u << i;
    return missing;
}

/* An owner's group counts all its descendants: so a sandbox of an owner has a group for each
 * controller, even without a limit of its own. */
static int limit_legacy(struct cgroup_host *h, const char *id, const struct cgroup_owner *owner,
                        const struct cgroup_limits *limits, struct cgroup *c, struct err *e)
{
    int r = 0;

    for (int i = 0; i <= CGROUP_CPU && r >= 0; i++)
        if (is_on_v1(h, i) && (owner || limit_wanted(limits, i)))
            r = make_legacy(h, i, id, owner, limits, c, e);
    return r;
}

static int limit_unified(const struct cgroup_host *h, const struct cgroup_limits *limits,
                         struct cgroup *c, struct err *e)
{
    struct cgroup_setting s[CGROUP_SETTINGS_MAX];
    int r = 0;

    for (int i = 0; i <= CGROUP_CPU && r >= 0; i++)
        if (is_on_v2(h, i) && limit_wanted(limits, i))
            r = cgroup_settings_apply(c->unified, s, cgroup_settings_v2(i, limits, s), e);
    if (r >= 0 && is_on_v2(h, CGROUP_MEMORY))
        open_kills(c->unified, true, c);
    if (r >= 0 && c->unified >= 0)
        open_cpu(c->unified, true, c);
    return r;
}

/* All sandboxes of a daemon share one group; in v2 its limit is set when it is made. Without a
 * daemon the limit is set for each sandbox. */
static int limit_huge_pages(struct cgroup_host *h, const char *id, struct cgroup *c, struct err *e)
{
    char path[CGROUP_PATH_MAX];
    int *dir = &c->held[CGROUP_HUGETLB], r;

    if (is_on_v2(h, CGROUP_HUGETLB) && !h->tag[0])
        cgroup_forbid_huge_pages(c->unified);
    if (!is_on_v1(h, CGROUP_HUGETLB))
        return 0;
    cgroup_tree_path(h, CGROUP_HUGETLB, id, NULL, path);
    r = h->tag[0] ? cgroup_tree_make_shared(h, CGROUP_HUGETLB, NULL, dir, e)
                  : cgroup_tree_make(h, CGROUP_HUGETLB, path, NULL, dir, e);
    if (r < 0)
        return r;
    cgroup_forbid_huge_pages(*dir);
    return open_tasks(*dir, &c->tasks[CGROUP_HUGETLB], e);
}

int cgroup_limit(struct cgroup_host *h, const char *id, const struct cgroup_owner *owner,
                 const struct cgroup_limits *limits, struct cgroup *c, unsigned *ret_missing,
                 struct err *e)
{
    struct cgroup_limits own = within_owner(limits, owner);
    int r = limit_unified(h, &own, c, e);

    if (r >= 0)
        r = limit_legacy(h, id, owner, &own, c, e);
    if (r >= 0)
        r = limit_huge_pages(h, id, c, e);
    if (r >= 0)
        *ret_missing = missing_limits(h, limits);
    return r;
}

/* --- prepared --- */

int cgroup_make_prepared(struct cgroup_host *h, const char *id, struct cgroup *ret, struct err *e)
{
    static const struct cgroup_owner none;
    char path[CGROUP_PATH_MAX];

    cgroup_init(ret);
    ret->made = true;
    if (h->unified < 0)
        return 0;
    if (cgroup_tree_v2_limits(h)) {
        cgroup_tree_pool_path(h, path);
        return cgroup_tree_make_shared(h, CGROUP_V2_, path, &ret->unified, e);
    }
    cgroup_tree_path(h, CGROUP_V2_, id, none.key, path);
    return cgroup_tree_make(h, CGROUP_V2_, path, &none, &ret->unified, e);
}

int cgroup_limit_prepared(struct cgroup_host *h, const char *id, const struct cgroup_limits *limits,
                          struct cgroup *c, unsigned *ret_missing, struct err *e)
{
    char path[CGROUP_PATH_MAX];
    int r = limit_huge_pages(h, id, c, e);

    if (c->unified >= 0 && !cgroup_tree_v2_limits(h)) /* it has its own group already */
        open_cpu(c->unified, true, c);
    cgroup_tree_pool_path(h, path);
    for (int i = 0; i <= CGROUP_CPU && r >= 0; i++) {
        if (!is_on_v1(h, i))
            continue;
        r = cgroup_tree_make_shared(h, i, path, &c->held[i], e);
        if (r >= 0)
            r = open_tasks(c->held[i], &c->tasks[i], e);
    }
    if (r >= 0)
        *ret_missing = missing_limits(h, limits);
    return r;
}

int cgroup_assign(struct cgroup_host *h, const char *id, const struct cgroup_owner *owner,
                  const struct cgroup_limits *limits, struct cgroup *ret, struct err *e)
{
    struct cgroup_limits own = within_owner(limits, owner);
    int r;

    cgroup_init(ret);
    if (cgroup_tree_v2_limits(h)) {
        r = cgroup_make(h, id, owner, ret, e);
        if (r >= 0)
            r = limit_unified(h, &own, ret, e);
        if (r >= 0 && (ret->procs = openat(ret->unified, "cgroup.procs", O_WRONLY | O_CLOEXEC)) < 0)
            r = err_sys(e, "opening the processes of a cgroup");
    } else {
        r = cgroup_tree_refresh(h, owner, e); /* its v2 group is not inside the owner's */
    }
    ret->made = true;
    return r < 0 ? r : limit_legacy(h, id, owner, &own, ret, e);
}

/* --- use --- */

int cgroup_join(const struct cgroup *c, struct err *e)
{
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        if (c->tasks[i] >= 0 && write(c->tasks[i], "0", 1) != 1)
            return err_sys(e, "joining the %s cgroup", cgroup_controller_names[i]);
    return 0;
}

void cgroup_kill(const struct cgroup_host *h, const char *id)
{
    AUTO_CLOSE int dir = cgroup_tree_open(h, CGROUP_V2_, id);

    if (dir >= 0)
        (void)cgroup_file_write(dir, "cgroup.kill", "1");
}

/* Reads the number after `key` in a file of "key number" lines, or the only number if key is
 * NULL. */
static uint64_t read_cgroup_number(int dir, const char *file, const char *key)
{
    char text[2048];
    struct str rest, line, word;
    uint64_t v = 0;

    if (!cgroup_file_read(dir, file, text, sizeof text))
        return 0;
    for (rest = str_from(text); rest.n;) {
        rest = str_cut(rest, '\n', &line);
        if (!key)
            return str_to_u64(line, &v) ? v : 0;
        line = str_cut(line, ' ', &word);
        if (str_eq(word, str_from(key)))
            return str_to_u64(line, &v) ? v : 0;
    }
    return 0;
}

/* The file signals changes by POLLPRI. */
static bool wait_frozen(int dir)
{
    AUTO_CLOSE int events = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
    int64_t end = clock_mono() + FREEZE_MS * NS_PER_MS;
    struct pollfd changed = { .fd = events, .events = POLLPRI };

    while (events >= 0) {
        char text[256];
        ssize_t n = pread(events, text, sizeof text - 1, 0);

        if (n <= 0)
            return false;
        text[n] = '\0';
        if (strstr(text, "frozen 1"))
            return true;
        if (clock_mono() >= end)
            return false;
        poll(&changed, 1, clock_poll_ms(end));
    }
    return false;
}

int cgroup_freeze(const struct cgroup_host *h, const char *id, bool on, struct err *e)
{
    AUTO_CLOSE int dir = -1;

    if (h->unified < 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "cannot freeze: this machine has no writable cgroup v2 hierarchy");
    dir = cgroup_tree_open(h, CGROUP_V2_, id);
    if (dir < 0 && errno == ENOENT && !on)
        return 0;
    if (dir < 0)
        return err_sys(e, "opening the control group of %s", id);
    if (cgroup_file_write(dir, "cgroup.freeze", on ? "1" : "0") < 0)
        return err_sys(e, "%s %s", on ? "freezing" : "thawing", id);
    if (!on || wait_frozen(dir))
        return 0;
    (void)cgroup_file_write(dir, "cgroup.freeze", "0");
    return err_set(e, ERR_TIMEOUT, "%s could not be frozen within %d ms", id, FREEZE_MS);
}

void cgroup_read(const struct cgroup_host *h, const char *id, struct cgroup_usage *ret)
{
    bool v2 = is_on_v2(h, CGROUP_MEMORY);
    AUTO_CLOSE int dir = cgroup_tree_open(h, v2 ? CGROUP_V2_ : CGROUP_MEMORY, id);

    *ret = (struct cgroup_usage){ 0 };
    if (dir < 0)
        return;
    ret->oom_kills = (uint32_t)read_cgroup_number(dir, kills_file(v2), "oom_kill");
    ret->peak_bytes =
        (int64_t)read_cgroup_number(dir, v2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL);
}

int cgroup_remove(const struct cgroup_host *h, const char *id)
{
    int stayed = 0;

    for (int i = 0; i <= CGROUP_V2_; i++)
        stayed += !cgroup_tree_remove(h, i, id);
    return stayed;
}

void cgroup_close(struct cgroup *c)
{
    drop_fd(&c->unified);
    drop_fd(&c->procs);
    drop_fd(&c->kills);
    drop_fd(&c->cpu);
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++) {
        drop_fd(&c->tasks[i]);
        drop_fd(&c->held[i]);
    }
}
