/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes files of control groups. */
#ifndef ENGINE_RUNTIME_CGROUP_FILE_H
#define ENGINE_RUNTIME_CGROUP_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* One value to write into a group. */
struct cgroup_setting {
    const char *file;
    char value[80];
    bool optional; /* some kernels lack the file */
};

int cgroup_dir_open(int at, const char *path); /* -1: errno */
bool cgroup_file_read(int dir, const char *name, char *out, size_t cap);
int cgroup_file_write(int dir, const char *name, const char *value); /* -1: errno */

int cgroup_settings_apply(int dir, const struct cgroup_setting *s, int n, struct err *e);

/* Sets every hugetlb limit of the group to 0: huge pages are not charged to the memory
 * controller. */
void cgroup_forbid_huge_pages(int dir);

#endif
