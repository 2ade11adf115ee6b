/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/connect.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "cli/daemon.h"
#include "cli/progress.h"
#include "cli/state_dir.h"
#include "lib/http/h1.h"

enum { RETRY_MS = 20 };

#define OTHER_PATIENCE (10 * NS_PER_S) /* for a daemon that another process has just started */

static const char *from_environment(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

static int set_path(struct daemon_address *p, const char *dir, const char *file, struct err *e)
{
    if (snprintf(p->path, sizeof p->path, "%s%s", dir, file) < (int)sizeof p->path)
        return 0;
    return err_set(e, ERR_TOO_BIG,
                   "%s%s: the path of a socket has at most %zu bytes; set SANDBOXER_SOCKET to a "
                   "shorter one",
                   dir, file, sizeof p->path - 1);
}

/* "http://HOST[:PORT][/]" */
static int set_http(struct daemon_address *p, const char *server, struct str authority,
                    struct err *e)
{
    struct h1_host host;

    if (authority.n && authority.p[authority.n - 1] == '/')
        authority.n--;
    if (!h1_parse_host(authority, &host) || !str_copy(host.name, p->host, sizeof p->host) ||
        !str_copy(authority, p->authority, sizeof p->authority))
        return err_set(e, ERR_INVALID, "'%s' is not http://HOST:PORT", server);
    snprintf(p->port, sizeof p->port, "%u", host.port ? host.port : 80u);
    p->tcp = true;
    return 0;
}

static int set_server(struct daemon_address *p, const char *server, struct err *e)
{
    struct str s = str_from(server);

    if (str_starts(s, STR("http://")))
        return set_http(p, server, (struct str){ s.p + 7, s.n - 7 }, e);
    if (str_starts(s, STR("unix:/")))
        return set_path(p, server + 5, "", e);
    if (str_starts(s, STR("https://")))
        return err_set(e, ERR_UNSUPPORTED,
                       "this program does not speak TLS: use a tunnel (ssh -L 7700:localhost:7700 "
                       "HOST) and http://127.0.0.1:7700");
    return err_set(e, ERR_INVALID, "'%s' is neither http://HOST:PORT nor unix:/PATH", server);
}

static int set_default(struct daemon_address *p, struct err *e)
{
    const char *runtime = from_environment("XDG_RUNTIME_DIR");
    char dir[PATH_MAX];
    struct stat st;
    int r;

    p->ours = true;
    if (geteuid() == 0)
        return set_path(p, "/run/sandboxer/sandboxer.sock", "", e);
    if (runtime && runtime[0] == '/')
        return set_path(p, runtime, "/sandboxer.sock", e);
    snprintf(dir, sizeof dir, "/run/user/%u", geteuid());
    if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode))
        return set_path(p, dir, "/sandboxer.sock", e);
    r = state_dir_path(dir, sizeof dir, e);
    return r < 0 ? r : set_path(p, dir, "/sandboxer.sock", e);
}

int place_find(const char *server, struct daemon_address *ret, struct err *e)
{
    const char *socket_path = from_environment("SANDBOXER_SOCKET");

    *ret = (struct daemon_address){ .tcp = false };
    if (!server)
        server = from_environment("SANDBOXER_URL");
    if (server)
        return set_server(ret, server, e);
    if (socket_path && socket_path[0] != '/')
        return err_set(e, ERR_INVALID, "SANDBOXER_SOCKET: '%s' is not an absolute path",
                       socket_path);
    ret->may_start = true;
    return socket_path ? set_path(ret, socket_path, "", e) : set_default(ret, e);
}

/* At a default address, only a daemon of root or of this user is accepted. */
static int check_listener_owner(int fd, const struct daemon_address *p, struct err *e)
{
    struct ucred peer;
    socklen_t n = sizeof peer;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
        return err_sys(e, "finding the owner of %s", p->path);
    if (p->ours && peer.uid != 0 && peer.uid != geteuid())
        return err_set(e, ERR_DENIED,
                       "refused to connect: user %u listens on %s, which is neither root nor you",
                       peer.uid, p->path);
    return 0;
}

int contact_connect(const struct daemon_address *p, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int r;

    memcpy(to.sun_path, p->path, sizeof to.sun_path);
    if (fd < 0)
        return err_sys(e, "making a socket");
    do
        r = connect(fd, (struct sockaddr *)&to, sizeof to);
    while (r < 0 && errno == EINTR);
    if (r < 0 && (errno == ENOENT || errno == ECONNREFUSED))
        return err_set(e, ERR_NOT_FOUND, "no daemon listens on %s", p->path);
    if (r < 0 && errno == EACCES)
        return err_set(e, ERR_DENIED,
                       "connecting to %s: Permission denied (the socket is another user's; see "
                       "socket.mode and socket.group, or name another with SANDBOXER_SOCKET)",
                       p->path);
    if (r < 0)
        return err_sys(e, "connecting to %s", p->path);
    r = check_listener_owner(fd, p, e);
    if (r < 0)
        return r;
    *ret = take_fd(&fd);
    return 0;
}

/* The first of the addresses that takes us. */
static int connect_tcp(const struct daemon_address *p, int *ret, struct err *e)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
    int error = ECONNREFUSED, r = getaddrinfo(p->host, p->port, &hints, &list);

    if (r != 0)
        return err_set(e, ERR_NOT_FOUND, "%s: %s", p->host, gai_strerror(r));
    *ret = -1;
    for (const struct addrinfo *a = list; a && *ret < 0; a = a->ai_next) {
        AUTO_CLOSE int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0)
            *ret = take_fd(&fd);
        else
            error = errno;
    }
    freeaddrinfo(list);
    errno = error;
    return *ret < 0 ? err_sys(e, "connecting to %s", p->authority) : 0;
}

/* Also waits for a daemon that another process is starting. */
static int start_and_connect(const struct daemon_address *p, int *ret, struct err *e)
{
    static const struct timespec pause = { .tv_nsec = RETRY_MS * NS_PER_MS };
    struct err said = { 0 };
    int64_t deadline;
    int r;

    progress_begin("starting the daemon");
    r = daemon_start(&said);
    deadline = clock_mono() + OTHER_PATIENCE;
    if (r >= 0)
        while ((r = contact_connect(p, ret, e)) == -ERR_NOT_FOUND && clock_mono() < deadline)
            nanosleep(&pause, NULL);
    progress_end();
    if (r < 0 && said.code && e) /* it failed, or the other one does not listen here */
        *e = said;
    return r;
}

/* A token that the environment may hold; NULL: it does not. */
static int read_token_variable(const char *name, const char **ret, struct err *e)
{
    *ret = from_environment(name);
    if (*ret && (!h1_is_value(str_from(*ret)) || strlen(*ret) > CONTACT_TOKEN_MAX))
        return err_set(e, ERR_INVALID,
                       "%s is not a valid token: it contains a control character, or has more than "
                       "%d bytes",
                       name, CONTACT_TOKEN_MAX);
    return 0;
}

static int take_tokens(struct contact *c, struct err *e)
{
    const char *token = NULL, *peer = NULL;
    int r = c->place.tcp ? read_token_variable("SANDBOXER_TOKEN", &token, e) : 0;

    if (r < 0 || (r = read_token_variable("SANDBOXER_PEER", &peer, e)) < 0)
        return r;
    if (token)
        snprintf(c->authorization, sizeof c->authorization, "Bearer %s", token);
    if (peer)
        snprintf(c->peer, sizeof c->peer, "%s", peer);
    return 0;
}

int contact_open(struct contact *c, const char *server, enum contact_start start, struct err *e)
{
    int r;

    *c = (struct contact){ .fd = -1 };
    r = place_find(server, &c->place, e);
    if (r >= 0)
        r = take_tokens(c, e);
    if (r < 0)
        return r;
    if (c->place.tcp)
        return connect_tcp(&c->place, &c->fd, e);
    r = contact_connect(&c->place, &c->fd, e);
    if (r == -ERR_NOT_FOUND && start == CONTACT_MAY_START && c->place.may_start &&
        !from_environment("SANDBOXER_NO_DAEMON"))
        r = start_and_connect(&c->place, &c->fd, e);
    return r;
}

void contact_done(struct contact *c)
{
    drop_fd(&c->fd);
}
