/* SPDX-License-Identifier: Apache-2.0 */
/* A whole worker, confined, in a process of its own; the test is its control plane and its
 * client. */
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/own.h"
#include "engine/egress/options.h"
#include "engine/egress/worker.h"
#include "harness/tap.h"
#include "lib/ipc/channel.h"
#include "domain/policy/egress_file.h"

#define PUBLIC "93.184.216.34"
#define ID     "sbx_test"
enum { WAIT_MS = 20000 };

static int control = -1;
static pid_t worker;

static void enter_network(void)
{
    if (unshare(CLONE_NEWNET) < 0)
        SKIP("no network namespace of our own");
    if (system("ip link set lo up && ip addr add " PUBLIC "/32 dev lo") != 0)
        SKIP("no ip(8)");
}

static void start_worker(void)
{
    struct egress_options o = { .worker = -1, .n_servers = 1 };
    int pair[2];
    struct err e;

    enter_network();
    o.servers[0] = (struct dns_server){ { .bytes = { 127, 0, 0, 1 } }, 5 };
    CHECK_OK(ipc_pair(pair, &e), e);
    worker = fork();
    CHECK(worker >= 0);
    if (worker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pair[0]);
        o.worker = pair[1];
        _exit(worker_run(&o, &e) < 0 ? 1 : 0);
    }
    close(pair[1]);
    control = pair[0];
}

static int end_worker(void)
{
    int status;

    close(control);
    CHECK(waitpid(worker, &status, 0) == worker);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- listeners as the launcher opens them ---- */

static int listen_on(uint32_t address, int type, uint16_t port)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(address) };
    int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(type == SOCK_DGRAM || listen(fd, 64) == 0);
    return fd;
}

static int open_netlink(int protocol)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);

    if (fd < 0)
        SKIP("no netlink protocol %d", protocol);
    return fd;
}

static void open_listeners(struct listeners *l)
{
    listeners_init(l);
    l->fd[LISTENER_PROXY4] = listen_on(INADDR_LOOPBACK, SOCK_STREAM, LISTENERS_PROXY_PORT);
    l->fd[LISTENER_CAPTURE4] = listen_on(INADDR_LOOPBACK, SOCK_STREAM, LISTENERS_CAPTURE_PORT);
    l->fd[LISTENER_DNS_UDP4] = listen_on(INADDR_LOOPBACK, SOCK_DGRAM, LISTENERS_DNS_PORT);
    l->fd[LISTENER_DNS_TCP4] = listen_on(INADDR_LOOPBACK, SOCK_STREAM, LISTENERS_DNS_PORT);
    l->fd[LISTENER_REJECTS] = open_netlink(NETLINK_NETFILTER);
    l->fd[LISTENER_SOCKETS] = open_netlink(NETLINK_SOCK_DIAG);
}

/* ---- messages ---- */

union message {
    struct wire_head head;
    struct wire_box box;
    struct wire_failed failed;
    struct wire_who who;
    struct wire_used used;
};

static void hear(union message *m)
{
    struct pollfd p = { .fd = control, .events = POLLIN };
    struct err e;
    ssize_t n;

    CHECK(poll(&p, 1, WAIT_MS) == 1);
    n = ipc_recv(control, m, sizeof *m, NULL, &e);
    if (n <= 0)
        FAIL("the worker is gone");
    CHECK_OK(wire_check(m, (size_t)n, &e), e);
}

/* The next message of this type; those that come unasked in between are passed over. */
static void expect(enum wire_type type, union message *m)
{
    do
        hear(m);
    while (m->head.type != type && m->head.type == WIRE_USED);
    if (m->head.type != type)
        FAIL("message %d, not %d: %s", m->head.type, type,
             m->head.type == WIRE_FAILED ? m->failed.msg : "");
}

static void send_add(const char *id, struct listeners *l, int audit, uint64_t audit_part)
{
    struct wire_add m = { .has_audit = audit >= 0, .audit_part = audit_part };
    int fds[LISTENER_COUNT_ + 1];
    size_t n = listeners_pack(l, fds, &m.slots);
    struct err e;

    if (audit >= 0)
        fds[n++] = audit;
    wire_fill(&m.head, WIRE_ADD, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id);
    CHECK_OK(ipc_send(control, &m, sizeof m, fds, n, &e), e);
}

static void send_box(enum wire_type type, const char *id, uint64_t generation, int fd)
{
    struct wire_box m = { .generation = generation };
    struct err e;

    wire_fill(&m.head, type, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id);
    CHECK_OK(ipc_send(control, &m, sizeof m, &fd, fd >= 0, &e), e);
}

static void send_room(uint64_t room, enum wire_lack lack, int fd)
{
    struct wire_audit m = { .id = ID, .room = room, .lack = lack };
    struct err e;

    wire_fill(&m.head, WIRE_AUDIT, 0, sizeof m);
    CHECK_OK(ipc_send(control, &m, sizeof m, &fd, fd >= 0, &e), e);
}

static int memory_with(struct str text)
{
    int fd = memfd_create("text", MFD_CLOEXEC);

    CHECK(fd >= 0 && write(fd, text.p, text.n) == (ssize_t)text.n);
    return fd;
}

/* A policy, under the ceiling of an administrator. */
static void send_json(const char *id, uint64_t generation, int json)
{
    struct wire_box m = { .generation = generation };
    int fds[] = { json, memory_with(STR("{\"reach\":\"local\",\"from\":\"administrators\"}")) };
    struct err e;

    wire_fill(&m.head, WIRE_POLICY, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id);
    CHECK_OK(ipc_send(control, &m, sizeof m, fds, COUNT_OF(fds), &e), e);
    close(fds[1]);
}

static void send_policy(const char *yaml, uint64_t generation)
{
    AUTO(arena_done) struct arena arena = ARENA_INIT(EGRESS_MEMORY_MAX);
    AUTO(buf_done) struct buf json = BUF_INIT(EGRESS_JSON_BYTES_MAX);
    struct egress_policy p;
    struct err e;
    int fd;

    CHECK_OK(egress_policy_read(str_from(yaml), &arena, &p, &e), e);
    CHECK_OK(egress_policy_to_json(&p, &json, &e), e);
    fd = memory_with(buf_str(&json));
    send_json(ID, generation, fd);
    close(fd);
}

#define POLICY(port, binary)                                                                       \
    "version: 1\nnetwork_policies:\n  a:\n    endpoints: [{host: " PUBLIC ", port: " port          \
    "}]\n    binaries: [{path: " binary "}]\n"

/* ---- the client inside ---- */

static int connect_to(uint16_t port)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    return fd;
}

static int ask_proxy(const char *authority)
{
    char text[256];
    int fd = connect_to(LISTENERS_PROXY_PORT);

    snprintf(text, sizeof text, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority);
    CHECK(send(fd, text, strlen(text), 0) > 0);
    return fd;
}

/* The status of what it answers. */
static int answer(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    char text[4096] = { 0 };
    int status = 0;

    CHECK(poll(&p, 1, WAIT_MS) == 1);
    CHECK(recv(fd, text, sizeof text - 1, 0) > 12);
    CHECK(sscanf(text, "HTTP/1.1 %d", &status) == 1); // NOLINT(cert-err34-c)
    return status;
}

static void send_who_is(uint32_t tag, const char *binary)
{
    struct wire_who_is m = { .known = binary != NULL, .pid = 9, .n_ancestors = 1 };
    struct err e;

    wire_fill(&m.head, WIRE_WHO_IS, tag, sizeof m);
    snprintf(m.binary, sizeof m.binary, "%s", binary ? binary : "");
    snprintf(m.ancestors[0], sizeof m.ancestors[0], "/bin/sh");
    CHECK_OK(ipc_send(control, &m, sizeof m, NULL, 0, &e), e);
}

/* A search for the program, if that is the next message, or none: the record of a denial waits for the
 * answer. */
static bool answer_search(void)
{
    struct wire_head next;
    union message m;

    if (recv(control, &next, sizeof next, MSG_PEEK) != sizeof next || next.type != WIRE_WHO)
        return false;
    hear(&m);
    send_who_is(m.head.tag, NULL);
    return true;
}

static int ask_status(const char *authority)
{
    int fd = ask_proxy(authority), status;
    struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = control, .events = POLLIN } };

    while (poll(p, COUNT_OF(p), WAIT_MS) > 0 && !p[0].revents)
        if (!answer_search())
            p[1].fd = -1;
    status = answer(fd);
    close(fd);
    return status;
}

static int listen_far(void)
{
    return listen_on(0x5db8d822, SOCK_STREAM, 7);
}

static void add_box(struct listeners *l, int audit, uint64_t audit_part)
{
    union message m;

    start_worker();
    open_listeners(l);
    send_add(ID, l, audit, audit_part);
    expect(WIRE_ADDED, &m);
    CHECK(strcmp(m.box.id, ID) == 0);
}

TEST(a_box_lives_from_add_to_remove)
{
    int far, audit, tunnel;
    struct listeners l;
    union message m;
    struct stat st;
    char byte;

    audit = memfd_create("audit", MFD_CLOEXEC);
    add_box(&l, audit, 0);
    far = listen_far();
    CHECK_INT(ask_status(PUBLIC ":7"), 403); /* nothing is allowed yet */
    send_policy(POLICY("7", "/**"), 1);
    expect(WIRE_APPLIED, &m);
    CHECK_INT(m.box.generation, 1);
    tunnel = ask_proxy(PUBLIC ":7");
    CHECK_INT(answer(tunnel), 200);
    send_policy(POLICY("8", "/**"), 2);
    expect(WIRE_APPLIED, &m);
    CHECK(recv(tunnel, &byte, 1, 0) < 0 && errno == ECONNRESET); /* closed before APPLIED is sent */
    expect(WIRE_USED, &m);
    CHECK(m.used.allowed >= 1 && m.used.denied >= 1 && m.used.connections == 1);
    send_box(WIRE_REMOVE, ID, 0, -1);
    expect(WIRE_REMOVED, &m);
    send_box(WIRE_REMOVE, ID, 0, -1);
    expect(WIRE_REMOVED, &m);
    CHECK(fstat(audit, &st) == 0 && st.st_size > 0);
    CHECK_INT(end_worker(), 0);
    listeners_done(&l);
    close(far);
    close(tunnel);
}

TEST(requests_that_cannot_be_served_are_answered_and_change_nothing)
{
    struct listeners l, again;
    union message m;
    int bad = memory_with(STR("{\"version\":1,\"what\":2}")), far;

    add_box(&l, -1, 0);
    far = listen_far();
    send_policy(POLICY("7", "/**"), 5);
    expect(WIRE_APPLIED, &m);
    send_json(ID, 6, bad);
    expect(WIRE_FAILED, &m);
    CHECK(m.failed.request == WIRE_POLICY && m.failed.generation == 6 && m.failed.msg[0]);
    send_policy(POLICY("8", "/**"), 5); /* not newer */
    expect(WIRE_FAILED, &m);
    send_box(WIRE_POLICY, ID, 7, -1); /* nothing with it */
    expect(WIRE_FAILED, &m);
    send_json("sbx_other", 7, bad);
    expect(WIRE_FAILED, &m);
    CHECK_INT(m.failed.code, ERR_NOT_FOUND);
    send_add(ID, &l, -1, 0); /* there already */
    expect(WIRE_FAILED, &m);
    CHECK_INT(m.failed.code, ERR_CONFLICT);
    listeners_init(&again);
    again.fd[LISTENER_PROXY4] = dup(bad); /* no socket */
    send_add("sbx_other", &again, -1, 0);
    expect(WIRE_FAILED, &m);
    CHECK_INT(ask_status(PUBLIC ":7"), 200); /* all is as it was */
    CHECK_INT(end_worker(), 0);
    listeners_done(&l);
    listeners_done(&again);
    close(bad);
    close(far);
}

static uint32_t spent; /* of the texts that are sent */

static void send_texts(const char *file, const char *items, uint64_t generation)
{
    struct wire_texts m = { .generation = generation,
                            .spent = spent,
                            .has_file = file != NULL,
                            .has_allow = items != NULL,
                            .name = "policy.yaml" };
    const char *const texts[] = { file, items };
    int fds[2];
    size_t n = 0;
    struct err e;

    for (size_t i = 0; i < COUNT_OF(texts); i++)
        if (texts[i])
            fds[n++] = memory_with(str_from(texts[i]));
    wire_fill(&m.head, WIRE_TEXTS, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", ID);
    CHECK_OK(ipc_send(control, &m, sizeof m, fds, n, &e), e);
    while (n > 0)
        close(fds[--n]);
}

TEST(policies_are_taken_as_people_write_them)
{
    struct listeners l;
    union message m;
    int far;

    add_box(&l, -1, 0);
    far = listen_far();
    send_texts(POLICY("7", "/**"), "x.example\n", 1);
    expect(WIRE_APPLIED, &m);
    CHECK_INT(m.box.generation, 1);
    CHECK_INT(ask_status(PUBLIC ":7"), 200);
    send_texts("version: 1\nwhat: 1\n", NULL, 2);
    expect(WIRE_FAILED, &m);
    CHECK(m.failed.request == WIRE_TEXTS && m.failed.generation == 2);
    CHECK(strstr(m.failed.msg, "policy.yaml: line 2"));
    CHECK_INT(ask_status(PUBLIC ":7"), 200); /* the one before is in force still */
    send_texts(NULL, PUBLIC ":8\n", 2);
    expect(WIRE_APPLIED, &m);
    CHECK_INT(ask_status(PUBLIC ":7"), 403);
    send_texts(POLICY("7", "/**") "    uses: 2\n", NULL, 3);
    expect(WIRE_APPLIED, &m);
    CHECK_INT(ask_status(PUBLIC ":7"), 200);
    spent = 1; /* as after a worker that died */
    send_texts(POLICY("7", "/**") "    uses: 2\n", NULL, 4);
    expect(WIRE_APPLIED, &m);
    CHECK_INT(ask_status(PUBLIC ":7"), 403);
    CHECK_INT(end_worker(), 0);
    listeners_done(&l);
    close(far);
}

/* Each is of a kind that a control plane sends, and none of them as it sends it. */
TEST(messages_that_are_not_whole_end_the_worker)
{
    struct {
        struct wire_texts m;
        char more[4096];
    } longer = { .m = { .id = ID, .generation = 1, .has_file = 1 } };
    struct wire_texts endless = { .id = ID, .generation = 1, .has_file = 1 };
    struct wire_box answer_of_ours = { .id = ID };
    const struct {
        const void *p;
        size_t n;
    } list[] = { { &longer, sizeof longer },
                 { &longer, sizeof longer.m - 1 },
                 { &longer, sizeof(struct wire_head) },
                 { &longer, 1 },
                 { &endless, sizeof endless },
                 { &answer_of_ours, sizeof answer_of_ours } };

    wire_fill(&longer.m.head, WIRE_TEXTS, 0, sizeof longer);
    wire_fill(&endless.head, WIRE_TEXTS, 0, sizeof endless);
    memset(endless.name, 'a', sizeof endless.name);
    wire_fill(&answer_of_ours.head, WIRE_APPLIED, 0, sizeof answer_of_ours);
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        struct listeners l;
        int status;
        struct err e;

        add_box(&l, -1, 0);
        CHECK_OK(ipc_send(control, list[i].p, list[i].n, NULL, 0, &e), e);
        CHECK(waitpid(worker, &status, 0) == worker && WIFEXITED(status));
        close(control);
        listeners_done(&l);
    }
}

TEST(nonsense_ends_the_worker)
{
    struct wire_head odd = { .magic = 1 };
    struct listeners l;
    struct err e;
    int status;

    add_box(&l, -1, 0);
    CHECK_OK(ipc_send(control, &odd, sizeof odd, NULL, 0, &e), e);
    CHECK(waitpid(worker, &status, 0) == worker);
    close(control);
    listeners_done(&l);
}

TEST(programs_are_known_by_the_socket_they_hold)
{
    static const struct {
        const char *binary;
        int status;
    } cases[] = { { "/usr/bin/curl", 200 }, { "/usr/bin/wget", 403 }, { NULL, 403 } };
    struct listeners l;
    union message m;
    int far;

    add_box(&l, -1, 0);
    far = listen_far();
    send_policy(POLICY("7", "/usr/bin/curl"), 1);
    expect(WIRE_APPLIED, &m);
    send_who_is(77, "/usr/bin/curl"); /* unsolicited */
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int fd = ask_proxy(PUBLIC ":7");
        struct stat st;

        expect(WIRE_WHO, &m);
        CHECK(fstat(fd, &st) == 0);
        CHECK_INT(m.who.inode, st.st_ino);
        CHECK_INT(m.who.uid, getuid());
        send_who_is(m.head.tag, cases[i].binary);
        CHECK_INT(answer(fd), cases[i].status);
        close(fd);
    }
    close(ask_proxy(PUBLIC ":7")); /* and one that does not wait for it */
    CHECK_INT(end_worker(), 0);
    listeners_done(&l);
    close(far);
}

TEST(a_full_audit_file_is_told_and_another_is_taken)
{
    int first = memfd_create("first", MFD_CLOEXEC), second = memfd_create("second", MFD_CLOEXEC);
    struct listeners l;
    union message m;
    struct stat st;

    add_box(&l, first, 10);
    CHECK_INT(ask_status("x.example:1"), 403);
    expect(WIRE_FULL, &m);
    send_room(0, WIRE_LACK_NONE, second);
    CHECK_INT(ask_status("y.example:1"), 403);
    CHECK_INT(end_worker(), 0);
    CHECK(fstat(second, &st) == 0 && st.st_size > 0);
    listeners_done(&l);
    close(first);
    close(second);
}

TEST(without_room_in_its_log_nothing_is_allowed)
{
    int far, audit = memfd_create("audit", MFD_CLOEXEC);
    struct listeners l;
    union message m;

    add_box(&l, audit, 0);
    far = listen_far();
    send_policy(POLICY("7", "/**"), 1);
    expect(WIRE_APPLIED, &m);
    CHECK_INT(ask_status(PUBLIC ":7"), 200);
    send_room(1, WIRE_LACK_NONE, -1); /* no line fits */
    CHECK_INT(ask_status(PUBLIC ":7"), 503);
    expect(WIRE_FULL, &m); /* it asks for more */
    CHECK_INT(ask_status(PUBLIC ":7"), 503);
    send_room(1, WIRE_LACK_BOX, -1); /* and there never will be */
    CHECK_INT(ask_status(PUBLIC ":7"), 503);
    send_room(1 << 20, WIRE_LACK_NONE, -1);
    CHECK_INT(ask_status(PUBLIC ":7"), 200);
    CHECK_INT(end_worker(), 0);
    listeners_done(&l);
    close(far);
    close(audit);
}

TEST(a_connection_straight_to_the_capturing_port_is_refused)
{
    struct listeners l;
    union message m;
    char byte;
    int fd;

    add_box(&l, -1, 0);
    send_policy("version: 1\nnetwork_policies: {}\n", 1);
    expect(WIRE_APPLIED, &m);
    fd = connect_to(LISTENERS_CAPTURE_PORT);
    CHECK(recv(fd, &byte, 1, 0) < 0 && errno == ECONNRESET);
    close(fd);
    CHECK_INT(end_worker(), 0);
    listeners_done(&l);
}
