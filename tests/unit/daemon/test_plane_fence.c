/* SPDX-License-Identifier: Apache-2.0 */
/* What the control plane can no longer do: connect to other machines. Each attempt is made in a
 * process of its own, behind its real fence. */
#include "daemon/plane_fence.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/lib/tar/scratch.h"
#include "base/own.h"
#include "harness/tap.h"

enum { NO_FENCE = 255, LANDLOCK_NET = 4 };

static int listener = -1, client = -1, accepted = -1; /* opened before the fence */

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    a.sin_port = htons(port);
    return a;
}

/* A listener as the daemon has one, and a connection that came by it. */
static void open_listener(void)
{
    struct sockaddr_in a = loopback(0);
    socklen_t n = sizeof a;

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listener >= 0 && client >= 0);
    CHECK(bind(listener, (struct sockaddr *)&a, sizeof a) == 0 && listen(listener, 8) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&a, &n) == 0);
    CHECK(connect(client, (struct sockaddr *)&a, sizeof a) == 0);
}

/* The errno of an attempt behind the fence, 0 if it succeeds. */
static int attempt(int (*what)(void))
{
    struct scratch place = scratch_make();
    struct config config = { .state = place.path };
    const struct serve_setup setup = { .config = &config, .state = place.dir };
    pid_t child = fork();
    struct err e;
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        if (plane_fence_enter(&setup, &e) < 0) {
            fprintf(stderr, "# %s\n", e.msg);
            _exit(NO_FENCE);
        }
        _exit(what());
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) != NO_FENCE);
    return WEXITSTATUS(status);
}

static int result_of(long r)
{
    return r < 0 ? errno : 0;
}

static int open_tcp(void)
{
    return result_of(socket(AF_INET, SOCK_STREAM, 0));
}

static int open_tcp6(void)
{
    return result_of(socket(AF_INET6, SOCK_STREAM, 0));
}

static int open_udp(void)
{
    return result_of(socket(AF_INET, SOCK_DGRAM, 0));
}

static int open_local(void)
{
    return result_of(socket(AF_UNIX, SOCK_SEQPACKET, 0));
}

static int open_netlink(void)
{
    return result_of(socket(AF_NETLINK, SOCK_RAW, 0));
}

static int accept_client(void)
{
    return result_of(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
}

/* A socket that came from outside, turned around. */
static int reconnect_accepted(void)
{
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    struct sockaddr_in a = loopback(1);
    socklen_t n = sizeof a;

    accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    (void)connect(accepted, &none, sizeof none);
    getsockname(listener, (struct sockaddr *)&a, &n);
    return result_of(connect(accepted, (struct sockaddr *)&a, sizeof a));
}

TEST(the_control_plane_opens_no_connection)
{
    static const struct {
        const char *name;
        int (*what)(void);
    } attempts[] = { { "TCP", open_tcp }, { "TCP over IPv6", open_tcp6 }, { "UDP", open_udp } };

    for (size_t i = 0; i < COUNT_OF(attempts); i++)
        if (attempt(attempts[i].what) != EPERM)
            FAIL("the control plane opens a socket for %s", attempts[i].name);
}

TEST(it_still_serves_and_talks_to_sandboxes)
{
    open_listener();
    CHECK_INT(attempt(accept_client), 0);
    CHECK_INT(attempt(open_local), 0);
    CHECK_INT(attempt(open_netlink), 0);
}

TEST(an_accepted_connection_cannot_be_turned_around)
{
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) <
        LANDLOCK_NET)
        SKIP("Landlock of this kernel knows no TCP");
    open_listener();
    CHECK_INT(attempt(reconnect_accepted), EACCES);
}
