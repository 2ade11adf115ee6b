/* Where the operator's mirrors are. A process for each name, so that a server of names that does
 * not answer delays the start once. */
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "packages/packages.h"

enum { LOOKUP_MS = 3000 };

struct search {
    pid_t pid; /* 0: none */
    int fd;
};

/* Cut at the port; false for an address. */
static bool read_name(const char *host, char name[static HOST_MAX + 1])
{
    struct host h;
    uint16_t port;

    if (authority_parse(str_from(host), 0, &h, &port, NULL) < 0 || h.is_address ||
        host_names_loopback(str_from(h.name)))
        return false;
    memcpy(name, h.name, sizeof h.name);
    return true;
}

static void write_addresses(int fd, const char *name)
{
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct address list[PACKAGES_ADDRESSES_MAX + 1] = { 0 };
    struct addrinfo *found = NULL;
    size_t n = 0;

    if (getaddrinfo(name, NULL, &hints, &found) != 0)
        return;
    for (const struct addrinfo *i = found; i && n < COUNT_OF(list); i = i->ai_next)
        n += address_from_sockaddr(i->ai_addr, &list[n], NULL);
    (void)!write(fd, list, n * sizeof *list);
}

static struct search start_search(const char *name)
{
    struct search s = { .fd = -1 };
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return s;
    s.fd = ends[0];
    s.pid = fork();
    if (s.pid == 0) {
        write_addresses(ends[1], name);
        _exit(0);
    }
    close(ends[1]);
    if (s.pid < 0)
        s.pid = 0;
    return s;
}

/* How many addresses it found until then. */
static size_t end_search(struct search *s, int64_t deadline,
                         struct address list[static PACKAGES_ADDRESSES_MAX + 1])
{
    struct pollfd in = { .fd = s->fd, .events = POLLIN };
    ssize_t got = 0;

    if (s->pid > 0 && poll(&in, 1, clock_poll_ms(deadline)) > 0)
        got = read(s->fd, list, (PACKAGES_ADDRESSES_MAX + 1) * sizeof *list);
    if (s->pid > 0) {
        kill(s->pid, SIGKILL);
        waitpid(s->pid, NULL, 0);
    }
    drop_fd(&s->fd);
    return got > 0 ? (size_t)got / sizeof *list : 0;
}

bool packages_put_at(struct packages *p, size_t i, const struct address *list, size_t n)
{
    char text[PACKAGES_TEXT], one[ADDRESS_TEXT_MAX];
    size_t at = strlen(p->hosts[i]);

    if (n == 0 || n > PACKAGES_ADDRESSES_MAX || at >= sizeof text)
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

void packages_locate(struct packages *p)
{
    int64_t deadline = clock_mono() + LOOKUP_MS * NS_PER_MS;
    struct search searches[PACKAGES_HOSTS_MAX] = { 0 };
    struct address list[PACKAGES_ADDRESSES_MAX + 1];
    char name[HOST_MAX + 1];

    for (size_t i = 0; i < p->n; i++)
        searches[i] = p->own[i] && read_name(p->hosts[i], name) ? start_search(name)
                                                                : (struct search){ .fd = -1 };
    for (size_t i = 0; i < p->n; i++)
        if (searches[i].fd >= 0)
            packages_put_at(p, i, list, end_search(&searches[i], deadline, list));
}
