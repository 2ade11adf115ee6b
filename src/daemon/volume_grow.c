/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/volume_grow.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/loop.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "lib/proc/caps.h"

#define STEP_LEAST (UINT64_C(64) << 20) /* each step waits for a commit of btrfs */

enum { LOOK_US = 200000 };

struct grower {
    int image, device, storage;
    struct volume_room room;
    bool told; /* that it cannot grow */
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

/* How much larger than `size` it can be. */
static uint64_t choose_step(const struct grower *g, uint64_t size)
{
    uint64_t have = count_free(g->storage), left = count_free(g->image), step;

    step = min_u64(VOLUME_GROW_HIGH - min_u64(have, VOLUME_GROW_HIGH),
                   left > g->room.free_min ? left - g->room.free_min : 0);
    if (g->room.size)
        step = min_u64(step, g->room.size > size ? g->room.size - size : 0);
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
    uint64_t size, step;
    struct stat st;

    if (count_free(g->storage) >= VOLUME_GROW_LOW)
        return 0;
    if (fstat(g->image, &st) < 0)
        return err_sys(e, "reading the size of the image");
    size = (uint64_t)st.st_size;
    if (g->room.size && size + STEP_LEAST > g->room.size)
        return 0; /* as large as it may be */
    step = choose_step(g, size);
    if (!step)
        return err_set(e, ERR_FULL, "the disk has only images.free_min left");
    return extend_image(g, size, step, e);
}

/* Logs a reason once, until it is resolved. */
static void check_volume_once(struct grower *g)
{
    struct err e;
    int r = grow_volume(g, &e);

    if (r < 0 && !g->told)
        LOG(WARN, "storage.not_grown", LOG_S("reason", e.msg));
    g->told = r < 0;
}

static int open_grower(struct grower *g, const struct volume *v, struct err *e)
{
    char device[VOLUME_DEVICE_MAX];

    g->image = volume_open_image(v, e);
    if (g->image < 0)
        return g->image;
    g->device = volume_find_device(g->image, device);
    if (g->device < 0)
        return err_set(e, ERR_SYS, "the volume's loop device was not found");
    return 0;
}

static _Noreturn void run_grower(struct grower *g)
{
    struct err e;

    prctl(PR_SET_NAME, "sandboxer-grow", 0, 0, 0);
    if (caps_set(CAP_BIT(CAP_SYS_ADMIN), 0, &e) < 0 || resize_volume(g, &e) < 0)
        LOG(WARN, "storage.not_grown", LOG_S("reason", e.msg));
    for (;;) {
        check_volume_once(g);
        usleep(LOOK_US);
    }
}

static void close_grower(struct grower *g)
{
    drop_fd(&g->image);
    drop_fd(&g->device);
}

pid_t volume_grow_start(const struct volume *v, int storage, const struct volume_room *room,
                        struct err *e)
{
    struct grower g = { .image = -1, .device = -1, .storage = storage, .room = *room };
    pid_t self = getpid(), pid;
    int r;

    if (!v->state)
        return 0;
    r = open_grower(&g, v, e);
    if (r < 0) {
        close_grower(&g);
        return r;
    }
    pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != self)
            _exit(1);
        run_grower(&g);
    }
    if (pid < 0)
        r = err_sys(e, "starting the process that grows the volume");
    close_grower(&g);
    return pid < 0 ? r : pid;
}

void volume_grow_stop(pid_t pid)
{
    /* If it died, the monitor has collected it. */
    if (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0 && kill(pid, SIGKILL) == 0)
        waitpid(pid, NULL, 0);
}
