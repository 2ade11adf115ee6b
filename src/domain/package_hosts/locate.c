/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves the names of the operator's mirrors, each in a process of its own, so that a name server
 * that does not answer delays the start only once. */
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "domain/package_hosts/package_hosts.h"

enum { LOOKUP_MS = 3000 };

struct host_lookup {
    pid_t pid; /* 0: none */
    int fd;
};

/* Strips the port; false for an address. */
static bool read_lookup_name(const char *host, char name[static HOST_MAX + 1])
{
    struct host h;
    uint16_t port;

    if (authority_parse(str_from(host), 0, &h, &port, NULL) < 0 || h.is_address ||
        host_names_loopback(str_from(h.name)))
        return false;
    memcpy(name, h.name, sizeof h.name);
    return true;
}

static void write_found_addresses(int fd, const char *name)
{
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct address list[PACKAGE_HOSTS_ADDRESSES_MAX + 1] = { 0 };
    struct addrinfo *found = NULL;
    size_t n = 0;

    if (getaddrinfo(name, NULL, &hints, &found) != 0)
        return;
    for (const struct addrinfo *i = found; i && n < COUNT_OF(list); i = i->ai_next)
        n += address_from_sockaddr(i->ai_addr, &list[n], NULL);
    (void)!write(fd, list, n * sizeof *list);
}

static struct host_lookup start_host_lookup(const char *name)
{
    struct host_lookup s = { .fd = -1 };
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return s;
    s.fd = ends[0];
    s.pid = fork();
    if (s.pid == 0) {
        write_found_addresses(ends[1], name);
        _exit(0);
    }
    close(ends[1]);
    if (s.pid < 0)
        s.pid = 0;
    return s;
}

/* Returns the number of addresses found until the deadline. */
static size_t end_host_lookup(struct host_lookup *s, int64_t deadline,
                              struct address list[static PACKAGE_HOSTS_ADDRESSES_MAX + 1])
{
    struct pollfd in = { .fd = s->fd, .events = POLLIN };
    ssize_t got = 0;

    if (s->pid > 0 && poll(&in, 1, clock_poll_ms(deadline)) > 0)
        got = read(s->fd, list, (PACKAGE_HOSTS_ADDRESSES_MAX + 1) * sizeof *list);
    if (s->pid > 0) {
        kill(s->pid, SIGKILL);
        waitpid(s->pid, NULL, 0);
    }
    drop_fd(&s->fd);
    return got > 0 ? (size_t)got / sizeof *list : 0;
}

/* Appends the addresses to the name; false if it stays unchanged. */
static bool put_host_addresses(struct package_hosts *p, size_t i, const struct address *list,
                               size_t n)
{
    char text[PACKAGE_HOSTS_TEXT], one[ADDRESS_TEXT_MAX];
    size_t at = strlen(p->hosts[i]);

    if (n == 0 || n > PACKAGE_HOSTS_ADDRESSES_MAX || at >= sizeof text)
        return false;
    memcpy(text, p->hosts[i], at);
    for (size_t k = 0; k < n; k++) {
        if (address_classify(&list[k]) == ADDRESS_PUBLIC || !address_grantable(&list[k]))
            return false;
        address_text(&list[k], one);
        at += (size_t)snprintf(text + at, sizeof text - at, "%c%s", k ? ',' : '=', one);
        if (at >= sizeof text)
            return false;
    }
    memcpy(p->hosts[i], text, at + 1);
    return true;
}

void package_hosts_locate(struct package_hosts *p)
{
    int64_t deadline = clock_mono() + LOOKUP_MS * NS_PER_MS;
    struct host_lookup searches[PACKAGE_HOSTS_HOSTS_MAX] = { 0 };
    struct address list[PACKAGE_HOSTS_ADDRESSES_MAX + 1];
    char name[HOST_MAX + 1];

    for (size_t i = 0; i < p->n; i++)
        searches[i] = p->own[i] && read_lookup_name(p->hosts[i], name)
                          ? start_host_lookup(name)
                          : (struct host_lookup){ .fd = -1 };
    for (size_t i = 0; i < p->n; i++)
        if (searches[i].fd >= 0)
            put_host_addresses(p, i, list, end_host_lookup(&searches[i], deadline, list));
}
