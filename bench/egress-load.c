/* SPDX-License-Identifier: Apache-2.0 */
/* egress-load: the clients of bench/egress, in one thread.
 *
 *   egress-load MODE PROXY-PORT ORIGIN-PORT CONNECTIONS MOST-OPERATIONS MOST-MS [BYTES]
 *
 * All is on 127.0.0.1; without a proxy (port 0) the origin is asked directly. MODE is
 *   forward   GET http://… again and again on connections that stay
 *   tunnel    the same through tunnels that stay, made before the clock starts
 *   connect   connection, CONNECT, GET, the answer, the end: one operation
 *   each      the same one after the other, and how long each took
 *   bulk      tunnels and one GET of BYTES each; the bytes are counted and thrown away
 *   idle      opens tunnels, prints that they are open, and holds them until stdin ends
 * Prints operations, bytes, nanoseconds, failures and the like as JSON. A proxy may end a
 * connection between two requests: that is counted, and no failure. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "die.h"

enum { ROOM = 256 << 10, TEXT = 256, HEAD_MAX = 2048, EACH_MAX = 1000 };
enum mode { FORWARD, TUNNEL, CONNECT, EACH, BULK, IDLE, MODES };

static const struct {
    const char *name;
    int tunnels, absolute, closes;
} modes[MODES] = {
    [FORWARD] = { "forward", 0, 1, 0 }, [TUNNEL] = { "tunnel", 1, 0, 0 },
    [CONNECT] = { "connect", 1, 0, 1 }, [EACH] = { "each", 1, 0, 1 },
    [BULK] = { "bulk", 1, 0, 0 },       [IDLE] = { "idle", 1, 0, 0 },
};

enum state { CONNECTING, ASKING, READING };

struct conn {
    enum state state;
    int fd;
    int in_body;
    long long left; /* of the body */
    size_t n;
    char head[HEAD_MAX + 1];
};

static struct {
    enum mode mode;
    int epoll, tunnels;
    struct sockaddr_in to;
    char ask[TEXT], get[TEXT];
    size_t ask_n, get_n;
    long long most, bytes, done, failed, standing, redialled;
    int64_t begin, until, each[EACH_MAX];
} run;

static void watch(struct conn *c, int op, unsigned events)
{
    struct epoll_event ev = { .events = events, .data.ptr = c };

    if (epoll_ctl(run.epoll, op, c->fd, &ev) < 0)
        die("epoll_ctl");
}

static int is_over(void)
{
    return run.done + run.failed + run.redialled / 2 >= run.most ||
           (run.until && clock_mono() >= run.until);
}

static void dial(struct conn *c)
{
    int yes = 1;

    *c = (struct conn){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) };
    if (c->fd < 0)
        die("socket");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(c->fd, (struct sockaddr *)&run.to, sizeof run.to) < 0 && errno != EINPROGRESS)
        die("connect");
    watch(c, EPOLL_CTL_ADD, EPOLLOUT);
}

/* Again from the beginning, if there is time. */
static void redial(struct conn *c)
{
    close(c->fd);
    c->fd = -1;
    if (!is_over())
        dial(c);
}

/* The connection is dead: a failure, unless it ended before anything of an answer came. */
static void fail(struct conn *c)
{
    if (run.mode == FORWARD && c->state == READING && c->n == 0)
        run.redialled++;
    else
        run.failed++;
    redial(c);
}

static void put(struct conn *c, const char *text, size_t n)
{
    c->n = 0;
    c->in_body = 0;
    if (send(c->fd, text, n, MSG_NOSIGNAL) != (ssize_t)n)
        fail(c);
}

static void get(struct conn *c)
{
    c->state = READING;
    put(c, run.get, run.get_n);
}

/* A mode whose tunnels stay starts its clock when all of them are open. */
static void stand(struct conn *c)
{
    run.standing++;
    c->state = READING;
    if (run.mode != TUNNEL && run.mode != BULK && run.mode != IDLE)
        get(c);
}

static void connected(struct conn *c)
{
    int error = 0;
    socklen_t n = sizeof error;

    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &n);
    if (error) {
        fail(c);
        return;
    }
    watch(c, EPOLL_CTL_MOD, EPOLLIN);
    if (run.tunnels) {
        c->state = ASKING;
        put(c, run.ask, run.ask_n);
    } else {
        stand(c);
    }
}

static void answered(struct conn *c)
{
    if (run.mode == EACH && run.done < EACH_MAX)
        run.each[run.done] = clock_mono();
    run.done++;
    if (modes[run.mode].closes)
        redial(c);
    else if (!is_over())
        get(c);
}

/* The head, and where its body begins; 0: there is more of it to come. */
static size_t read_head(struct conn *c, const char *bytes, size_t n)
{
    size_t had = c->n, take = n < HEAD_MAX - had ? n : HEAD_MAX - had;
    const char *end, *length;

    memcpy(c->head + had, bytes, take);
    c->n += take;
    c->head[c->n] = '\0';
    end = strstr(c->head, "\r\n\r\n");
    if (!end)
        return 0;
    length = strcasestr(c->head, "\ncontent-length:");
    c->left = length && length < end ? strtoll(length + 16, NULL, 10) : 0;
    return (size_t)(end + 4 - c->head) - had;
}

static int is_good(const struct conn *c)
{
    return memcmp(c->head, "HTTP/1.", 7) == 0 && memcmp(c->head + 8, " 200", 4) == 0;
}

static void take(struct conn *c, const char *bytes, size_t n)
{
    size_t head = c->in_body ? 0 : read_head(c, bytes, n);

    if (!c->in_body && head == 0)
        return;
    if (!c->in_body && !is_good(c)) {
        if (run.failed == 0)
            fprintf(stderr, "egress-load: answered with %.*s\n", 64, c->head);
        fail(c);
        return;
    }
    if (c->state == ASKING) {
        stand(c);
        return;
    }
    c->in_body = 1;
    c->left -= (long long)(n - head);
    run.bytes += (long long)(n - head);
    if (c->left <= 0 && !modes[run.mode].closes)
        answered(c);
}

static void readable(struct conn *c)
{
    static char room[ROOM];
    /* The kernel throws a body away without copying it. */
    int flags = run.mode == BULK && c->in_body ? MSG_TRUNC : 0;
    ssize_t n = recv(c->fd, room, sizeof room, flags);

    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0)
        take(c, room, (size_t)n);
    else if (n == 0 && modes[run.mode].closes && c->in_body && c->left <= 0)
        answered(c);
    else
        fail(c);
}

static void turn(int patience_ms)
{
    struct epoll_event events[128];
    int n = epoll_wait(run.epoll, events, 128, patience_ms);

    for (int i = 0; i < n; i++) {
        struct conn *c = events[i].data.ptr;

        if (c->state == CONNECTING)
            connected(c);
        else
            readable(c);
    }
}

/* Opens all; those that stay are open afterwards, or the time was over. */
static void open_all(struct conn *all, long long n, int stays, int64_t until)
{
    for (long long i = 0; i < n; i++) {
        dial(&all[i]);
        /* Not more at once than a backlog takes. */
        while (stays && i - run.standing >= 64 && !run.failed && clock_mono() < until)
            turn(100);
    }
    while (stays && run.standing < n && !run.failed && clock_mono() < until)
        turn(100);
}

static int64_t measure(struct conn *all, long long n, int64_t most_ns)
{
    int stays = run.mode == TUNNEL || run.mode == BULK || run.mode == IDLE;

    run.begin = clock_mono();
    run.until = stays ? 0 : run.begin + most_ns;
    open_all(all, n, stays, run.begin + most_ns);
    if (run.mode == IDLE || (stays && run.standing < n))
        return clock_mono() - run.begin;
    if (stays) {
        run.begin = clock_mono();
        run.until = run.begin + most_ns;
        for (long long i = 0; i < n; i++)
            get(&all[i]);
    }
    while (!is_over())
        turn(100);
    return clock_mono() - run.begin;
}

static void prepare(char **argv, long long bytes)
{
    const char *origin = argv[3];
    int proxied = strtol(argv[2], NULL, 10) != 0;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    run.to =
        (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    run.to.sin_port = htons((uint16_t)strtol(proxied ? argv[2] : origin, NULL, 10));
    run.tunnels = proxied && modes[run.mode].tunnels;
    run.most = strtoll(argv[5], NULL, 10);
    run.ask_n = (size_t)snprintf(run.ask, TEXT,
                                 "CONNECT 127.0.0.1:%s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\n\r\n",
                                 origin, origin);
    run.get_n = (size_t)snprintf(
        run.get, TEXT, "GET %s%s/%lld HTTP/1.1\r\nHost: 127.0.0.1:%s\r\n%s\r\n",
        modes[run.mode].absolute ? "http://127.0.0.1:" : "", modes[run.mode].absolute ? origin : "",
        bytes, origin, modes[run.mode].closes ? "Connection: close\r\n" : "");
    run.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (run.epoll < 0)
        die("epoll");
}

static int find_mode(const char *name)
{
    for (run.mode = 0; run.mode < MODES; run.mode++)
        if (strcmp(modes[run.mode].name, name) == 0)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    long long connections = argc > 4 ? strtoll(argv[4], NULL, 10) : 0;
    struct conn *all;
    int64_t took;

    if (argc < 7 || !find_mode(argv[1]) || connections < 1) {
        fprintf(stderr, "usage: egress-load MODE PROXY ORIGIN CONNECTIONS MOST MOST-MS [BYTES]\n");
        return 2;
    }
    prepare(argv, argc > 7 ? strtoll(argv[7], NULL, 10) : 1024);
    all = calloc((size_t)connections, sizeof *all);
    if (!all)
        die("calloc");
    took = measure(all, connections, strtoll(argv[6], NULL, 10) * 1000000);
    printf("{\"done\":%lld,\"bytes\":%lld,\"ns\":%lld,\"failed\":%lld,\"standing\":%lld,"
           "\"redialled\":%lld,\"each\":[",
           run.done, run.bytes, (long long)took, run.failed, run.standing, run.redialled);
    for (long long i = 0; run.mode == EACH && i < run.done && i < EACH_MAX; i++)
        printf("%s%lld", i ? "," : "",
               (long long)(run.each[i] - (i ? run.each[i - 1] : run.begin)));
    printf("]}\n");
    fflush(stdout);
    while (run.mode == IDLE && getchar() != EOF)
        ;
    return 0;
}
