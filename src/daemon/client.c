/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/client.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bool read_socket_name(int sock, bool of_peer, struct sockaddr_un *ret, socklen_t *n)
{
    *ret = (struct sockaddr_un){ .sun_family = AF_UNSPEC };
    *n = sizeof *ret;
    return (of_peer ? getpeername(sock, (struct sockaddr *)ret, n)
                    : getsockname(sock, (struct sockaddr *)ret, n)) == 0 &&
           ret->sun_family == AF_UNIX;
}

void client_doors_add(struct client_doors *d, int listening)
{
    struct sockaddr_un name;
    socklen_t n;

    if (d->n < CLIENT_DOORS_MAX && read_socket_name(listening, false, &name, &n) &&
        name.sun_path[0])
        snprintf(d->path[d->n++], CLIENT_PATH_MAX, "%.107s", name.sun_path);
}

static bool is_door(const struct client_doors *d, const struct sockaddr_un *name)
{
    for (size_t i = 0; i < d->n; i++)
        if (strncmp(d->path[i], name->sun_path, sizeof name->sun_path) == 0)
            return true;
    return false;
}

/* A stream that came in by one of our doors, from a socket without a name. */
static bool is_accepted(int sock, const struct client_doors *d)
{
    struct sockaddr_un own, peer;
    socklen_t n_own, n_peer, n = sizeof(int);
    int type = 0;

    return getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_STREAM &&
           read_socket_name(sock, false, &own, &n_own) && is_door(d, &own) &&
           read_socket_name(sock, true, &peer, &n_peer) &&
           n_peer <= (socklen_t)offsetof(struct sockaddr_un, sun_path);
}

/* Whether the client still has its end. The control plane could keep its own for later. */
static bool is_connected(int sock)
{
    struct pollfd p = { .fd = sock, .events = POLLRDHUP };

    return poll(&p, 1, 0) >= 0 && !(p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

static int read_groups(int sock, struct client *ret, struct err *e)
{
    socklen_t n = sizeof ret->groups;

    if (getsockopt(sock, SOL_SOCKET, SO_PEERGROUPS, ret->groups, &n) < 0)
        return errno == ERANGE ? err_set(e, ERR_TOO_BIG, "the client is in more than %d groups",
                                         CLIENT_GROUPS_MAX)
                               : err_sys(e, "reading the groups of the client");
    ret->n_groups = (uint32_t)(n / sizeof ret->groups[0]);
    return 0;
}

static int check_uid(uid_t uid, struct err *e)
{
    if (uid == (uid_t)-1)
        return err_set(e, ERR_DENIED, "the client's user is unknown");
    if (geteuid() != 0 && uid != 0 && uid != geteuid())
        return err_set(e, ERR_DENIED, "the daemon of uid %u does not act for uid %u",
                       (unsigned)geteuid(), (unsigned)uid);
    return 0;
}

int client_identify(int sock, const struct client_doors *d, struct client *ret, struct err *e)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    int r;

    if (!is_accepted(sock, d) || getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
        return err_set(e, ERR_DENIED, "the descriptor is not the connection of a client");
    if (!is_connected(sock))
        return err_set(e, ERR_DENIED, "the client has closed its connection");
    r = check_uid(peer.uid, e);
    if (r < 0)
        return r;
    *ret = (struct client){ .uid = peer.uid, .gid = peer.gid };
    return read_groups(sock, ret, e);
}

int client_of_handover(int sock, const struct handover *h, struct client *ret, struct err *e)
{
    struct ucred maker;
    socklen_t n = sizeof maker;
    int r = check_uid(h->uid, e);

    if (r < 0)
        return r;
    *ret = (struct client){ .uid = h->uid, .gid = h->gid };
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &maker, &n) < 0 || maker.uid != h->uid)
        return 0;
    return read_groups(sock, ret, e);
}

/* setfsuid() also takes the capabilities that override file permissions, and gives them back. */
static int set_rights(uid_t uid, gid_t gid, const gid_t *groups, size_t n, struct err *e)
{
    if (setgroups(n, groups) < 0)
        return err_sys(e, "taking the groups of uid %u", (unsigned)uid);
    setfsgid(gid);
    setfsuid(uid);
    if ((uid_t)setfsuid((uid_t)-1) != uid || (gid_t)setfsgid((gid_t)-1) != gid)
        return err_set(e, ERR_SYS, "cannot take the rights of uid %u", (unsigned)uid);
    return 0;
}

int client_enter(const struct client *c, struct err *e)
{
    return geteuid() != 0 ? 0 : set_rights(c->uid, c->gid, c->groups, c->n_groups, e);
}

int client_leave(struct err *e)
{
    return geteuid() != 0 ? 0 : set_rights(0, 0, NULL, 0, e);
}
