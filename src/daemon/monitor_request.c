/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/monitor_request.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "engine/sync/sync.h"
#include "lib/ipc/handover.h"
#include "lib/proc/sealed.h"

#define DEADLINE_NS (10 * NS_PER_S)

int64_t monitor_request_deadline_ns(void)
{
    const char *seconds = SANDBOXER_TEST_HOOKS ? getenv("SANDBOXER_TEST_DEADLINE") : NULL;
    uint64_t n;

    return seconds && str_to_u64(str_from(seconds), &n) ? (int64_t)n * NS_PER_S : DEADLINE_NS;
}

static bool is_request_text_terminated(const char *text, size_t cap)
{
    return memchr(text, 0, cap);
}

int monitor_request_check(const struct monitor_request *a, struct err *e)
{
    if (a->kind == 0 || a->kind >= MONITOR_KIND_COUNT_)
        return err_set(e, ERR_INVALID, "a request of an unknown kind");
    if (a->receive > 1 || (a->flags & ~(unsigned)SYNC_FLAGS_ALL_) ||
        (a->has & ~(unsigned)MONITOR_HAS_ALL_) || a->grant > MONITOR_GRANT_HANDED || a->dry > 1 ||
        a->workspace > 1 || a->mounts > HANDOVER_MOUNTS_MAX ||
        !is_request_text_terminated(a->sandbox, sizeof a->sandbox) ||
        !is_request_text_terminated(a->path, sizeof a->path) ||
        !is_request_text_terminated(a->top, sizeof a->top) || strchr(a->top, '/') ||
        strcmp(a->top, "..") == 0)
        return err_set(e, ERR_INVALID, "a malformed request");
    return 0;
}

int monitor_request_check_socket(int fd, struct err *e)
{
    int type = 0, domain = 0;
    socklen_t n = sizeof type, m = sizeof domain;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &m) < 0 || type != SOCK_SEQPACKET ||
        domain != AF_UNIX)
        return err_set(e, ERR_INVALID, "a program needs a SOCK_SEQPACKET socket");
    return 0;
}

static int check_fd(int fd, bool pipe, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "checking a descriptor");
    if ((fcntl(fd, F_GETFL) & O_PATH) || (pipe ? !S_ISFIFO(st.st_mode) : !S_ISREG(st.st_mode)))
        return err_set(e, ERR_INVALID, "a descriptor has the wrong type");
    return 0;
}

int monitor_request_check_fds(int tar, int manifest_out, int manifest_in, struct err *e)
{
    int r = check_fd(tar, true, e);

    if (r >= 0)
        r = check_fd(manifest_out, false, e);
    if (r >= 0 && manifest_in >= 0)
        r = check_fd(manifest_in, false, e);
    return r;
}

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

int monitor_request_make_places(const struct gate_place *list, size_t n, int *ret, struct err *e)
{
    return sealed_text((struct str){ (const char *)list, n * sizeof *list },
                       "the addresses of an egress worker", ret, e);
}

/* Only files in memory have seals: reading one does not wait for a disk or a network. */
int monitor_request_read_places(int fd, struct gate_place *ret, size_t *ret_n, struct err *e)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    size_t size;

    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0)
        return err_set(e, ERR_INVALID, "a list of addresses that is not a sealed memfd");
    size = (size_t)st.st_size;
    if (size % sizeof *ret)
        return err_set(e, ERR_INVALID, "a list of addresses has an invalid size of %zu bytes",
                       size);
    if (size / sizeof *ret > GATE_PLACES_MAX)
        return err_set(e, ERR_TOO_BIG, "an egress worker can have at most %d granted addresses",
                       GATE_PLACES_MAX);
    if (pread(fd, ret, size, 0) != (ssize_t)size)
        return err_sys(e, "reading a list of addresses");
    *ret_n = size / sizeof *ret;
    return 0;
}

/* The part of path below root, or NULL. */
static const char *path_below_root(const char *path, const char *root)
{
    size_t n = strlen(root);

    while (n > 1 && root[n - 1] == '/')
        n--;
    if (strncmp(path, root, n) != 0 || (n > 1 && path[n] && path[n] != '/'))
        return NULL;
    for (path += n; *path == '/'; path++)
        ;
    return *path ? path : ".";
}

static int fail_outside(const struct launcher_options *o, const char *path, struct err *e)
{
    char roots[96] = "";
    size_t n = 0;

    for (size_t i = 0; i < o->n_roots && n < sizeof roots; i++)
        n += (size_t)snprintf(roots + n, sizeof roots - n, "%s%s", i ? ", " : "", o->roots[i]);
    if (n >= sizeof roots)
        memcpy(roots + sizeof roots - sizeof "…", "…", sizeof "…");
    return err_set(
        e, ERR_DENIED,
        "%.60s: workspaces.roots allows %s; name a directory there, or use the sandboxer "
        "command, which opens it with your own rights",
        path, o->n_roots ? roots : "no directory");
}

int monitor_request_name_dir(struct monitor_request *a, const struct launcher_options *o,
                             const char *path, struct err *e)
{
    const char *rest = path;

    a->root = 0;
    for (size_t i = 0; i < o->n_roots && !a->root; i++)
        if ((rest = path_below_root(path, o->roots[i])))
            a->root = (uint32_t)i + 1;
    if (!a->root && (o->untrusted || o->n_roots))
        return fail_outside(o, path, e);
    if (!a->root)
        rest = path;
    if (!str_copy(str_from(rest), a->path, sizeof a->path))
        return err_set(e, ERR_INVALID, "%.120s…: the path has more than %zu bytes", path,
                       sizeof a->path - 1);
    return 0;
}
