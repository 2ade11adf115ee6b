/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ssh/kit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/proc/sealed.h"
#include "lib/ssh/elf.h"

#define SERVER "/usr/sbin/sshd"
/* From OpenSSH 9.8 on, sshd starts this program for each connection. Descriptors passed to sshd do
 * not reach it. */
#define SPLIT_SERVER "/usr/lib/openssh/sshd-session"

#if defined(__x86_64__)
#define TRIPLET "x86_64-linux-gnu"
#else
#define TRIPLET "aarch64-linux-gnu"
#endif

enum { FILE_MAX = 32 << 20 };

struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
};

struct ssh_kit {
    int fds[SSH_KIT_FILES_MAX]; /* -1: none yet */
    size_t n;
    char *paths[SSH_KIT_FILES_MAX]; /* NULL: our own */
    struct stamp stamps[SSH_KIT_FILES_MAX];
};

/* --- one file --- */

static int add_kit_file(struct ssh_kit *k, size_t at, struct str path, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    char text[PATH_MAX];
    struct stat st;
    int r;

    if (at >= SSH_KIT_FILES_MAX || !str_copy(path, text, sizeof text))
        return err_set(e, ERR_UNSUPPORTED, SERVER " needs more libraries than can be handed on");
    fd = openat(AT_FDCWD, text, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "opening %s", text);
    r = sealed_copy(fd, text, FILE_MAX, &k->fds[at], e);
    if (r < 0)
        return r;
    k->stamps[at] = (struct stamp){ st.st_dev, st.st_ino, st.st_size, st.st_ctim };
    k->paths[at] = strdup(text);
    if (!k->paths[at])
        abort();
    return 0;
}

/* --- what the server needs --- */

/* Directories of the loader's own, where the cache has no entry. */
static const char *const library_dirs[] = { "/lib/" TRIPLET, "/usr/lib/" TRIPLET,
                                            "/lib64",        "/usr/lib64",
                                            "/lib",          "/usr/lib" };

/* A file in memory, to read. */
struct mapped_file {
    struct str bytes;
};

static void unmap_file(struct mapped_file *m)
{
    if (m->bytes.n)
        munmap((void *)(uintptr_t)m->bytes.p, m->bytes.n);
}

static int map_file(int fd, struct mapped_file *ret, struct err *e)
{
    struct stat st;
    void *p;

    if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > FILE_MAX)
        return err_set(e, ERR_UNSUPPORTED, "a file of " SERVER " cannot be read");
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return err_sys(e, "reading a file of " SERVER);
    ret->bytes = (struct str){ p, (size_t)st.st_size };
    return 0;
}

static struct str library_base_name(struct str path)
{
    for (size_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/')
            return (struct str){ path.p + i, path.n - i };
    return path;
}

static bool find_library(struct str cache, struct str name, char ret[static PATH_MAX])
{
    struct str path;

    if (elf_find_cached(cache, name, &path))
        return str_copy(path, ret, PATH_MAX);
    for (size_t i = 0; i < COUNT_OF(library_dirs); i++) {
        snprintf(ret, PATH_MAX, "%s/" STR_FMT, library_dirs[i], STR_ARG(name));
        if (access(ret, R_OK) == 0)
            return true;
    }
    return false;
}

static int add_libraries(struct ssh_kit *k, const struct elf_needs *needs, struct str cache,
                         struct err *e)
{
    for (size_t i = 0; i < needs->n; i++) {
        struct str name = needs->needed[i];
        bool known = false;
        char path[PATH_MAX];
        int r;

        for (size_t n = 0; n < k->n; n++)
            known |= k->paths[n] && str_eq(library_base_name(str_from(k->paths[n])), name);
        if (known)
            continue;
        if (!find_library(cache, name, path))
            return err_set(e, ERR_UNSUPPORTED, SERVER " needs " STR_FMT ", which is not there",
                           STR_ARG(name));
        r = add_kit_file(k, k->n, str_from(path), e);
        if (r < 0)
            return r;
        k->n++;
    }
    return 0;
}

/* Adds the dependencies of one file of the kit: the loader, if it is a program, and libraries. */
static int add_needed(struct ssh_kit *k, size_t of, struct str cache, struct err *e)
{
    AUTO(unmap_file) struct mapped_file file = { .bytes = { NULL, 0 } };
    struct elf_needs needs;
    int r = map_file(k->fds[of], &file, e);

    if (r < 0)
        return r;
    if (!elf_read(file.bytes, &needs))
        return err_set(e, ERR_UNSUPPORTED, "%s is not a program or library of this machine",
                       k->paths[of]);
    if (of == SSH_KIT_SERVER && !needs.loader.n)
        return err_set(e, ERR_UNSUPPORTED, SERVER " is not linked dynamically");
    if (of == SSH_KIT_SERVER)
        r = add_kit_file(k, SSH_KIT_LOADER, needs.loader, e);
    return r < 0 ? r : add_libraries(k, &needs, cache, e);
}

/* In the loader's order: breadth first. */
static int add_all(struct ssh_kit *k, struct err *e)
{
    AUTO(unmap_file) struct mapped_file cache = { .bytes = { NULL, 0 } };
    AUTO_CLOSE int fd = openat(AT_FDCWD, "/etc/ld.so.cache", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int r = fd < 0 ? 0 : map_file(fd, &cache, e);

    if (r >= 0)
        r = add_needed(k, SSH_KIT_SERVER, cache.bytes, e);
    for (size_t i = SSH_KIT_LIBRARIES; r >= 0 && i < k->n; i++)
        r = add_needed(k, i, cache.bytes, e);
    return r;
}

/* --- all of it --- */

void ssh_kit_free(struct ssh_kit *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < SSH_KIT_FILES_MAX; i++) {
        drop_fd(&k->fds[i]);
        free(k->paths[i]);
    }
    free(k);
}

static void kit_freep(struct ssh_kit **k)
{
    ssh_kit_free(*k);
}

static int check_machine(struct err *e)
{
    if (access(SERVER, X_OK) < 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "there is no " SERVER " on the daemon's machine: install openssh-server "
                       "(its service need not run)");
    if (access(SPLIT_SERVER, F_OK) == 0)
        return err_set(e, ERR_UNSUPPORTED,
                       "the daemon's machine has OpenSSH 9.8 or newer, whose server is of several "
                       "programs; up to 9.7 it can be used");
    return 0;
}

int ssh_kit_make(struct ssh_kit **ret, struct err *e)
{
    AUTO(kit_freep) struct ssh_kit *k = new0(sizeof *k);
    int r = check_machine(e);

    for (size_t i = 0; i < SSH_KIT_FILES_MAX; i++)
        k->fds[i] = -1;
    k->n = SSH_KIT_LIBRARIES;
    if (r >= 0)
        r = add_kit_file(k, SSH_KIT_SERVER, STR(SERVER), e);
    if (r >= 0)
        r = sealed_text((struct str){ ssh_preload_so, ssh_preload_size }, "preload",
                        &k->fds[SSH_KIT_PRELOAD], e);
    if (r >= 0)
        r = add_all(k, e);
    if (r >= 0)
        *ret = take_ptr(k);
    return r;
}

bool ssh_kit_fresh(const struct ssh_kit *k)
{
    for (size_t i = 0; i < k->n; i++) {
        const struct stamp *was = &k->stamps[i];
        struct stat st;

        if (!k->paths[i])
            continue;
        if (stat(k->paths[i], &st) < 0)
            return false;
        if (st.st_dev != was->dev || st.st_ino != was->ino || st.st_size != was->size ||
            st.st_ctim.tv_sec != was->changed.tv_sec || st.st_ctim.tv_nsec != was->changed.tv_nsec)
            return false;
    }
    return true;
}

const int *ssh_kit_files(const struct ssh_kit *k, size_t *ret_n)
{
    *ret_n = k->n;
    return k->fds;
}
