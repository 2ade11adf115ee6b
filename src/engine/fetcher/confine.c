/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/fetcher/confine.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/own.h"
#include "lib/fence/fence.h"

/* The system calls of the fetch process, allowed with any arguments; the arguments of mmap, mprotect, socket, socketpair, ioctl and clone
 * are checked (lib/fence/fence.c). Not allowed, among others: bind, listen and accept; execve and
 * kill; all calls that write to a file system. */
static const int confine_calls[] = {
    /* the network */
    SYS_connect,
    SYS_getpeername,
    SYS_getsockname,
    SYS_getsockopt,
    SYS_recvfrom,
    SYS_recvmmsg,
    SYS_recvmsg,
    SYS_sendmmsg,
    SYS_sendmsg,
    SYS_sendto,
    SYS_setsockopt,
    SYS_shutdown,
    /* files that are read, and memory with a name */
    SYS_close,
    SYS_fadvise64,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_fcntl,
    SYS_fstat,
    SYS_lseek,
    SYS_memfd_create,
    SYS_newfstatat,
    SYS_openat,
    SYS_pread64,
    SYS_read,
    SYS_readlinkat,
    SYS_readv,
    SYS_statx,
    SYS_write,
    SYS_writev,
#ifdef SYS_open /* the older spellings, which some architectures lack */
    SYS_access,
    SYS_open,
    SYS_poll,
    SYS_readlink,
    SYS_stat,
#endif
    /* waiting */
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_eventfd2,
    SYS_pipe2,
    SYS_ppoll,
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
#endif
    SYS_clock_getres,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_futex,
    SYS_restart_syscall,
    /* memory and the process itself */
    SYS_brk,
    SYS_exit,
    SYS_exit_group,
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getpid,
    SYS_getrandom,
    SYS_getrusage,
    SYS_gettid,
    SYS_getuid,
    SYS_madvise,
    SYS_membarrier,
    SYS_mremap,
    SYS_munmap,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sched_getaffinity,
    SYS_sched_yield,
    SYS_set_robust_list,
    SYS_sigaltstack,
    SYS_sysinfo,
    SYS_tgkill, /* abort() */
    SYS_uname,
};

/* Certificates of authorities, and settings of the TLS library. */
static const char *const trees[] = {
    "/etc/ssl/certs",       "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
    "/etc/ca-certificates", "/etc/pki/tls/certs",         "/etc/pki/ca-trust/extracted",
    "/etc/crypto-policies", "/usr/share/crypto-policies", "/etc/gnutls",
};

/* Settings of name resolution, and the certificates where they are one file. */
static const char *const single[] = {
    "/etc/resolv.conf",  "/etc/hosts",     "/etc/nsswitch.conf", "/etc/host.conf",
    "/etc/gai.conf",     "/etc/services",  "/etc/protocols",     "/etc/ssl/openssl.cnf",
    "/etc/ssl/cert.pem", "/etc/localtime",
};

enum { PLACES_MAX = COUNT_OF(trees) + COUNT_OF(single) };

/* A path that does not exist needs no rule. A link is followed: the rule is for its target. */
static void add_readable(struct fence_place *places, size_t *n, const char *path, unsigned access)
{
    int fd = open(path, O_PATH | O_CLOEXEC);

    if (fd >= 0)
        places[(*n)++] = (struct fence_place){ fd, access };
}

int fetcher_confine(struct err *e)
{
    static const int families[] = { AF_INET, AF_INET6 };
    static const int ioctls[] = { FIONREAD, FIONBIO };
    struct fence_place places[PLACES_MAX];
    struct fence_rules rules = { .who = "the fetch process",
                                 .calls = confine_calls,
                                 .n_calls = COUNT_OF(confine_calls),
                                 .families = families,
                                 .n_families = COUNT_OF(families),
                                 .pairs = true,
                                 .ioctls = ioctls,
                                 .n_ioctls = COUNT_OF(ioctls),
                                 .places = places,
                                 .tcp = FENCE_TCP_CONNECT,
                                 .threads = true,
                                 .refusal = FENCE_ENOSYS };
    int r;

    for (size_t i = 0; i < COUNT_OF(trees); i++)
        add_readable(places, &rules.n_places, trees[i], FENCE_READ);
    for (size_t i = 0; i < COUNT_OF(single); i++)
        add_readable(places, &rules.n_places, single[i], FENCE_READ_FILES);
    r = fence_apply(&rules, e);
    for (size_t i = 0; i < rules.n_places; i++)
        drop_fd(&places[i].fd);
    return r;
}
