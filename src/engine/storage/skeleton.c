/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/storage/skeleton.h"

#include <string.h>

#include "base/own.h"

const struct skeleton_dir skeleton_dirs[] = {
    { "dev", 0755 },       { "dev/shm", 01777 }, { "etc", 0755 },     { "home", 0755 },
    { "home/user", 0755 }, { "mnt", 0755 },      { "opt", 0755 },     { "proc", 0555 },
    { "root", 0700 },      { "run", 0755 },      { "srv", 0755 },     { "sys", 0555 },
    { "tmp", 01777 },      { "var", 0755 },      { "var/lib", 0755 }, { "var/cache", 0755 },
    { "var/log", 0755 },   { "var/tmp", 01777 },
};
const size_t skeleton_dir_count = COUNT_OF(skeleton_dirs);

const char *const skeleton_system[] = { "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32" };
const size_t skeleton_system_count = COUNT_OF(skeleton_system);

const struct skeleton_name skeleton_names[] = {
    { SKELETON_STEP, ".empty", NULL },
    { SKELETON_STEP, "etc/passwd", NULL },
    { SKELETON_STEP, "etc/group", NULL },
    { SKELETON_STEP, "etc/nsswitch.conf", NULL },
    { SKELETON_STEP, "etc/localtime", NULL },
    { SKELETON_STEP, "etc/ssl", NULL },
    { SKELETON_LINK, "etc/mtab", "../proc/self/mounts" },
    { SKELETON_LINK, "etc/os-release", "../usr/lib/os-release" },
    { SKELETON_COPY, "etc/ld.so.conf", NULL },
    { SKELETON_COPY, "etc/protocols", NULL },
    { SKELETON_COPY, "etc/ssl/openssl.cnf", NULL },
    { SKELETON_BIND, "etc/ld.so.cache", NULL },
    { SKELETON_BIND, "etc/services", NULL },
    { SKELETON_BIND, "etc/alternatives", NULL },
    { SKELETON_BIND, "etc/ssl/certs", NULL },
    { SKELETON_BIND, "etc/fonts", NULL },
    { SKELETON_BIND, "etc/java-11-openjdk", NULL },
    { SKELETON_BIND, "etc/java-17-openjdk", NULL },
    { SKELETON_BIND, "etc/java-21-openjdk", NULL },
};
const size_t skeleton_name_count = COUNT_OF(skeleton_names);

bool skeleton_has(const char *path)
{
    for (size_t i = 0; i < skeleton_dir_count; i++)
        if (strcmp(path, skeleton_dirs[i].path) == 0)
            return true;
    for (size_t i = 0; i < skeleton_system_count; i++)
        if (strcmp(path, skeleton_system[i]) == 0)
            return true;
    for (size_t i = 0; i < skeleton_name_count; i++)
        if (strcmp(path, skeleton_names[i].path) == 0)
            return true;
    return false;
}
