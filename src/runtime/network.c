#include "runtime/network.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"

static int raise_loopback(struct err *e)
{
    AUTO_CLOSE int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = { .ifr_name = "lo" };

    if (sock < 0)
        return err_sys(e, "opening a socket");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(sock, SIOCSIFFLAGS, &request) < 0)
        return err_sys(e, "bringing loopback up");
    return 0;
}

static int fill_namespace(int *ret, struct err *e)
{
    AUTO_CLOSE int net = openat(AT_FDCWD, "/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int r;

    if (net < 0)
        return err_sys(e, "opening /proc/self/ns/net");
    r = raise_loopback(e);
    if (r < 0)
        return r;
    *ret = take_fd(&net);
    return 0;
}

int network_make(int home, int *ret, struct err *e)
{
    AUTO_CLOSE int net = -1;
    int r;

    if (unshare(CLONE_NEWNET) < 0)
        return err_sys(e, "making a network namespace");
    r = fill_namespace(&net, e);
    if (home >= 0 && setns(home, CLONE_NEWNET) < 0)
        return err_sys(e, "returning to our own network namespace");
    if (r >= 0)
        *ret = take_fd(&net);
    return r;
}
