/* SPDX-License-Identifier: Apache-2.0 */
/* The network boundary, with this test as its worker: what programs inside reach, what they do not,
 * and who keeps the sockets. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "box.h"
#include "lib/ipc/listeners.h"

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* What PID 1 answers: LISTENING, or FAILED. */
static int ask_listeners(struct box *b, struct listeners *ret, struct control_failed *ret_failure)
{
    static union supervisor_message m;
    struct ipc_fds fds;
    uint32_t tag = ++b->tag;
    struct err e;
    int type;

    CHECK_OK(supervisor_request(b->control, tag, CONTROL_LISTENERS, &e), e);
    type = box_hear(b, tag, &m, &fds);
    if (type == CONTROL_LISTENING)
        CHECK_OK(listeners_take(&fds, m.listening.slots, ret, &e), e);
    else if (ret_failure)
        *ret_failure = m.failed;
    return type;
}

static void open_boundary(struct box *b, struct listeners *ret)
{
    box_prepare(b);
    b->plan.flags |= PLAN_EGRESS;
    box_build(b);
    CHECK_INT(ask_listeners(b, ret, NULL), CONTROL_LISTENING);
}

static void close_boundary(struct box *b, struct listeners *l)
{
    listeners_done(l);
    box_close(b);
}

static void start_inside(struct box *b, struct job *ret, const char *const *argv)
{
    struct process_start s = { .what = START_PROGRAM, .argv = argv };

    CHECK(job_start(b, &s, ret, NULL));
}
#define INSIDE(...) ((const char *const[]){ "/opt/inside", __VA_ARGS__, NULL })

static void expect_said(struct box *b, struct job *j, const char *want)
{
    struct outcome o AUTO(outcome_done) = { 0 };

    job_finish(b, j, STR(""), &o);
    CHECK_STR(buf_str(&o.out), want);
}

static void expect_inside(struct box *b, const char *const *argv, const char *want)
{
    struct job j;

    start_inside(b, &j, argv);
    expect_said(b, &j, want);
}

static void await_readable(int fd)
{
    if (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, BOX_WAIT_MS) != 1)
        FAIL("nothing arrives at a listener");
}

static bool is_quiet(int fd)
{
    return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 0;
}

static const char *text_of(const union address *a)
{
    static char text[80];
    char host[64];

    if (a->any.sa_family == AF_INET6)
        inet_ntop(AF_INET6, &a->six.sin6_addr, host, sizeof host);
    else
        inet_ntop(AF_INET, &a->four.sin_addr, host, sizeof host);
    snprintf(text, sizeof text, "%s %u", host,
             ntohs(a->any.sa_family == AF_INET6 ? a->six.sin6_port : a->four.sin_port));
    return text;
}

/* Accepts a connection that was meant for `want` ("address port"), and answers its question. */
static void serve_tcp(int listener, const char *want)
{
    AUTO_CLOSE int conn = -1;
    union address own = { 0 };
    socklen_t n = sizeof own;
    char question[8] = "";

    await_readable(listener);
    conn = accept(listener, NULL, NULL);
    CHECK(conn >= 0 && getsockname(conn, &own.any, &n) == 0);
    CHECK_STR(str_from(text_of(&own)), want);
    CHECK_INT(read_some(conn, question, 3), 3);
    CHECK(strcmp(question, "ask") == 0);
    CHECK(send(conn, "answer", 6, MSG_NOSIGNAL) == 6);
}

static void expect_captured(struct box *b, const int listener[2], const char *host,
                            const char *port, const char *source)
{
    bool six = strchr(host, ':');
    char want[64];
    struct job j;

    snprintf(want, sizeof want, "%s %s", host, port);
    start_inside(b, &j, INSIDE("ask", "tcp", host, port, source));
    serve_tcp(listener[six], want);
    expect_said(b, &j, "answer\n");
}

/* IPv4 and IPv6 are neighbours in the list. */
static const int *pair_of(const struct listeners *l, enum listener_slot four)
{
    return &l->fd[four];
}

BOX_TEST(connections_arrive_with_the_destination_they_had)
{
    static const char *const hosts[] = {
        "192.0.2.1", "2001:db8::1", "10.0.0.1", "169.254.169.254",
        "fd00::1",   "::2",         "1.1.1.1",  "255.255.255.254"
    };
    static const char *const ports[] = { "80", "3128", "3129", "65535" };
    struct listeners l;
    struct box b;

    open_boundary(&b, &l);
    for (size_t i = 0; i < COUNT_OF(hosts); i++)
        expect_captured(&b, pair_of(&l, LISTENER_CAPTURE4), hosts[i], ports[i % 4], "any");
    /* Every address is the namespace's own, so a program may also send from any. */
    expect_captured(&b, pair_of(&l, LISTENER_CAPTURE4), "192.0.2.1", "443", "198.51.100.7");
    expect_captured(&b, pair_of(&l, LISTENER_CAPTURE4), "2001:db8::1", "443", "::1");
    CHECK(is_quiet(l.fd[LISTENER_REJECTS]));
    close_boundary(&b, &l);
}

BOX_TEST(the_proxy_is_where_the_variables_say)
{
    struct listeners l;
    struct box b;

    open_boundary(&b, &l);
    expect_captured(&b, pair_of(&l, LISTENER_PROXY4), "127.0.0.1", "3128", "any");
    expect_captured(&b, pair_of(&l, LISTENER_PROXY4), "::1", "3128", "any");
    close_boundary(&b, &l);
}

/* Answers the question with the control data it came with, as lib/ipc/listeners.h says. */
static void serve_udp(int listener)
{
    union {
        struct cmsghdr head;
        char room[256];
    } control;
    union address from;
    char question[16];
    struct iovec part = { question, sizeof question };
    struct msghdr m = { .msg_name = &from,
                        .msg_namelen = sizeof from,
                        .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof control };

    await_readable(listener);
    CHECK_INT(recvmsg(listener, &m, 0), 3);
    CHECK(memcmp(question, "ask", 3) == 0);
    part = (struct iovec){ (char[]){ 'n', 'a', 'm', 'e' }, 4 };
    CHECK_INT(sendmsg(listener, &m, 0), 4);
}

static void expect_resolved(struct box *b, const struct listeners *l, const char *server,
                            const char *source)
{
    struct job j;

    start_inside(b, &j, INSIDE("ask", "udp", server, "53", source));
    serve_udp(l->fd[strchr(server, ':') ? LISTENER_DNS_UDP6 : LISTENER_DNS_UDP4]);
    expect_said(b, &j, "name\n");
}

BOX_TEST(questions_to_any_name_server_arrive_and_are_answered_by_it)
{
    static const char *const servers[] = { "127.0.0.1", "127.0.0.53",  "8.8.8.8",
                                           "192.0.2.1", "2001:db8::1", "::1" };
    struct listeners l;
    struct box b;

    open_boundary(&b, &l);
    for (size_t i = 0; i < COUNT_OF(servers); i++) {
        expect_resolved(&b, &l, servers[i], "any");
        expect_captured(&b, pair_of(&l, LISTENER_DNS_TCP4), servers[i], "53", "any");
    }
    expect_resolved(&b, &l, "8.8.8.8", "198.51.100.7");
    CHECK(is_quiet(l.fd[LISTENER_REJECTS]) && is_quiet(l.fd[LISTENER_CAPTURE4]));
    CHECK_SH(&b, "cat /etc/resolv.conf", 0, "nameserver 127.0.0.1\n");
    close_boundary(&b, &l);
}

/* The packet in the next message of the log, whose attributes are walked to it. */
static size_t next_reject(int log, uint8_t *packet, size_t cap, uint8_t *family)
{
    uint8_t m[4096];
    struct nlmsghdr h;
    struct nlattr a;
    ssize_t n;

    await_readable(log);
    n = recv(log, m, sizeof m, 0);
    CHECK(n >= (ssize_t)(sizeof h + sizeof(struct nfgenmsg)));
    memcpy(&h, m, sizeof h);
    CHECK_INT(h.nlmsg_type, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET);
    *family = m[sizeof h];
    for (size_t at = sizeof h + sizeof(struct nfgenmsg); at + sizeof a <= h.nlmsg_len;
         at += NLMSG_ALIGN((size_t)a.nla_len)) {
        memcpy(&a, m + at, sizeof a);
        CHECK(a.nla_len >= sizeof a && at + a.nla_len <= h.nlmsg_len);
        if ((a.nla_type & NLA_TYPE_MASK) != NFULA_PAYLOAD)
            continue;
        n = a.nla_len - (ssize_t)sizeof a;
        CHECK((size_t)n <= cap);
        memcpy(packet, m + at + sizeof a, (size_t)n);
        return (size_t)n;
    }
    FAIL("a log message without a packet");
}

static void expect_rejected(struct box *b, int log, const char *host)
{
    uint8_t packet[LISTENERS_LOG_BYTES], family, address[16];
    bool six = strchr(host, ':');
    char want[16];

    snprintf(want, sizeof want, "%d\n", -EPERM);
    expect_inside(b, INSIDE("send", host, "443"), want);
    CHECK(next_reject(log, packet, sizeof packet, &family) >= (six ? 48 : 28));
    CHECK_INT(family, six ? AF_INET6 : AF_INET);
    CHECK(inet_pton(six ? AF_INET6 : AF_INET, host, address) == 1);
    CHECK(memcmp(packet + (six ? 24 : 16), address, six ? 16 : 4) == 0);
}

BOX_TEST(everything_else_is_refused_at_once_and_logged)
{
    struct listeners l;
    struct box b;

    open_boundary(&b, &l);
    expect_rejected(&b, l.fd[LISTENER_REJECTS], "192.0.2.1");
    expect_rejected(&b, l.fd[LISTENER_REJECTS], "2001:db8::1");
    expect_rejected(&b, l.fd[LISTENER_REJECTS], "224.0.0.1");
    expect_rejected(&b, l.fd[LISTENER_REJECTS], "255.255.255.255");
    expect_rejected(&b, l.fd[LISTENER_REJECTS], "ff02::1");
    expect_inside(&b, INSIDE("sockets"),
                  "ping4: no\nping6: no\nraw4: no\nraw6: no\nraw icmp: no\npacket: no\n"
                  "netfilter: no\nsock_diag: no\nsctp: no\ndccp: no\n");
    close_boundary(&b, &l);
}

/* However much is refused, the log takes little of it. */
BOX_TEST(the_log_has_a_rate)
{
    uint8_t packet[LISTENERS_LOG_BYTES], family;
    struct listeners l;
    struct box b;
    int n = 0;

    open_boundary(&b, &l);
    CHECK_SH(&b,
             "for i in 1 2 3 4 5 6 7 8 9 10; do for j in 1 2 3 4 5 6 7 8 9 10; do"
             " /opt/inside send 192.0.2.1 9 >/dev/null; done; done",
             0, "");
    for (; !is_quiet(l.fd[LISTENER_REJECTS]); n++)
        next_reject(l.fd[LISTENER_REJECTS], packet, sizeof packet, &family);
    if (n < 20 || n > 90)
        FAIL("%d of 100 rejected packets are in the log", n);
    close_boundary(&b, &l);
}

BOX_TEST(loopback_is_the_sandboxs_own)
{
    struct listeners l;
    struct box b;

    open_boundary(&b, &l);
    expect_inside(&b, INSIDE("loopback"),
                  "127.0.0.1 1 1\n127.0.0.2 1 1\n127.255.255.254 1 1\n::1 1 1\n");
    CHECK(is_quiet(l.fd[LISTENER_CAPTURE4]) && is_quiet(l.fd[LISTENER_CAPTURE6]));
    CHECK(is_quiet(l.fd[LISTENER_REJECTS]));
    close_boundary(&b, &l);
}

BOX_TEST(the_capture_port_itself_is_no_door)
{
    static const char *const hosts[] = { "127.0.0.1", "::1" };
    struct listeners l;
    struct box b;
    char want[16];

    open_boundary(&b, &l);
    snprintf(want, sizeof want, "%d\n", -ECONNREFUSED);
    for (size_t i = 0; i < COUNT_OF(hosts); i++)
        expect_inside(&b, INSIDE("ask", "tcp", hosts[i], "3129", "any"), want);
    CHECK(is_quiet(l.fd[LISTENER_CAPTURE4]) && is_quiet(l.fd[LISTENER_CAPTURE6]));
    close_boundary(&b, &l);
}

/* A worker that dies takes nothing with it: who connects meanwhile waits for the next one, and
 * nobody inside gets the ports. */
BOX_TEST(a_new_worker_goes_on_where_the_last_one_died)
{
    struct listeners l;
    struct box b;
    struct job j;

    open_boundary(&b, &l);
    expect_captured(&b, pair_of(&l, LISTENER_CAPTURE4), "192.0.2.1", "80", "any");
    listeners_done(&l);
    start_inside(&b, &j, INSIDE("ask", "tcp", "192.0.2.1", "80", "any"));
    expect_inside(&b, INSIDE("take"), "");
    CHECK_INT(ask_listeners(&b, &l, NULL), CONTROL_LISTENING);
    serve_tcp(l.fd[LISTENER_CAPTURE4], "192.0.2.1 80");
    expect_said(&b, &j, "answer\n");
    expect_rejected(&b, l.fd[LISTENER_REJECTS], "192.0.2.1"); /* the log is bound as before */
    close_boundary(&b, &l);
}

static void end_without_launcher(struct box *b)
{
    union launch_answer answer;
    struct launcher l;
    struct err e;

    CHECK_OK(launcher_start(&l, &e), e);
    CHECK_OK(supervisor_request(b->control, ++b->tag, CONTROL_END, &e), e);
    CHECK_INT(poll(&(struct pollfd){ .fd = b->pidfd, .events = POLLIN }, 1, BOX_WAIT_MS), 1);
    CHECK_OK(launcher_destroy(&l, b->plan.id, &e), e);
    CHECK_OK(launcher_answer(&l, &answer, NULL, &e), e);
    CHECK_INT(answer.destroyed.leftover, 0);
    launcher_done(&l);
    drop_fd(&b->control);
    drop_fd(&b->pidfd);
    box_reap_orphans();
}

BOX_TEST(they_outlive_the_launcher)
{
    struct listeners l;
    struct place p;
    struct box b;

    place_init(&p);
    box_open_listening(&b, &p, PLAN_EGRESS);
    CHECK(kill(b.launcher.pid, SIGKILL) == 0);
    launcher_done(&b.launcher);
    box_reconnect(&b, &p);
    CHECK_INT(ask_listeners(&b, &l, NULL), CONTROL_LISTENING);
    expect_captured(&b, pair_of(&l, LISTENER_CAPTURE4), "2001:db8::1", "80", "any");
    listeners_done(&l);
    end_without_launcher(&b);
    place_done(&p);
}

/* PID 1 has ten more descriptors; what it starts has none of them, and none can be fetched. */
BOX_TEST(programs_get_none_of_them)
{
    struct listeners l;
    struct box b;

    open_boundary(&b, &l);
    expect_inside(&b, INSIDE("descriptors"), "3\n");
    CHECK_SH(&b, "ls /proc/1/fd 2>/dev/null | wc -l", 0, "0\n");
    close_boundary(&b, &l);
}

/* Root inside, with every capability there is to be had. */
BOX_TEST(the_sandboxs_root_changes_nothing)
{
    char want[256];
    struct listeners l;
    struct box b;

    box_prepare(&b);
    b.plan.flags |= PLAN_EGRESS;
    b.plan.caps = plan_grantable_caps();
    box_build(&b);
    CHECK_INT(ask_listeners(&b, &l, NULL), CONTROL_LISTENING);
    snprintf(want, sizeof want,
             "new routes %d %d\nold routes %d %d\naddress %d\nlink %d\nrules %d\nlog %d\n"
             "transparent %d\n",
             -EPERM, -EPERM, -EPERM, -EPERM, -EPERM, -EPERM, -EPROTONOSUPPORT, -EPROTONOSUPPORT,
             -EPERM);
    expect_inside(&b, INSIDE("change"), want);
    expect_inside(&b, INSIDE("take"), "");
    expect_captured(&b, pair_of(&l, LISTENER_CAPTURE4), "192.0.2.1", "80", "any");
    close_boundary(&b, &l);
}

/* For a worker that wants to know whose a connection is. */
BOX_TEST(the_diagnostic_socket_sees_the_sandboxs_sockets)
{
    struct {
        struct nlmsghdr head;
        uint8_t family, protocol, extensions, pad;
        uint32_t states;
        uint8_t id[48];
    } q = { .head = { sizeof q, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1, 0 },
            .family = AF_INET,
            .protocol = IPPROTO_TCP,
            .states = 1 << TCP_LISTEN };
    struct nlmsghdr answer[256];
    struct listeners l;
    struct box b;

    open_boundary(&b, &l);
    CHECK(l.fd[LISTENER_SOCKETS] >= 0);
    CHECK(send(l.fd[LISTENER_SOCKETS], &q, sizeof q, 0) == (ssize_t)sizeof q);
    await_readable(l.fd[LISTENER_SOCKETS]);
    CHECK(recv(l.fd[LISTENER_SOCKETS], answer, sizeof answer, 0) > (ssize_t)sizeof answer[0]);
    CHECK_INT(answer[0].nlmsg_type, SOCK_DIAG_BY_FAMILY);
    close_boundary(&b, &l);
}

static const char ruleset[] =
    "table inet sandboxer {\n"
    "\tchain capture {\n"
    "\t\ttype filter hook prerouting priority mangle; policy accept;\n"
    "\t\tip daddr 127.0.0.0/8 return\n"
    "\t\tip6 daddr ::1 return\n"
    "\t\ttcp dport 53 return\n"
    "\t\tmeta l4proto tcp tproxy to :3129\n"
    "\t}\n"
    "\n"
    "\tchain guard {\n"
    "\t\ttype filter hook output priority filter; policy drop;\n"
    "\t\tip daddr 127.0.0.1 tcp dport 3129 reject with tcp reset\n"
    "\t\tip6 daddr ::1 tcp dport 3129 reject with tcp reset\n"
    "\t\tip daddr 127.0.0.0/8 accept\n"
    "\t\tip6 daddr ::1 accept\n"
    "\t\tmeta l4proto tcp accept\n"
    "\t\tudp dport 53 accept\n"
    "\t\tudp sport 53 accept\n"
    "\t\tlimit rate 10/second burst 20 packets log prefix \"egress\" group 1 snaplen 128\n"
    "\t}\n"
    "}\n";

/* Whoever made the namespaces may look into them: root from PID 1's, a plain user from its
 * launcher's, which stays in the last network namespace that it made. */
BOX_TEST(nft_reads_the_rules_as_they_are_written)
{
    char command[128], text[4096];
    struct listeners l;
    struct box b;
    size_t n;
    FILE *f;

    if (system("PATH=$PATH:/usr/sbin nft --version >/dev/null 2>&1") != 0)
        SKIP("the nft program is not installed");
    open_boundary(&b, &l);
    snprintf(command, sizeof command,
             "PATH=$PATH:/usr/sbin nsenter -t %d %s -n nft list ruleset 2>&1",
             box_is_root() ? (int)b.pid : (int)b.launcher.pid,
             box_is_root() ? "" : "-U --preserve-credentials");
    f = popen(command, "re");
    CHECK(f);
    n = fread(text, 1, sizeof text, f);
    CHECK(pclose(f) == 0);
    CHECK_STR(((struct str){ text, n }), ruleset);
    close_boundary(&b, &l);
}

/* Nothing of it is there for those who did not ask. */
BOX_TEST(without_egress_there_is_no_boundary)
{
    struct control_failed why;
    struct box b;
    char want[16];

    box_open(&b);
    CHECK_INT(ask_listeners(&b, NULL, &why), CONTROL_FAILED);
    CHECK_INT(why.code, ERR_NOT_FOUND);
    snprintf(want, sizeof want, "%d\n", -ENETUNREACH);
    expect_inside(&b, INSIDE("ask", "tcp", "192.0.2.1", "80", "any"), want);
    expect_inside(&b, INSIDE("ask", "udp", "192.0.2.1", "53", "any"), want);
    CHECK_SH(&b, "cat /etc/resolv.conf", 0, "");
    box_close(&b);
}

static void fail_to_build(struct box *b, const char *step)
{
    union launch_answer answer;
    struct err e;
    int pair[2];

    CHECK_OK(ipc_pair(pair, &e), e);
    b->fds[0] = pair[1];
    CHECK_OK(launcher_create(&b->launcher, &b->plan, b->fds, 1 + b->n_lent, &e), e);
    if (launcher_answer(&b->launcher, &answer, NULL, &e) != -ERR_BUSY || !strstr(e.msg, step))
        FAIL("step %s: %s", step, e.msg);
    close(pair[0]);
    close(pair[1]);
}

/* What the launcher has open after a failure, it keeps for the next sandbox; so a second one adds
 * nothing. */
BOX_TEST(a_failing_step_is_named_and_undone)
{
    static const char *const steps[] = {
        "routes", "rules", "listeners", "release", "join", "init"
    };

    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        struct box b;
        int open_after;

        CHECK(setenv("SANDBOXER_TEST_FAIL_STEP", steps[i], 1) == 0);
        box_prepare(&b);
        b.plan.flags |= PLAN_EGRESS;
        fail_to_build(&b, steps[i]);
        open_after = count_descriptors(b.launcher.pid);
        fail_to_build(&b, steps[i]);
        CHECK_INT(count_descriptors(b.launcher.pid), open_after);
        drop_fd(&b.fds[1]);
        launcher_done(&b.launcher);
    }
}
