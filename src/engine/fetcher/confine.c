/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/fetcher/confine.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/own.h"
#include "lib/fence/calls.h"
#include "lib/fence/fence.h"

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

/* Not allowed, among others: bind, listen and accept; execve and kill; all calls that write to a
 * file system. */
static const int fetch_calls[] = {
    SYS_recvmmsg,
    SYS_sendmmsg,
#ifdef SYS_stat
    SYS_stat,
#endif
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
                                 .calls = { FENCE_CALLS(fence_base_calls),
                                            FENCE_CALLS(fence_service_calls),
                                            FENCE_CALLS(fetch_calls) },
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
