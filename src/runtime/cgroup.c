#include "runtime/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"

enum {
    CPU_PERIOD_US = 100000,
    REMOVE_TRIES = 200,
    REMOVE_WAIT_MS = 10,
    FREEZE_MS = 2000,
    SETTINGS_MAX = 3,
    STALE_SECONDS = 60,
    PATH_BYTES = 512
};

static const char *const controller_names[] = { "memory", "pids", "cpu" };

static int open_dir(int at, const char *path)
{
    return openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool read_file(int dir, const char *name, char *out, size_t cap)
{
    AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, cap - 1);

    if (n < 0)
        return false;
    out[n] = '\0';
    return true;
}

static int write_file(int dir, const char *name, const char *value)
{
    AUTO_CLOSE int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

    return fd < 0 || write(fd, value, strlen(value)) < 0 ? -1 : 0;
}

static bool has_word(const char *list, const char *word)
{
    struct str rest = str_trim(str_from(list)), w;

    while (rest.n) {
        rest = str_cut(rest, ' ', &w);
        if (str_eq(w, str_from(word)))
            return true;
    }
    return false;
}

static unsigned controllers_in(int dir, const char *file)
{
    char list[256];
    unsigned has = 0;

    if (!read_file(dir, file, list, sizeof list))
        return 0;
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        if (has_word(list, controller_names[i]))
            has |= 1u << i;
    return has;
}

/* Whether `dir` can pass controllers on to groups in it: it has no processes of its own, or it is
 * the root of the hierarchy, which alone has no type. The kernel refuses memory otherwise, but not
 * pids and cpu: those would turn `dir` into a domain of threads, in which no process can be
 * started. */
static bool may_pass_on(int dir)
{
    char text[64];

    return faccessat(dir, "cgroup.type", F_OK, 0) < 0 ||
           (read_file(dir, "cgroup.procs", text, sizeof text) && !text[0]);
}

/* Turns on for our groups what the parent has and does not pass on yet. Where that cannot be, the
 * limit counts as missing. */
static unsigned enable_controllers(int dir)
{
    unsigned all = may_pass_on(dir) ? controllers_in(dir, "cgroup.controllers") : 0;

    for (int i = 0; i < CGROUP_CONTROLLERS_; i++) {
        char word[16];

        if (!(all & (1u << i)) || (controllers_in(dir, "cgroup.subtree_control") & (1u << i)))
            continue;
        snprintf(word, sizeof word, "+%s", controller_names[i]);
        (void)write_file(dir, "cgroup.subtree_control", word);
    }
    return controllers_in(dir, "cgroup.subtree_control");
}

/* The path of our own v2 group, from the line "0::/…" of /proc/self/cgroup. */
static bool own_group(char *out, size_t cap)
{
    char text[4096];
    struct str rest, line;

    if (!read_file(AT_FDCWD, "/proc/self/cgroup", text, sizeof text))
        return false;
    for (rest = str_from(text); rest.n;) {
        rest = str_cut(rest, '\n', &line);
        if (str_starts(line, STR("0::/")))
            return str_copy((struct str){ line.p + 4, line.n - 4 }, out, cap);
    }
    return false;
}

/* A plain user may have been given a part of the tree: the highest directory above our own group in
 * which we may make groups and move ourselves. */
static int delegated_dir(int top)
{
    char path[PATH_BYTES];
    int best = -1;

    if (!own_group(path, sizeof path))
        return -1;
    for (char *end = path + strlen(path); path[0]; end = strrchr(path, '/')) {
        int dir;

        if (!end)
            break;
        *end = '\0';
        dir = path[0] ? open_dir(top, path) : -1;
        if (dir < 0 || faccessat(dir, ".", W_OK, 0) < 0 ||
            faccessat(dir, "cgroup.procs", W_OK, 0) < 0) {
            drop_fd(&dir);
            break;
        }
        drop_fd(&best);
        best = dir;
    }
    return best;
}

static bool is_fs(int fd, long magic)
{
    struct statfs fs;

    return fd >= 0 && fstatfs(fd, &fs) == 0 && (long)fs.f_type == magic;
}

/* Groups in a domain of threads, which somebody else may have made of it, take no processes. */
static bool takes_processes(int dir)
{
    char type[32];

    return !read_file(dir, "cgroup.type", type, sizeof type) ||
           str_eq(str_trim(str_from(type)), STR("domain"));
}

static void open_unified(struct cgroup_host *h, int top)
{
    int dir = geteuid() == 0 ? fcntl(top, F_DUPFD_CLOEXEC, 0) : delegated_dir(top);

    /* Containers often show their root a tree that is mounted read-only. */
    if (dir < 0 || faccessat(dir, ".", W_OK, AT_EACCESS) < 0 || !takes_processes(dir)) {
        drop_fd(&dir);
        return;
    }
    h->unified = dir;
    h->unified_has = enable_controllers(dir);
}

bool cgroup_tag_valid(const char *tag)
{
    size_t n = strspn(tag, "abcdefghijklmnopqrstuvwxyz0123456789.");

    return n > 0 && n < CGROUP_TAG_MAX && !tag[n];
}

void cgroup_host_open(struct cgroup_host *h, const char *root_path, const char *tag)
{
    AUTO_CLOSE int root = open_dir(AT_FDCWD, root_path);
    AUTO_CLOSE int unified = -1;

    *h = (struct cgroup_host){ .unified = -1, .legacy = { -1, -1, -1 } };
    snprintf(h->tag, sizeof h->tag, "%s", tag ? tag : "");
    if (root < 0)
        return;
    if (is_fs(root, CGROUP2_SUPER_MAGIC)) {
        open_unified(h, root);
        return;
    }
    unified = open_dir(root, "unified");
    if (is_fs(unified, CGROUP2_SUPER_MAGIC))
        open_unified(h, unified);
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++) {
        int dir = open_dir(root, controller_names[i]);

        if (dir >= 0 && faccessat(dir, ".", W_OK, AT_EACCESS) == 0)
            h->legacy[i] = dir;
        else
            drop_fd(&dir);
    }
}

void cgroup_host_done(struct cgroup_host *h)
{
    drop_fd(&h->unified);
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        drop_fd(&h->legacy[i]);
}

static void group_name(const struct cgroup_host *h, const char *id, char out[CGROUP_NAME_MAX])
{
    snprintf(out, CGROUP_NAME_MAX, "sandboxer-%s%s%s", h->tag, h->tag[0] ? "-" : "", id);
}

/* What group_name() writes, for any tag. */
static bool is_group_name(const char *name)
{
    const char *rest = strncmp(name, "sandboxer-", 10) == 0 ? name + 10 : "";
    const char *dash = strchr(rest, '-');

    return strncmp(dash ? dash + 1 : rest, "sbx_", 4) == 0;
}

/* One limit as the lines to write, per hierarchy version. */
struct setting {
    const char *file;
    char value[48];
    bool optional; /* not every kernel has the file */
};

static int settings_v1(enum cgroup_controller c, const struct cgroup_limits *l,
                       struct setting out[SETTINGS_MAX])
{
    switch (c) {
    case CGROUP_MEMORY:
        out[0] = (struct setting){ .file = "memory.limit_in_bytes" };
        out[1] = (struct setting){ .file = "memory.memsw.limit_in_bytes", .optional = true };
        snprintf(out[0].value, sizeof out[0].value, "%llu", (unsigned long long)l->memory);
        out[2] = (struct setting){ .file = "memory.kmem.tcp.limit_in_bytes", .optional = true };
        for (int i = 1; i < 3; i++)
            memcpy(out[i].value, out[0].value, sizeof out[i].value);
        return 3;
    case CGROUP_PIDS:
        out[0] = (struct setting){ .file = "pids.max" };
        snprintf(out[0].value, sizeof out[0].value, "%u", l->pids);
        return 1;
    default:
        out[0] = (struct setting){ .file = "cpu.cfs_period_us" };
        out[1] = (struct setting){ .file = "cpu.cfs_quota_us" };
        snprintf(out[0].value, sizeof out[0].value, "%d", CPU_PERIOD_US);
        snprintf(out[1].value, sizeof out[1].value, "%llu",
                 (unsigned long long)l->cpu_milli * CPU_PERIOD_US / 1000);
        return 2;
    }
}

static int settings_v2(enum cgroup_controller c, const struct cgroup_limits *l,
                       struct setting out[SETTINGS_MAX])
{
    switch (c) {
    case CGROUP_MEMORY:
        out[0] = (struct setting){ .file = "memory.max" };
        out[1] = (struct setting){ .file = "memory.swap.max", .value = "0", .optional = true };
        snprintf(out[0].value, sizeof out[0].value, "%llu", (unsigned long long)l->memory);
        return 2;
    case CGROUP_PIDS:
        out[0] = (struct setting){ .file = "pids.max" };
        snprintf(out[0].value, sizeof out[0].value, "%u", l->pids);
        return 1;
    default:
        out[0] = (struct setting){ .file = "cpu.max" };
        snprintf(out[0].value, sizeof out[0].value, "%llu %d",
                 (unsigned long long)l->cpu_milli * CPU_PERIOD_US / 1000, CPU_PERIOD_US);
        return 1;
    }
}

static int apply(int dir, const struct setting *s, int n, struct err *e)
{
    for (int i = 0; i < n; i++)
        if (write_file(dir, s[i].file, s[i].value) < 0 && !s[i].optional)
            return err_sys(e, "setting %s to %s", s[i].file, s[i].value);
    return 0;
}

static int make_group(int parent, const char *name, int *ret, struct err *e)
{
    if (mkdirat(parent, name, 0755) < 0)
        return err_sys(e, "making cgroup %s", name);
    *ret = open_dir(parent, name);
    return *ret < 0 ? err_sys(e, "opening cgroup %s", name) : 0;
}

static int make_legacy(const struct cgroup_host *h, enum cgroup_controller c,
                       const struct cgroup_limits *limits, struct cgroup *g, struct err *e)
{
    AUTO_CLOSE int dir = -1;
    struct setting s[SETTINGS_MAX];
    int r = make_group(h->legacy[c], g->name, &dir, e);

    if (r < 0)
        return r;
    r = apply(dir, s, settings_v1(c, limits, s), e);
    if (r < 0)
        return r;
    g->tasks[c] = openat(dir, "tasks", O_WRONLY | O_CLOEXEC);
    return g->tasks[c] < 0 ? err_sys(e, "opening tasks of cgroup %s", g->name) : 0;
}

static bool wanted(const struct cgroup_limits *l, enum cgroup_controller c)
{
    return c == CGROUP_MEMORY ? l->memory != 0
           : c == CGROUP_PIDS ? l->pids != 0
                              : l->cpu_milli != 0;
}

int cgroup_make(const struct cgroup_host *h, const char *id, struct cgroup *ret, struct err *e)
{
    *ret = (struct cgroup){ .unified = -1, .tasks = { -1, -1, -1 } };
    group_name(h, id, ret->name);
    return h->unified >= 0 ? make_group(h->unified, ret->name, &ret->unified, e) : 0;
}

int cgroup_limit(const struct cgroup_host *h, const struct cgroup_limits *limits, struct cgroup *c,
                 unsigned *ret_missing, struct err *e)
{
    struct setting s[SETTINGS_MAX];
    unsigned missing = 0;
    int r = 0;

    for (enum cgroup_controller i = 0; i < CGROUP_CONTROLLERS_ && r >= 0; i++) {
        if (!wanted(limits, i))
            continue;
        if (h->unified_has & (1u << i))
            r = apply(c->unified, s, settings_v2(i, limits, s), e);
        else if (h->legacy[i] >= 0)
            r = make_legacy(h, i, limits, c, e);
        else
            missing |= 1u << i;
    }
    if (r >= 0)
        *ret_missing = missing;
    return r;
}

int cgroup_join(const struct cgroup *c, struct err *e)
{
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        if (c->tasks[i] >= 0 && write(c->tasks[i], "0", 1) != 1)
            return err_sys(e, "joining the %s cgroup", controller_names[i]);
    return 0;
}

void cgroup_kill(const struct cgroup_host *h, const char *id)
{
    AUTO_CLOSE int dir = -1;
    char name[CGROUP_NAME_MAX];

    group_name(h, id, name);
    dir = h->unified >= 0 ? open_dir(h->unified, name) : -1;
    if (dir >= 0)
        (void)write_file(dir, "cgroup.kill", "1");
}

/* The number behind `key` in a file of "key number" lines, or of the number alone when key is NULL.
 */
static uint64_t read_number(int dir, const char *file, const char *key)
{
    char text[2048];
    struct str rest, line, word;
    uint64_t v = 0;

    if (!read_file(dir, file, text, sizeof text))
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

/* The file tells of its changes by an exceptional condition. */
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
    char name[CGROUP_NAME_MAX];

    if (h->unified < 0)
        return err_set(e, ERR_UNSUPPORTED, "there are no control groups that can be frozen");
    group_name(h, id, name);
    dir = open_dir(h->unified, name);
    if (dir < 0 && errno == ENOENT && !on)
        return 0;
    if (dir < 0)
        return err_sys(e, "opening the control group of %s", id);
    if (write_file(dir, "cgroup.freeze", on ? "1" : "0") < 0)
        return err_sys(e, "%s %s", on ? "freezing" : "thawing", id);
    if (!on || wait_frozen(dir))
        return 0;
    (void)write_file(dir, "cgroup.freeze", "0");
    return err_set(e, ERR_TIMEOUT, "%s does not stand still within %d ms", id, FREEZE_MS);
}

void cgroup_read(const struct cgroup_host *h, const char *id, struct cgroup_usage *ret)
{
    bool v2 = h->unified_has & (1u << CGROUP_MEMORY);
    int parent = v2 ? h->unified : h->legacy[CGROUP_MEMORY];
    AUTO_CLOSE int dir = -1;
    char name[CGROUP_NAME_MAX];

    *ret = (struct cgroup_usage){ 0 };
    group_name(h, id, name);
    dir = parent >= 0 ? open_dir(parent, name) : -1;
    if (dir < 0)
        return;
    ret->oom_kills =
        (uint32_t)read_number(dir, v2 ? "memory.events" : "memory.oom_control", "oom_kill");
    ret->peak_bytes =
        (int64_t)read_number(dir, v2 ? "memory.peak" : "memory.max_usage_in_bytes", NULL);
}

static bool remove_group(int parent, const char *name)
{
    if (parent < 0)
        return true;
    for (int i = 0; i < REMOVE_TRIES; i++) {
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return true;
        if (errno != EBUSY)
            return false;
        poll(NULL, 0, REMOVE_WAIT_MS);
    }
    return false;
}

int cgroup_remove(const struct cgroup_host *h, const char *id)
{
    char name[CGROUP_NAME_MAX];
    int stayed = 0;

    group_name(h, id, name);
    stayed += !remove_group(h->unified, name);
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        stayed += !remove_group(h->legacy[i], name);
    return stayed;
}

/* A live sandbox's groups hold its PID 1 from a moment after they are made, and the kernel does not
 * remove a group with processes in it. */
static void sweep_below(int parent)
{
    int copy = parent < 0 ? -1 : openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    time_t now = time(NULL);
    const struct dirent *d;
    struct stat st;

    if (!dir) {
        drop_fd(&copy);
        return;
    }
    while ((d = readdir(dir)))
        if (is_group_name(d->d_name) && fstatat(parent, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_mtim.tv_sec + STALE_SECONDS < now)
            (void)unlinkat(parent, d->d_name, AT_REMOVEDIR);
    closedir(dir);
}

void cgroup_sweep(const struct cgroup_host *h)
{
    sweep_below(h->unified);
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        sweep_below(h->legacy[i]);
}

void cgroup_close(struct cgroup *c)
{
    drop_fd(&c->unified);
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        drop_fd(&c->tasks[i]);
}
