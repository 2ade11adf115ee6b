/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/proc/caps.h"
#include "lib/proc/idmap.h"
#include "engine/runtime/plan.h"

/* Ranges are above all ids that Debian, systemd or container tools allocate, and below the 32-bit
 * sign bit, which some programs cannot handle. */
enum { RANGE_FIRST = 0x40000000, RANGE_COUNT = 0x3f00, OWN_PROCESSES = 4, STACK_BYTES = 16384 };

static const char lock_dir[] = "/run/sandboxer";
static const char lock_file[] = "/run/sandboxer/id-ranges";

/* The directory also holds the daemon's socket, which `socket.mode` may open to other users: so
 * they may enter it, independent of our umask. */
static int make_lock_dir(struct err *e)
{
    if (mkdir(lock_dir, 0755) < 0)
        return errno == EEXIST ? 0 : err_sys(e, "creating %s", lock_dir);
    return chmod(lock_dir, 0755) == 0 ? 0
                                      : err_sys(e, "making %s accessible to other users", lock_dir);
}

/* A range belongs to the processes that hold the lock of its byte; the kernel releases it when the
 * last of them exits. */
static int take_range(uint32_t *ret_first, int *ret_lock, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
    uint32_t start = (uint32_t)getpid();
    int r = make_lock_dir(e);

    if (r < 0)
        return r;
    fd = openat(AT_FDCWD, lock_file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(e, "opening %s", lock_file);
    for (uint32_t i = 0; i < RANGE_COUNT; i++) {
        uint32_t slot = (start + i) % RANGE_COUNT;

        lock.l_start = slot;
        if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
            *ret_first = RANGE_FIRST + slot * PLAN_IDS;
            *ret_lock = take_fd(&fd);
            return 0;
        }
    }
    return err_set(e, ERR_BUSY, "all %d id ranges are taken by live sandboxes", RANGE_COUNT);
}

/* Ends with the launcher, even if that was killed before prctl() took effect. */
static int hold_namespace(void *launcher)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == *(const pid_t *)launcher)
        pause();
    return 0;
}

/* The kernel charges resources of a namespace (inotify instances, pending signals, locked memory,
 * …) also to its creator. Created as the sandbox's own root, which no other sandbox shares, a
 * namespace cannot exhaust the limits of all sandboxes and of the host's root. */
static int become_ourselves(uint32_t uid, struct err *e)
{
    return uid == 0 || seteuid(0) == 0 ? 0 : err_sys(e, "switching back to root");
}

static int become_maker(uint32_t uid, struct err *e)
{
    int r;

    if (uid == 0)
        return 0;
    if (seteuid(uid) < 0)
        return err_sys(e, "switching to user %u", uid);
    r = caps_set(UINT64_MAX, 0, e);
    if (r < 0)
        become_ourselves(uid, NULL);
    return r;
}

/* Starts a process that keeps a new user namespace alive while its maps are written. It shares our
 * memory, so creating it copies no page tables. */
static pid_t start_holder(void)
{
    static char alignas(16) stack[STACK_BYTES];
    static pid_t launcher;

    launcher = getpid();
    return clone(hold_namespace, stack + sizeof stack, CLONE_NEWUSER | CLONE_VM | SIGCHLD,
                 &launcher);
}

/* The ids of a user namespace, for users and for groups. */
struct userns_ids {
    uint32_t inside[2], outside[2], count;
};

static int map_holder(pid_t pid, const struct userns_ids *ids, int *ret, struct err *e)
{
    char path[64];

    for (int i = 0; i < 2; i++) {
        int r;

        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, i ? "gid_map" : "uid_map");
        r = idmap_write(path, ids->inside[i], ids->outside[i], ids->count, e);
        if (r < 0)
            return r;
    }
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    *ret = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    return *ret < 0 ? err_sys(e, "opening %s", path) : 0;
}

static int make_userns(uint32_t maker, const struct userns_ids *ids, int *ret, struct err *e)
{
    pid_t pid;
    int saved, r = become_maker(maker, e);

    if (r < 0)
        return r;
    pid = start_holder();
    saved = errno;
    r = become_ourselves(maker, e);
    errno = saved;
    if (pid < 0 && (errno == EPERM || errno == ENOSPC))
        return err_set(
            e, ERR_UNSUPPORTED,
            "creating a user namespace: not permitted here (does not work in a chroot; check the "
            "sysctls user.max_user_namespaces and kernel.unprivileged_userns_clone)");
    if (pid < 0)
        return err_sys(e, "creating a user namespace");
    if (r >= 0)
        r = map_holder(pid, ids, ret, e);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return r;
}

/* The kernel takes the creator's RLIMIT_NPROC as the limit of the new namespace, but compares it
 * with all processes of the creator, including those of its other sandboxes. */
static int make_limited_userns(const struct userns_ids *ids, uint32_t pids, int *ret, struct err *e)
{
    struct rlimit old, low;
    int r;

    if (getrlimit(RLIMIT_NPROC, &old) < 0)
        return err_sys(e, "reading RLIMIT_NPROC");
    low = old;
    if (pids && (low.rlim_cur == RLIM_INFINITY || low.rlim_cur > pids + OWN_PROCESSES))
        low.rlim_cur = pids + OWN_PROCESSES;
    setrlimit(RLIMIT_NPROC, &low);
    r = make_userns(0, ids, ret, e);
    setrlimit(RLIMIT_NPROC, &old);
    return r;
}

int identity_take(enum identity_supply supply, struct sandbox_identity *ret, struct err *e)
{
    *ret = (struct sandbox_identity){ .range_lock = -1, .userns = -1 };
    return supply == IDENTITY_RANGES ? take_range(&ret->first, &ret->range_lock, e) : 0;
}

int identity_map(enum identity_supply supply, const struct identity_want *want,
                 struct sandbox_identity *i, struct err *e)
{
    const struct userns_ids range = { .outside = { i->first, i->first }, .count = PLAN_IDS },
                            one = { .inside = { want->uid, want->gid }, .count = 1 };

    switch (supply) {
    case IDENTITY_RANGES:
        return make_userns(i->first, &range, &i->userns, e);
    case IDENTITY_MANY:
        return make_limited_userns(&range, want->pids, &i->userns, e);
    default:
        return make_userns(0, &one, &i->userns, e);
    }
}

/* The kernel reads the map of a mount from the disk to the machine: `inside` of the namespace are
 * the ids on disk. */
int identity_map_client(const struct sandbox_identity *i, const uint32_t disk[2],
                        const uint32_t inside[2], int *ret, struct err *e)
{
    const struct userns_ids one = { .inside = { disk[0], disk[1] },
                                    .outside = { i->first + inside[0], i->first + inside[1] },
                                    .count = 1 };

    return make_userns(i->first, &one, ret, e);
}

void identity_done(struct sandbox_identity *i)
{
    drop_fd(&i->range_lock);
    drop_fd(&i->userns);
}

int identity_become_outer_root(enum identity_supply *ret, struct err *e)
{
    bool many = false;
    int r = idmap_become_root(&many, e);

    *ret = many ? IDENTITY_MANY : IDENTITY_ONE;
    return r;
}
