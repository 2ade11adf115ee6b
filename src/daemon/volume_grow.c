/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/volume_grow.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/loop.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "daemon/companion.h"
#include "engine/storage/subvolume.h"
#include "lib/proc/caps.h"

#define STEP_LEAST (UINT64_C(64) << 20) /* each step waits for a commit of btrfs */

enum { LOOK_US = 100000, DISK_PART = 32, NICE = -10 };

struct grower {
    int image, device, storage;
    int pending[SUBVOLUME_PENDING]; /* -1: unknown */
    struct volume_room room;
};

static uint64_t count_free(int fd)
{
    struct statvfs fs;

    return fstatvfs(fd, &fs) < 0 ? 0 : (uint64_t)fs.f_bavail * fs.f_frsize;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t subtract_u64(uint64_t a, uint64_t b)
{
    return a - min_u64(a, b);
}

static uint64_t read_counter(int fd)
{
    char text[32];
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return strtoull(text, NULL, 10);
}

/* The bytes that a sandbox could still write. */
static uint64_t count_free_inside(const struct grower *g)
{
    uint64_t pending = 0;

    for (size_t i = 0; i < SUBVOLUME_PENDING; i++)
        pending += read_counter(g->pending[i]);
    return subtract_u64(count_free(g->storage), pending);
}

/* How many more bytes the image may take of the disk. */
static uint64_t count_free_outside(const struct grower *g)
{
    return subtract_u64(count_free(g->image), g->room.free_min);
}

/* How much larger than `size` it becomes, to have `high` bytes free. */
static uint64_t choose_step(const struct grower *g, uint64_t size, uint64_t high)
{
    uint64_t step = min_u64(subtract_u64(high, count_free_inside(g)), count_free_outside(g));

    if (g->room.size)
        step = min_u64(step, subtract_u64(g->room.size, size));
    return step - step % STEP_LEAST;
}

/* Resizes the loop device and btrfs to the image's size; also after an earlier process was
 * interrupted. */
static int resize_volume(const struct grower *g, struct err *e)
{
    struct btrfs_ioctl_vol_args args = { .name = "max" };

    if (ioctl(g->device, LOOP_SET_CAPACITY, 0) < 0)
        return err_sys(e, "resizing the loop device");
    return ioctl(g->storage, BTRFS_IOC_RESIZE, &args) < 0 ? err_sys(e, "resizing btrfs") : 0;
}

/* Blocks that could not all be had are given back. */
static int extend_image(const struct grower *g, uint64_t size, uint64_t step, struct err *e)
{
    int r;

    while (fallocate(g->image, 0, (off_t)size, (off_t)step) < 0)
        if (errno != EINTR) {
            r = err_sys(e, "allocating %llu MiB more", (unsigned long long)(step >> 20));
            return ftruncate(g->image, (off_t)size) < 0 ? err_sys(e, "truncating the image") : r;
        }
    return resize_volume(g, e);
}

static int grow_volume(const struct grower *g, struct err *e)
{
    uint64_t part = min_u64(count_free_outside(g) / DISK_PART, VOLUME_GROW_MOST), size, step;
    struct stat st;

    if (count_free_inside(g) >= (part > VOLUME_GROW_LOW ? part : VOLUME_GROW_LOW))
        return 0;
    if (fstat(g->image, &st) < 0)
        return err_sys(e, "reading the size of the image");
    size = (uint64_t)st.st_size;
    if (g->room.size && size + STEP_LEAST > g->room.size)
        return 0; /* as large as it may be */
    step = choose_step(g, size, 2 * part > VOLUME_GROW_HIGH ? 2 * part : VOLUME_GROW_HIGH);
    if (!step)
        return err_set(e, ERR_FULL, "the disk has only images.free_min left");
    return extend_image(g, size, step, e);
}

static int open_grower(struct grower *g, const struct volume *v, struct err *e)
{
    AUTO_CLOSE int sys = open("/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char device[VOLUME_DEVICE_MAX];

    subvolume_open_pending(sys, g->storage, g->pending);
    g->image = volume_open_image(v, e);
    if (g->image < 0)
        return g->image;
    g->device = volume_find_device(g->image, device);
    if (g->device < 0)
        return err_set(e, ERR_SYS, "the volume's loop device was not found");
    return 0;
}

/* Logs a reason once, until it is resolved. */
static _Noreturn void run_grower(const struct grower *g)
{
    bool told = false;
    struct err e;

    prctl(PR_SET_NAME, "sandboxer-grow", 0, 0, 0);
    setpriority(PRIO_PROCESS, 0, NICE); /* ahead of those who write */
    if (caps_set(CAP_BIT(CAP_SYS_ADMIN), 0, &e) < 0 || resize_volume(g, &e) < 0)
        LOG(WARN, "storage.not_grown", LOG_S("reason", e.msg));
    for (;;) {
        int r = grow_volume(g, &e);

        if (r < 0 && !told)
            LOG(WARN, "storage.not_grown", LOG_S("reason", e.msg));
        told = r < 0;
        usleep(LOOK_US);
    }
}

static void close_grower(struct grower *g)
{
    drop_fd(&g->image);
    drop_fd(&g->device);
    for (size_t i = 0; i < SUBVOLUME_PENDING; i++)
        drop_fd(&g->pending[i]);
}

static _Noreturn void enter_grower(struct grower *g, pid_t parent)
{
    int keep[3 + SUBVOLUME_PENDING] = { g->image, g->device, g->storage };

    for (size_t i = 0; i < SUBVOLUME_PENDING; i++)
        keep[3 + i] = g->pending[i];
    companion_enter(parent, keep, COUNT_OF(keep));
    run_grower(g);
}

pid_t volume_grow_fork(void *growth, struct err *e)
{
    const struct volume_growth *of = growth;
    struct grower g = { .image = -1, .device = -1, .storage = of->storage, .room = of->room };
    pid_t self = getpid(), pid;
    int r;

    if (!of->volume->state)
        return 0;
    r = open_grower(&g, of->volume, e);
    if (r < 0) {
        close_grower(&g);
        return r;
    }
    pid = fork();
    if (pid == 0)
        enter_grower(&g, self);
    if (pid < 0)
        r = err_sys(e, "starting the process that grows the volume");
    close_grower(&g);
    return pid < 0 ? r : pid;
}
