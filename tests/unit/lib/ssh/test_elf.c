/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ssh/elf.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static struct str read_file(const char *path, char **ret)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return (struct str){ NULL, 0 };
    *ret = malloc((size_t)st.st_size);
    CHECK(*ret && read(fd, *ret, (size_t)st.st_size) == st.st_size);
    return (struct str){ *ret, (size_t)st.st_size };
}

static bool needs_libc(const struct elf_needs *n)
{
    for (size_t i = 0; i < n->n; i++)
        if (str_eq(n->needed[i], STR("libc.so.6")))
            return true;
    return false;
}

TEST(a_program_names_its_loader_and_libraries)
{
    char *bytes = NULL;
    struct str file = read_file("/proc/self/exe", &bytes);
    struct elf_needs needs;

    CHECK(elf_read(file, &needs));
    CHECK(str_starts(needs.loader, STR("/lib")));
    CHECK(needs_libc(&needs));
    free(bytes);
}

/* Each prefix is in memory of its own size, so that a sanitizer sees a read past its end. */
TEST(truncated_files_are_refused_or_read_within_bounds)
{
    char *bytes = NULL;
    struct str file = read_file("/proc/self/exe", &bytes);
    struct elf_needs needs;

    for (size_t n = 0; n < file.n && n < 2048; n += 7) {
        char *part = malloc(n + 1);

        memcpy(part, bytes, n);
        elf_read((struct str){ part, n }, &needs);
        free(part);
    }
    CHECK(!elf_read(STR("no ELF file"), &needs));
    free(bytes);
}

TEST(the_cache_knows_the_c_library)
{
    char *bytes = NULL;
    struct str cache = read_file("/etc/ld.so.cache", &bytes), path;

    if (!cache.n)
        SKIP("there is no /etc/ld.so.cache");
    CHECK(elf_find_cached(cache, STR("libc.so.6"), &path));
    CHECK(str_starts(path, STR("/")));
    CHECK(!elf_find_cached(cache, STR("libno-such-library.so.1"), &path));
    CHECK(!elf_find_cached((struct str){ cache.p, 30 }, STR("libc.so.6"), &path));
    free(bytes);
}
