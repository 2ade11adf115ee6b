/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/cgroup_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"

int cgroup_dir_open(int at, const char *path)
{
    return openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool cgroup_file_read(int dir, const char *name, char *out, size_t cap)
{
    AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, cap - 1);

    if (n < 0)
        return false;
    out[n] = '\0';
    return true;
}

int cgroup_file_write(int dir, const char *name, const char *value)
{
    AUTO_CLOSE int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

    return fd < 0 || write(fd, value, strlen(value)) < 0 ? -1 : 0;
}

int cgroup_settings_apply(int dir, const struct cgroup_setting *s, int n, struct err *e)
{
    for (int i = 0; i < n; i++)
        if (cgroup_file_write(dir, s[i].file, s[i].value) < 0 && !s[i].optional)
            return err_sys(e, "setting %s to %s", s[i].file, s[i].value);
    return 0;
}

/* One file per page size and kind: hugetlb.2MB.max, hugetlb.2MB.rsvd.max; on v1 limit_in_bytes. */
void cgroup_forbid_huge_pages(int group)
{
    int copy = cgroup_dir_open(group, ".");
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *d;

    if (!dir) {
        drop_fd(&copy);
        return;
    }
    while ((d = readdir(dir))) {
        struct str s = str_from(d->d_name);

        if (str_starts(s, STR("hugetlb.")) &&
            (str_ends(s, STR(".max")) || str_ends(s, STR(".limit_in_bytes"))))
            (void)cgroup_file_write(group, d->d_name, "0");
    }
    closedir(dir);
}
