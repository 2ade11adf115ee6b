/* SPDX-License-Identifier: Apache-2.0 */
/* Which directories an untrusted peer may show to a layer worker.
 *
 * A layer worker reads a directory among its descriptors with rights that the control plane lacks,
 * and a descriptor proves nothing: any process can open any directory with O_PATH. So the layer
 * worker accepts only directories that sandboxes write to and, to flatten layers on the host's
 * system, /usr. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "base/own.h"
#include "engine/layers/worker.h"
#include "lib/tar/at.h"
#include "engine/storage/driver.h"

static bool is_same_inode(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* True if the directory is boxes/ID/fs of the storage. */
static bool is_box_on_disk(int storage, const struct stat *st)
{
    int fd = at_open(storage, STORAGE_BOXES, O_RDONLY | O_DIRECTORY, 0);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd); /* takes the descriptor */
    const struct dirent *entry;
    bool found = false;

    if (!dir) {
        drop_fd(&fd);
        return false;
    }
    while (!found && (entry = readdir(dir))) {
        char path[sizeof entry->d_name + sizeof STORAGE_FS + 1];
        struct stat box;

        snprintf(path, sizeof path, "%s/" STORAGE_FS, entry->d_name);
        found = box_name_valid(entry->d_name) &&
                fstatat(dirfd(dir), path, &box, AT_SYMLINK_NOFOLLOW) == 0 &&
                is_same_inode(&box, st);
    }
    closedir(dir);
    return found;
}

/* A line of mountinfo(5): "ID PARENT MAJOR:MINOR …". */
static bool line_is_of(const char *line, dev_t device)
{
    char *end;
    unsigned long numbers[4] = { 0 };

    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        numbers[i] = strtoul(line, &end, 10);
        if (end == line)
            return false;
        line = *end == ':' ? end + 1 : end;
    }
    return numbers[2] == major(device) && numbers[3] == minor(device);
}

/* True also if the mounts cannot be read. */
static bool is_mounted_here(dev_t device)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    AUTO_FREE char *line = NULL;
    size_t cap = 0;
    bool found = !file;

    while (!found && getline(&line, &cap, file) > 0)
        found = line_is_of(line, device);
    if (file)
        fclose(file);
    return found;
}

/* The tmpfs of a sandbox is mounted in that sandbox only. */
static bool may_read(const struct layer_worker *k, int storage, int fd, const struct stat *st)
{
    struct statfs fs;
    struct stat usr;

    switch ((enum layers_kind)k->job.kind) {
    case LAYERS_FLATTEN:
        return stat("/usr", &usr) == 0 && is_same_inode(&usr, st);
    case LAYERS_CAPTURE:
    case LAYERS_DIFF:
    case LAYERS_COMPARE:
        return (fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC &&
                !is_mounted_here(st->st_dev)) ||
               is_box_on_disk(storage, st);
    default:
        return false;
    }
}

int layer_worker_check_sources(const struct layer_worker *k, int storage, struct err *e)
{
    struct stat st;

    for (int i = 0; i < LAYERS_FDS_MAX; i++) {
        if (k->fds[i] < 0)
            continue;
        if (fstat(k->fds[i], &st) < 0)
            return err_sys(e, "checking a descriptor of the job");
        if (S_ISDIR(st.st_mode) && !may_read(k, storage, k->fds[i], &st))
            return err_set(e, ERR_DENIED, "the job passes a directory that no sandbox writes to");
    }
    return 0;
}
