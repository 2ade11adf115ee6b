/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/side_channels.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/proc/sys.h"
#include "engine/runtime/mounts.h"

/* Missing in the headers of one of the C libraries. */
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#ifndef PR_GET_SPECULATION_CTRL
#define PR_GET_SPECULATION_CTRL 52
#define PR_SET_SPECULATION_CTRL 53
#define PR_SPEC_STORE_BYPASS    0
#define PR_SPEC_INDIRECT_BRANCH 1
#define PR_SPEC_PRCTL           (1UL << 0)
#define PR_SPEC_ENABLE          (1UL << 1)
#define PR_SPEC_FORCE_DISABLE   (1UL << 3)
#endif
#ifndef PR_SCHED_CORE
#define PR_SCHED_CORE        62
#define PR_SCHED_CORE_GET    0
#define PR_SCHED_CORE_CREATE 1
#endif
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#define PR_GET_MEMORY_MERGE 68
#endif
enum { CORE_OF_PROCESS = 1 }; /* PR_SCHED_CORE_SCOPE_THREAD_GROUP */

/* --- the boot's id --- */

static const char boot_id_name[] = ".boot_id", boot_id_place[] = "proc/sys/kernel/random/boot_id";

/* A random UUID, of version 4. */
static int draw_uuid(char out[static 40], struct err *e)
{
    unsigned char u[16];

    if (getrandom(u, sizeof u, 0) != (ssize_t)sizeof u)
        return err_sys(e, "drawing a random number");
    u[6] = (unsigned char)((u[6] & 0x0f) | 0x40);
    u[8] = (unsigned char)((u[8] & 0x3f) | 0x80);
    snprintf(out, 40, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n",
             u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
             u[14], u[15]);
    return 0;
}

static int write_boot_id(const struct sandbox_build *b, struct err *e)
{
    AUTO_CLOSE int file = -1;
    char text[40];
    int r = draw_uuid(text, e);

    if (r < 0)
        return r;
    setfsgid(b->self);
    setfsuid(b->self);
    file = openat(b->storage, boot_id_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    setfsuid(0);
    setfsgid(0);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
        return err_sys(e, "writing a boot id");
    return 0;
}

int side_channels_boot_id(struct sandbox_build *b, struct err *e)
{
    AUTO_CLOSE int tree = -1;
    int r;

    if (faccessat(b->root, boot_id_place, F_OK, 0) < 0)
        return 0;
    r = write_boot_id(b, e);
    if (r >= 0)
        r = mounts_copy(b->storage, boot_id_name, &tree, e);
    if (r >= 0)
        r = mounts_restrict(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC, -1, e);
    if (r >= 0)
        r = mounts_attach(tree, b->root, boot_id_place, e);
    if (r >= 0 && unlinkat(b->storage, boot_id_name, 0) < 0)
        r = err_sys(e, "removing the name of the boot id");
    return r;
}

/* --- the clock --- */

/* The offsets make both clocks begin now. */
static int write_offsets(struct err *e)
{
    AUTO_CLOSE int file = -1;
    struct timespec mono, boot;
    char text[128];
    int n;

    /* Our own files in /proc belong to us only while we are dumpable. No other process is in this
     * pid namespace yet, and PID 1's program sets it again. */
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    file = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return err_sys(e, "opening the offsets of the clocks");
    clock_gettime(CLOCK_MONOTONIC, &mono);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    n = snprintf(text, sizeof text, "monotonic -%lld 0\nboottime -%lld 0\n", (long long)mono.tv_sec,
                 (long long)boot.tv_sec);
    if (write(file, text, (size_t)n) != n)
        return err_sys(e, "setting the offsets of the clocks");
    return 0;
}

int side_channels_clock(struct sandbox_build *b, struct err *e)
{
    AUTO_CLOSE int clock = -1;
    int r;

    if (!(b->plan->flags & PLAN_GUARDED))
        return 0;
    /* EINVAL: not supported by the kernel. ENOSPC: forbidden by user.max_time_namespaces. */
    if (unshare(CLONE_NEWTIME) < 0)
        return errno == EINVAL || errno == ENOSPC ? 0 : err_sys(e, "creating a time namespace");
    r = write_offsets(e);
    if (r < 0)
        return r;
    clock = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
    if (clock < 0 || setns(clock, CLONE_NEWTIME) < 0)
        return err_sys(e, "entering the time namespace");
    return 0;
}

/* --- memory, speculation, cores --- */

static int get_speculation(unsigned long which)
{
    int got = prctl(PR_GET_SPECULATION_CTRL, which, 0, 0, 0);

    return got < 0 ? -errno : got;
}

enum side_channel_state side_channel_of_speculation(int got)
{
    if (got < 0)
        return SIDE_CHANNEL_UNKNOWN;
    if (got == 0)
        return SIDE_CHANNEL_NONE;
    if ((unsigned long)got & PR_SPEC_PRCTL)
        return SIDE_CHANNEL_CLOSED;
    return (unsigned long)got & PR_SPEC_ENABLE ? SIDE_CHANNEL_OPEN : SIDE_CHANNEL_CLOSED;
}

/* Disables it permanently, also for executed programs. */
static int disable_speculation(unsigned long which, const char *name, struct err *e)
{
    int got = get_speculation(which);

    if (got < 0 || !((unsigned long)got & PR_SPEC_PRCTL) ||
        ((unsigned long)got & PR_SPEC_FORCE_DISABLE))
        return 0;
    if (prctl(PR_SET_SPECULATION_CTRL, which, PR_SPEC_FORCE_DISABLE, 0, 0) < 0)
        return err_sys(e, "disabling speculation (%s)", name);
    return 0;
}

int side_channels_guard(struct sandbox_build *b, struct err *e)
{
    int r;

    /* A surrounding container may have enabled it for all its processes. */
    if (prctl(PR_GET_MEMORY_MERGE, 0, 0, 0, 0) == 1 && prctl(PR_SET_MEMORY_MERGE, 0, 0, 0, 0) < 0)
        return err_sys(e, "disabling memory merging (KSM)");
    if (!(b->plan->flags & PLAN_GUARDED))
        return 0;
    r = disable_speculation(PR_SPEC_STORE_BYPASS, "store bypass", e);
    if (r >= 0)
        r = disable_speculation(PR_SPEC_INDIRECT_BRANCH, "indirect branch", e);
    /* Creates a core scheduling cookie that all processes of this sandbox inherit. ENODEV: cores
     * have one thread each; EINVAL: the kernel was built without it. */
    if (r >= 0 && prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 0, CORE_OF_PROCESS, 0) < 0 &&
        errno != ENODEV && errno != EINVAL)
        return err_sys(e, "reserving cores for the sandbox (core scheduling)");
    return r;
}

/* --- probes --- */

static enum side_channel_state probe_clock(void)
{
    return access("/proc/self/timens_offsets", F_OK) == 0 ? SIDE_CHANNEL_CLOSED : SIDE_CHANNEL_OPEN;
}

static enum side_channel_state probe_boot_id(void)
{
    return SIDE_CHANNEL_CLOSED;
}

static enum side_channel_state probe_merging(void)
{
    return access("/sys/kernel/mm/ksm", F_OK) == 0 ? SIDE_CHANNEL_CLOSED : SIDE_CHANNEL_NONE;
}

static enum side_channel_state probe_store_bypass(void)
{
    return side_channel_of_speculation(get_speculation(PR_SPEC_STORE_BYPASS));
}

static enum side_channel_state probe_indirect_branch(void)
{
    return side_channel_of_speculation(get_speculation(PR_SPEC_INDIRECT_BRANCH));
}

static enum side_channel_state probe_cores(void)
{
    AUTO_CLOSE int file = open("/sys/devices/system/cpu/smt/active", O_RDONLY | O_CLOEXEC);
    unsigned long cookie;
    char active = '0';

    if (file >= 0 && read(file, &active, 1) == 1 && active == '0')
        return SIDE_CHANNEL_NONE;
    return prctl(PR_SCHED_CORE, PR_SCHED_CORE_GET, 0, 0, &cookie) == 0 ? SIDE_CHANNEL_CLOSED
                                                                       : SIDE_CHANNEL_OPEN;
}

const struct side_channel side_channels[] = {
    { "boot id", false, probe_boot_id },
    { "page merging", false, probe_merging },
    { "clock", true, probe_clock },
    { "store bypass", true, probe_store_bypass },
    { "indirect branch", true, probe_indirect_branch },
    { "cores", true, probe_cores },
};
const size_t side_channel_count = COUNT_OF(side_channels);
