/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the cgroup hierarchies of this machine, and the places in them where groups can be made. */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "engine/runtime/cgroup_file.h"
#include "engine/runtime/cgroup_limits.h"

enum { PATH_BYTES = 512 };

const char *const cgroup_controller_names[] = { "memory", "pids", "cpu", "hugetlb", "io" };

static bool has_controller_word(const char *list, const char *word)
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

    if (!cgroup_file_read(dir, file, list, sizeof list))
        return 0;
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        if (has_controller_word(list, cgroup_controller_names[i]))
            has |= 1u << i;
    return has;
}

/* Whether `dir` can enable controllers for its children: it has no processes of its own, or it is
 * the root of the hierarchy, the only one without cgroup.type. The kernel refuses memory otherwise,
 * but not pids and cpu: those would turn `dir` into a threaded domain, in which no process can be
 * started. */
static bool may_pass_on(int dir)
{
    char text[64];

    return faccessat(dir, "cgroup.type", F_OK, 0) < 0 ||
           (cgroup_file_read(dir, "cgroup.procs", text, sizeof text) && !text[0]);
}

/* Enables controllers of the parent for our groups. Where that fails, the limit is reported as
 * missing. */
unsigned cgroup_enable_controllers(int dir)
{
    unsigned all = may_pass_on(dir) ? controllers_in(dir, "cgroup.controllers") : 0;
    unsigned on = controllers_in(dir, "cgroup.subtree_control");

    if ((all & ~on) == 0)
        return on;
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++) {
        char word[16];

        if (!(all & ~on & (1u << i)))
            continue;
        snprintf(word, sizeof word, "+%s", cgroup_controller_names[i]);
        (void)cgroup_file_write(dir, "cgroup.subtree_control", word);
    }
    return controllers_in(dir, "cgroup.subtree_control");
}

/* Reads the path of our own v2 group from the line "0::/…" of /proc/self/cgroup. */
static bool read_own_group(char *out, size_t cap)
{
    char text[4096];
    struct str rest, line;

    if (!cgroup_file_read(AT_FDCWD, "/proc/self/cgroup", text, sizeof text))
        return false;
    for (rest = str_from(text); rest.n;) {
        rest = str_cut(rest, '\n', &line);
        if (str_starts(line, STR("0::/")))
            return str_copy((struct str){ line.p + 4, line.n - 4 }, out, cap);
    }
    return false;
}

/* Finds the part of the tree that is delegated to a plain user: the highest directory above our own
 * group in which groups can be made and processes moved. */
static int delegated_dir(int top)
{
    char path[PATH_BYTES];
    int best = -1;

    if (!read_own_group(path, sizeof path))
        return -1;
    for (char *end = path + strlen(path); path[0]; end = strrchr(path, '/')) {
        int dir;

        if (!end)
            break;
        *end = '\0';
        dir = path[0] ? cgroup_dir_open(top, path) : -1;
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

static bool is_filesystem(int fd, long magic)
{
    struct statfs fs;

    return fd >= 0 && fstatfs(fd, &fs) == 0 && (long)fs.f_type == magic;
}

/* False for a threaded domain, whose groups take no processes. */
static bool takes_processes(int dir)
{
    char type[32];

    return !cgroup_file_read(dir, "cgroup.type", type, sizeof type) ||
           str_eq(str_trim(str_from(type)), STR("domain"));
}

static void open_unified(struct cgroup_host *h, int top)
{
    int dir = geteuid() == 0 ? fcntl(top, F_DUPFD_CLOEXEC, 0) : delegated_dir(top);

    /* In containers the tree is often mounted read-only. */
    if (dir < 0 || faccessat(dir, ".", W_OK, AT_EACCESS) < 0 || !takes_processes(dir)) {
        drop_fd(&dir);
        return;
    }
    h->unified = dir;
    h->unified_has = cgroup_enable_controllers(dir);
}

bool cgroup_tag_valid(const char *tag)
{
    size_t n = strspn(tag, "abcdefghijklmnopqrstuvwxyz0123456789.");

    return n > 0 && n < CGROUP_TAG_MAX && !tag[n];
}

void cgroup_host_open(struct cgroup_host *h, const char *root_path, const char *tag)
{
    AUTO_CLOSE int root = cgroup_dir_open(AT_FDCWD, root_path);
    AUTO_CLOSE int unified = -1;

    *h = (struct cgroup_host){ .unified = -1 };
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        h->legacy[i] = -1;
    snprintf(h->tag, sizeof h->tag, "%s", tag ? tag : "");
    if (root < 0)
        return;
    if (is_filesystem(root, CGROUP2_SUPER_MAGIC)) {
        open_unified(h, root);
        return;
    }
    unified = cgroup_dir_open(root, "unified");
    if (is_filesystem(unified, CGROUP2_SUPER_MAGIC))
        open_unified(h, unified);
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++) {
        int dir = cgroup_dir_open(root, cgroup_controller_names[i]);

        if (dir >= 0 && faccessat(dir, ".", W_OK, AT_EACCESS) == 0)
            h->legacy[i] = dir;
        else
            drop_fd(&dir);
    }
}

/* I/O limits apply to whole disks: finds the disk of a partition. */
void cgroup_host_disk(struct cgroup_host *h, const char *path)
{
    char file[64], text[32];
    struct stat st;
    struct str rest, first;
    uint64_t whole[2];

    if (stat(path, &st) < 0 || major(st.st_dev) == 0) /* not on a block device */
        return;
    snprintf(file, sizeof file, "/sys/dev/block/%u:%u/partition", major(st.st_dev),
             minor(st.st_dev));
    snprintf(h->disk, sizeof h->disk, "%u:%u", major(st.st_dev), minor(st.st_dev));
    if (access(file, F_OK) < 0)
        return;
    snprintf(file, sizeof file, "/sys/dev/block/%u:%u/../dev", major(st.st_dev), minor(st.st_dev));
    h->disk[0] = '\0';
    if (!cgroup_file_read(AT_FDCWD, file, text, sizeof text))
        return;
    text[strcspn(text, "\n")] = '\0';
    rest = str_cut(str_from(text), ':', &first);
    if (str_to_u64(first, &whole[0]) && str_to_u64(rest, &whole[1]))
        snprintf(h->disk, sizeof h->disk, "%u:%u", (unsigned)whole[0], (unsigned)whole[1]);
}

void cgroup_host_done(struct cgroup_host *h)
{
    drop_fd(&h->unified);
    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        drop_fd(&h->legacy[i]);
}
