/* Files of control groups: small texts that the kernel reads and writes at once. */
#ifndef RUNTIME_CGROUP_FILE_H
#define RUNTIME_CGROUP_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* One value to write into a group. */
struct cgroup_setting {
    const char *file;
    char value[80];
    bool optional; /* not every kernel has the file */
};

int cgroup_dir_open(int at, const char *path); /* -1: errno */
bool cgroup_file_read(int dir, const char *name, char *out, size_t cap);
int cgroup_file_write(int dir, const char *name, const char *value); /* -1: errno */

int cgroup_settings_apply(int dir, const struct cgroup_setting *s, int n, struct err *e);

/* Sets every hugetlb limit of the group to 0: huge pages do not count as memory of a group. */
void cgroup_forbid_huge_pages(int dir);

#endif
