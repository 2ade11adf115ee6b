/* SPDX-License-Identifier: Apache-2.0 */
/* The gate in the real kernel: processes in groups of workers try to connect. */
#include "lib/gate/gate.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/own.h"
#include "harness/tap.h"
#include "engine/runtime/cgroup.h"

enum { ROUNDS = 20000, PATIENCE_MS = 30000, UID = 61742 };

static struct err e;
static struct gate g;
static struct cgroup_host host;
static char tag[32];

static void find_host(void)
{
    if (geteuid() != 0)
        SKIP("not root: BPF programs cannot be loaded");
    snprintf(tag, sizeof tag, "test.%d", (int)getpid());
    cgroup_host_open(&host, "/sys/fs/cgroup", NULL);
    if (host.unified < 0)
        SKIP("there is no cgroup v2 hierarchy that can be written");
    if (gate_probe(&e) < 0)
        SKIP("BPF programs do not load here: %s", e.msg);
}

static void open_gate(void)
{
    find_host();
    CHECK_OK(gate_open(&g, host.unified, tag, &e), e);
}

/* --- groups on disk --- */

static size_t count_groups(void)
{
    char prefix[80];
    DIR *dir = fdopendir(openat(host.unified, ".", O_RDONLY | O_DIRECTORY));
    size_t n = 0;

    snprintf(prefix, sizeof prefix, "sandboxer-%s-egress.", tag);
    CHECK(dir);
    for (const struct dirent *d; (d = readdir(dir));)
        n += strncmp(d->d_name, prefix, strlen(prefix)) == 0;
    closedir(dir);
    return n;
}

static bool has_worker(const char *name)
{
    struct stat st;

    return fstatat(g.dir, name, &st, 0) == 0;
}

/* --- a process in a worker's group, as the worker's user --- */

typedef int work_fn(void *user); /* its exit status */

static pid_t start_worker(uint64_t number, work_fn *run, void *user)
{
    pid_t pid;

    CHECK_OK(gate_add(&g, number, &e), e);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (gate_enter(&g, &e) < 0 || setresgid(UID, UID, UID) < 0 || setresuid(UID, UID, UID) < 0)
            _exit(99);
        _exit(run(user));
    }
    gate_started(&g, pid);
    return pid;
}

static int await_worker(pid_t pid)
{
    int status;

    CHECK(waitpid(pid, &status, 0) == pid);
    gate_ended(&g, pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static struct address parse(const char *text)
{
    struct address a;

    if (!address_parse(str_from(text), &a))
        FAIL("'%s' is no address", text);
    return a;
}

/* Connecting a datagram socket sends nothing, and the gate answers before there is a route. */
static bool may_connect(const struct address *a, uint16_t port, int type)
{
    struct sockaddr_storage sa;
    socklen_t n = address_to_sockaddr(a, port, &sa);
    AUTO_CLOSE int fd = socket(sa.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        _exit(98);
    return connect(fd, (const struct sockaddr *)&sa, n) == 0 || errno != EPERM;
}

static bool may_send(const struct address *a, uint16_t port)
{
    struct sockaddr_storage sa;
    socklen_t n = address_to_sockaddr(a, port, &sa);
    AUTO_CLOSE int fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return sendto(fd, "x", 1, 0, (const struct sockaddr *)&sa, n) == 1 || errno != EPERM;
}

/* --- verdicts --- */

static int compare_with_classes(void *user)
{
    static const char *const never[] = {
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "169.254.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "10.1.2.3",
        "172.31.0.1",
        "192.168.0.1",
        "::",
        "::1",
        "::ffff:127.0.0.1",

        "fe80::1",
        "febf::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fd00::1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "ff02::1",
        "::ffff:169.254.169.254",
    };
    static const char *const always[] = { "8.8.8.8",     "1.1.1.1",    "2606:4700::1111",
                                          "100.128.0.1", "172.32.0.1", "169.253.255.255" };
    const unsigned *seed = user;

    for (size_t i = 0; i < COUNT_OF(never); i++) {
        struct address a = parse(never[i]);

        if (may_connect(&a, 80, SOCK_DGRAM) || may_connect(&a, 80, SOCK_STREAM) ||
            may_send(&a, 80)) {
            printf("# %s passes\n", never[i]);
            return 1;
        }
    }
    for (size_t i = 0; i < COUNT_OF(always); i++) {
        struct address a = parse(always[i]);

        if (!may_connect(&a, 80, SOCK_DGRAM)) {
            printf("# %s does not pass\n", always[i]);
            return 2;
        }
    }
    srandom(*seed);
    for (int i = 0; i < ROUNDS; i++) {
        struct address a = { .v6 = i % 2 };
        bool public;

        for (size_t k = 0; k < (a.v6 ? 16 : 4); k++)
            a.bytes[k] = (uint8_t)random();
        if (a.v6 && i % 4 == 1)
            a.bytes[0] = (uint8_t)(0x20 | (a.bytes[0] & 0x1f)); /* public, most of them */
        public = address_classify(&a) == ADDRESS_PUBLIC;
        if (may_connect(&a, 443, SOCK_DGRAM) != public) {
            char text[ADDRESS_TEXT_MAX];

            address_text(&a, text);
            printf("# %s is %spublic\n", text, public ? "" : "not ");
            return 3;
        }
    }
    return 0;
}

TEST(verdicts_are_those_of_the_table_of_classes)
{
    unsigned seed = (unsigned)getpid();

    open_gate();
    printf("# seed %u\n", seed);
    CHECK_INT(await_worker(start_worker(1, compare_with_classes, &seed)), 0);
    gate_close(&g);
    CHECK_INT(count_groups(), 0);
}

/* --- servers --- */

struct servers {
    struct address four, six;
    uint16_t tcp, udp;
    int listener, datagrams;
};

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage sa;
    socklen_t n = sizeof sa;
    struct address a;
    uint16_t port;

    CHECK(getsockname(fd, (struct sockaddr *)&sa, &n) == 0);
    CHECK(address_from_sockaddr((const struct sockaddr *)&sa, &a, &port));
    return port;
}

static int open_server(int type)
{
    struct sockaddr_in6 at = { .sin6_family = AF_INET6 }; /* both families, every address */
    int fd = socket(AF_INET6, type | SOCK_CLOEXEC, 0), no = 0;

    CHECK(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0);
    CHECK(bind(fd, (const struct sockaddr *)&at, sizeof at) == 0);
    CHECK(type == SOCK_DGRAM || listen(fd, 64) == 0);
    return fd;
}

static struct servers open_servers(void)
{
    struct servers s = { .four = parse("127.0.0.1"),
                         .six = parse("::1"),
                         .listener = open_server(SOCK_STREAM),
                         .datagrams = open_server(SOCK_DGRAM) };

    s.tcp = bound_port(s.listener);
    s.udp = bound_port(s.datagrams);
    return s;
}

static bool connects(const struct address *a, uint16_t port)
{
    struct sockaddr_storage sa;
    socklen_t n = address_to_sockaddr(a, port, &sa);
    AUTO_CLOSE int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return connect(fd, (const struct sockaddr *)&sa, n) == 0;
}

static int reach_nothing(void *user)
{
    const struct servers *s = user;
    static const char *const ways[] = { "127.0.0.1", "127.9.9.9", "0.0.0.0",
                                        "::1",       "::",        "::ffff:127.0.0.1" };

    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        struct address a = parse(ways[i]);

        if (connects(&a, s->tcp) || may_send(&a, s->udp)) {
            printf("# %s is reached\n", ways[i]);
            return 1;
        }
    }
    return 0;
}

/* TCP of IPv4 in both spellings, datagrams to ::1, and nothing else. */
static int reach_places(void *user)
{
    const struct servers *s = user;
    struct address mapped = parse("::ffff:127.0.0.1"), other = parse("127.0.0.2");

    if (!connects(&s->four, s->tcp) || !connects(&mapped, s->tcp) || !may_send(&s->six, s->udp))
        return 1;
    return connects(&s->six, s->tcp) || may_send(&s->four, s->udp) || connects(&other, s->tcp) ? 2
                                                                                               : 0;
}

static size_t sort_places(struct gate_place *list, size_t n)
{
    qsort(list, n, sizeof *list, gate_place_compare);
    return n;
}

/* Runs `run` after a byte on the pipe, so that places can be set before. */
struct gated {
    int go[2];
    work_fn *run;
    void *user;
};

static int run_gated(void *user)
{
    struct gated *w = user;
    char byte;

    close(w->go[1]);
    return read(w->go[0], &byte, 1) == 1 ? w->run(w->user) : 97;
}

static pid_t start_gated(uint64_t number, struct gated *w)
{
    pid_t pid;

    CHECK(pipe2(w->go, O_CLOEXEC) == 0);
    pid = start_worker(number, run_gated, w);
    close(w->go[0]);
    return pid;
}

static int finish_gated(pid_t pid, const struct gated *w)
{
    CHECK(write(w->go[1], "x", 1) == 1);
    close(w->go[1]);
    return await_worker(pid);
}

TEST(a_place_is_for_the_worker_that_it_was_set_for)
{
    struct servers s = open_servers();
    struct gated granted = { .run = reach_places, .user = &s },
                 other = { .run = reach_nothing, .user = &s };
    struct gate_place list[] = { gate_place_of(&s.four, s.tcp), gate_place_of(&s.six, s.udp) };
    pid_t pid, second;

    open_gate();
    CHECK(connects(&s.four, s.tcp)); /* who is in no group */
    CHECK_INT(await_worker(start_worker(1, reach_nothing, &s)), 0);
    pid = start_gated(2, &granted);
    second = start_gated(3, &other);
    CHECK_OK(gate_set(&g, 2, list, sort_places(list, 2), &e), e);
    CHECK_INT(finish_gated(pid, &granted), 0);
    CHECK_INT(finish_gated(second, &other), 0);
    gate_close(&g);
}

TEST(a_list_takes_the_place_of_the_one_before)
{
    struct servers s = open_servers();
    struct gated w = { .run = reach_nothing, .user = &s };
    struct gate_place list[] = { gate_place_of(&s.four, s.tcp), gate_place_of(&s.six, s.udp) };
    struct gate_place another = gate_place_of(&s.four, (uint16_t)(s.tcp ^ 1));
    pid_t pid;

    open_gate();
    pid = start_gated(7, &w);
    CHECK_OK(gate_set(&g, 7, list, sort_places(list, 2), &e), e);
    CHECK_OK(gate_set(&g, 7, &another, 1, &e), e);
    CHECK_INT(finish_gated(pid, &w), 0);
    CHECK_INT(gate_set(&g, 7, list, 2, &e), -ERR_NOT_FOUND); /* it has ended */
    gate_close(&g);
}

static int reach_exception(void *user)
{
    const struct servers *s = user;

    return may_send(&s->four, s->udp) && connects(&s->four, s->udp ^ 1) == false &&
                   !may_connect(&s->four, s->tcp, SOCK_STREAM)
               ? 0
               : 1;
}

static int reach_every_port(void *user)
{
    const struct servers *s = user;

    return connects(&s->four, s->tcp) && may_send(&s->four, s->udp) && !connects(&s->six, s->tcp)
               ? 0
               : 1;
}

TEST(an_exception_is_for_all_and_port_0_is_every_port)
{
    struct servers s = open_servers();
    struct gated w = { .run = reach_every_port, .user = &s };
    struct gate_place all = gate_place_of(&s.four, 0);
    pid_t pid;

    open_gate();
    CHECK_OK(gate_except(&g, &s.four, s.udp, &e), e);
    for (uint64_t i = 1; i < 3; i++)
        CHECK_INT(await_worker(start_worker(i, reach_exception, &s)), 0);
    pid = start_gated(5, &w);
    CHECK_OK(gate_set(&g, 5, &all, 1, &e), e);
    CHECK_INT(finish_gated(pid, &w), 0);
    gate_close(&g);
}

TEST(what_may_not_be_granted_is_refused)
{
    static const char *const never[] = { "169.254.169.254", "100.100.100.200", "fd00:ec2::254",
                                         "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe" };
    struct address loop = parse("127.0.0.1");
    struct gate_place twice[] = { gate_place_of(&loop, 80), gate_place_of(&loop, 80) };
    struct gate_place port = gate_place_of(&loop, 6443);
    static struct gate_place many[GATE_PLACES_MAX + 1];

    for (size_t i = 0; i < COUNT_OF(never); i++) {
        struct address a = parse(never[i]);
        struct gate_place p = gate_place_of(&a, 80);

        CHECK_INT(gate_places_check(&p, 1, &e), -ERR_DENIED);
    }
    CHECK_OK(gate_places_check(twice, 1, &e), e);
    CHECK_INT(gate_places_check(twice, 2, &e), -ERR_INVALID);
    CHECK_INT(gate_places_check(&port, 1, &e), -ERR_DENIED);
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = (struct gate_place){ .address = { 0xfd, 0, (uint8_t)(i >> 8), (uint8_t)i } };
    CHECK_OK(gate_places_check(many, GATE_PLACES_MAX, &e), e);
    CHECK_INT(gate_places_check(many, GATE_PLACES_MAX + 1, &e), -ERR_TOO_BIG);
}

/* --- groups --- */

static int wait_for_ever(void *user)
{
    pause();
    return 0;
}

/* A worker that was taken over may have started another process. */
static int leave_a_child(void *user)
{
    return fork() == 0 ? wait_for_ever(user) : 0;
}

static void tidy_all(void)
{
    for (int i = 0; i < PATIENCE_MS / 10 && !gate_tidy(&g); i++)
        poll(NULL, 0, 10);
}

TEST(a_group_goes_with_its_worker_and_what_it_left)
{
    open_gate();
    CHECK_INT(await_worker(start_worker(1, leave_a_child, NULL)), 0);
    CHECK(has_worker("w1"));
    tidy_all();
    CHECK_INT(g.n, 0);
    CHECK_INT(count_groups(), 0);
    CHECK_OK(gate_add(&g, 2, &e), e);
    gate_started(&g, 0); /* it could not be started */
    CHECK(gate_tidy(&g));
    CHECK_INT(count_groups(), 0); /* without workers there is none */
    gate_close(&g);
    CHECK_INT(count_groups(), 0);
}

/* A supervisor with one worker, both of which wait. */
static pid_t start_supervisor(void)
{
    int ready[2];
    pid_t pid;
    char byte;

    CHECK(pipe2(ready, O_CLOEXEC) == 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK_OK(gate_open(&g, host.unified, tag, &e), e);
        CHECK_OK(gate_add(&g, 1, &e), e);
        if (fork() == 0) {             /* outlives us */
            alarm(PATIENCE_MS / 1000); /* not for ever, if the test fails */
            CHECK_OK(gate_enter(&g, &e), e);
            CHECK(write(ready[1], "x", 1) == 1);
            close(ready[1]);
            for (;;)
                pause();
        }
        for (;;)
            pause();
    }
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    return pid;
}

TEST(groups_of_a_killed_daemon_are_removed_and_those_of_a_live_one_stay)
{
    pid_t dead, live;

    find_host();
    dead = start_supervisor();
    live = start_supervisor();
    CHECK_INT(count_groups(), 2);
    kill(dead, SIGKILL);
    CHECK(waitpid(dead, NULL, 0) == dead);
    open_gate();
    CHECK_INT(count_groups(), 1); /* the live one's; we have no worker */
    gate_close(&g);
    CHECK_INT(count_groups(), 1);
    kill(live, SIGKILL);
    CHECK(waitpid(live, NULL, 0) == live);
    open_gate();
    gate_close(&g);
    CHECK_INT(count_groups(), 0);
}

/* --- this machine's own addresses --- */

static void set_own_address(const char *text)
{
    struct ifreq q = { .ifr_name = "lo" };
    struct sockaddr_in at = { .sin_family = AF_INET };
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    CHECK(inet_pton(AF_INET, text, &at.sin_addr) == 1);
    memcpy(&q.ifr_addr, &at, sizeof at);
    CHECK(ioctl(fd, SIOCSIFADDR, &q) == 0);
}

static int reach_public(void *user)
{
    struct address *a = user;

    return may_connect(a, 80, SOCK_STREAM) ? 1 : 0;
}

TEST(own_addresses_are_denied_while_they_are_own)
{
    struct address a = parse("203.1.113.7");
    struct gate_place place = gate_place_of(&a, 80);
    struct gated w = { .run = reach_public, .user = &a };
    struct pollfd news;
    pid_t pid;

    find_host();
    CHECK(unshare(CLONE_NEWNET) == 0);
    open_gate();
    CHECK_INT(await_worker(start_worker(1, reach_public, &a)), 1);
    set_own_address("203.1.113.7");
    news = (struct pollfd){ .fd = g.news, .events = POLLIN };
    CHECK(poll(&news, 1, PATIENCE_MS) == 1);
    gate_refresh(&g);
    CHECK_INT(await_worker(start_worker(2, reach_public, &a)), 0);
    pid = start_gated(3, &w);
    CHECK_OK(gate_set(&g, 3, &place, 1, &e), e);
    CHECK_INT(finish_gated(pid, &w), 1);
    set_own_address("203.1.113.8");
    gate_refresh(&g);
    CHECK_INT(await_worker(start_worker(4, reach_public, &a)), 1);
    gate_close(&g);
}
