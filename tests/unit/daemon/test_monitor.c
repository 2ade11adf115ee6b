/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor with a control plane that was taken over at the other end of its socket. */
#include "daemon/monitor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/lib/tar/scratch.h"
#include "base/own.h"
#include "harness/tap.h"
#include "lib/ipc/channel.h"
#include "engine/sync/sync.h"
#include "engine/sync/report.h"

enum { FLOOD = 100000, PATIENCE_MS = 30000 };

static struct err e;
static struct scratch s;
static int sock; /* the control plane's end */
static pid_t plane, supervisor;

/* A supervisor of a daemon with one root, the scratch directory, as root's would be. */
static void start_supervisor(void)
{
    static const char *roots[1];
    int pair[2];

    s = scratch_make();
    make_dir(s.dir, "grants");
    make_dir(s.dir, "home");
    make_dir(s.dir, "home/.ssh");
    roots[0] = s.path;
    CHECK_OK(ipc_pair(pair, &e), e);
    sock = pair[0];
    supervisor = fork();
    if (supervisor == 0) {
        static const struct config config;
        const struct monitor_options o = {
            .launcher = { .untrusted = true, .roots = roots, .n_roots = 1 },
            .domain = &config,
            .storage = -1,
            .grants = openat(s.dir, "grants", O_RDONLY)
        };

        close(pair[0]);
        plane = fork();
        if (plane == 0) {
            close(pair[1]);
            pause();
            _exit(0);
        }
        _exit(monitor_run(pair[1], plane, &o));
    }
    close(pair[1]);
}

static void stop_supervisor(void)
{
    int status;

    kill(supervisor, SIGTERM); /* which it passes on */
    CHECK(waitpid(supervisor, &status, 0) == supervisor);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 128 + SIGTERM);
}

static void ask(const struct monitor_request *a, const int *fds, size_t n)
{
    CHECK_OK(ipc_send(sock, a, sizeof *a, fds, n, &e), e);
}

/* The answer to this request; others are dropped. */
static struct monitor_answer answer_to(uint64_t id)
{
    struct pollfd wait = { .fd = sock, .events = POLLIN };
    struct monitor_answer a = { 0 };

    while (a.id != id) {
        struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };

        CHECK(poll(&wait, 1, PATIENCE_MS) == 1);
        CHECK_INT(ipc_recv(sock, &a, sizeof a, &fds, &e), (int)sizeof a);
    }
    return a;
}

static bool still_serves(void)
{
    static uint64_t id = UINT64_C(1) << 40;
    struct monitor_request a = { .kind = MONITOR_HEADERS };

    a.id = ++id;
    ask(&a, NULL, 0);
    return answer_to(id).r == -(int)ERR_INVALID; /* there are none */
}

/* What a copy that was asked for came to. */
static int sync_result(struct monitor_request *a, const int *more, size_t n)
{
    int report[2], tar[2], fds[8], manifest = memfd_create("manifest", MFD_CLOEXEC);
    struct sync_report_reader reader;
    char bytes[4096];
    ssize_t got;

    CHECK(pipe2(report, O_CLOEXEC) == 0 && pipe2(tar, O_CLOEXEC) == 0);
    fds[MONITOR_FD_REPORT] = report[1];
    fds[MONITOR_FD_TAR] = tar[0];
    fds[MONITOR_FD_MANIFEST_OUT] = manifest;
    for (size_t i = 0; i < n; i++)
        fds[MONITOR_FDS_LEAST + i] = more[i];
    ask(a, fds, MONITOR_FDS_LEAST + n);
    close(report[1]);
    close(tar[0]);
    close(tar[1]);
    sync_report_reader_init(&reader, NULL, NULL);
    while ((got = read(report[0], bytes, sizeof bytes)) > 0)
        CHECK_OK(sync_report_feed(&reader, (struct str){ bytes, (size_t)got }, &e), e);
    close(report[0]);
    return reader.ended ? reader.end.r : -(int)ERR_BUG;
}

/* One message once wrote a file of root's: root 1, path ".", uid 0, all flags. */
TEST(a_copy_without_a_grant_is_refused)
{
    struct monitor_request a = { .id = 1,
                                 .kind = MONITOR_SYNC,
                                 .receive = 1,
                                 .flags = SYNC_FORCE | SYNC_ALLOW_SENSITIVE,
                                 .root = 1,
                                 .path = "home" };

    start_supervisor();
    CHECK(sync_result(&a, NULL, 0) < 0);
    snprintf(a.sandbox, sizeof a.sandbox, "sbx_1");
    CHECK_INT(sync_result(&a, NULL, 0), -ERR_NOT_FOUND);
    snprintf(a.sandbox, sizeof a.sandbox, "../home");
    CHECK_INT(sync_result(&a, NULL, 0), -ERR_INVALID);
    a.receive = 0;
    CHECK_INT(sync_result(&a, NULL, 0), -ERR_INVALID);
    CHECK(still_serves());
    stop_supervisor();
}

TEST(a_grant_without_a_client_is_refused)
{
    struct monitor_request a = {
        .id = 1, .kind = MONITOR_GRANT, .grant = MONITOR_GRANT_NAMED, .root = 1
    };
    int pair[2], file = memfd_create("x", MFD_CLOEXEC);

    start_supervisor();
    snprintf(a.sandbox, sizeof a.sandbox, "sbx_1");
    snprintf(a.path, sizeof a.path, "home");
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    const int tries[] = { pair[0], file, sock, s.dir };

    for (size_t i = 0; i < COUNT_OF(tries); i++)
        for (uint32_t kind = MONITOR_GRANT_NAMED; kind <= MONITOR_GRANT_HANDED; kind++) {
            a.id++;
            a.grant = kind;
            ask(&a, &tries[i], 1);
            CHECK_INT(answer_to(a.id).r, -ERR_DENIED);
        }
    a.id++;
    ask(&a, NULL, 0);
    CHECK_INT(answer_to(a.id).r, -ERR_INVALID);
    CHECK(!exists(s.dir, "grants/sbx_1"));
    CHECK(still_serves());
    stop_supervisor();
}

/* Its owner's share is taken until then: it may hang in a file system, and not die. */
TEST(a_process_that_was_given_up_is_reported_when_it_ends)
{
    struct monitor_request a = { .id = 7, .kind = MONITOR_CHECK };
    struct monitor_answer given_up;

    CHECK(setenv("SANDBOXER_STOP_AT", "ask.open:1", 1) == 0);
    CHECK(setenv("SANDBOXER_TEST_DEADLINE", "1", 1) == 0);
    start_supervisor();
    snprintf(a.sandbox, sizeof a.sandbox, "sbx_1");
    ask(&a, NULL, 0);
    given_up = answer_to(7);
    CHECK_INT(given_up.r, -ERR_TIMEOUT);
    CHECK_INT(given_up.lingers, 1);
    CHECK_INT(answer_to(7).lingers, 0);
    CHECK(still_serves());
    stop_supervisor();
}

TEST(a_program_gets_no_socket_that_is_none)
{
    static const enum monitor_kind kinds[] = { MONITOR_LAUNCHER, MONITOR_EGRESS,
                                               MONITOR_LAYER_WORKER };
    int file = memfd_create("x", MFD_CLOEXEC);

    start_supervisor();
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const struct monitor_request a = { .id = i + 1, .kind = kinds[i] };

        ask(&a, &file, 1);
        CHECK_INT(answer_to(i + 1).r, -ERR_INVALID);
        ask(&a, NULL, 0);
        CHECK_INT(answer_to(i + 1).r, -ERR_INVALID);
    }
    CHECK(still_serves());
    stop_supervisor();
}

/* What the supervisor answers to a list of places. */
static int places_result(uint64_t worker, const struct gate_place *list, size_t n)
{
    static uint64_t id = UINT64_C(1) << 50;
    struct monitor_request a = { .kind = MONITOR_PLACES, .worker = worker };
    AUTO_CLOSE int fd = -1;

    a.id = ++id;
    CHECK_OK(monitor_request_make_places(list, n, &fd, &e), e);
    ask(&a, &fd, 1);
    return answer_to(id).r;
}

static struct gate_place place(const char *text, uint16_t port)
{
    struct address a;

    CHECK(address_parse(str_from(text), &a));
    return gate_place_of(&a, port);
}

TEST(a_list_of_places_is_checked_whoever_asks)
{
    static struct gate_place many[GATE_PLACES_MAX + 1];
    struct gate_place never[] = { place("169.254.169.254", 80), place("::ffff:169.254.169.254", 0),
                                  place("fd00:ec2::254", 80), place("100.100.100.200", 80),
                                  place("127.0.0.1", 6443) };
    struct gate_place unsorted[] = { place("127.0.0.2", 80), place("127.0.0.1", 80) };
    struct monitor_request a = { .id = 1, .kind = MONITOR_PLACES };
    int file = memfd_create("x", MFD_CLOEXEC), pair[2];

    start_supervisor();
    CHECK_INT(places_result(1, &unsorted[0], 1), 0); /* without a gate there is nothing to set */
    for (size_t i = 0; i < COUNT_OF(never); i++)
        CHECK_INT(places_result(1, &never[i], 1), -ERR_DENIED);
    CHECK_INT(places_result(1, unsorted, 2), -ERR_INVALID);
    CHECK_INT(places_result(1, many, COUNT_OF(many)), -ERR_TOO_BIG);
    CHECK(pipe2(pair, O_CLOEXEC) == 0 && write(file, many, sizeof many[0]) > 0);
    const int tries[] = { file, pair[0], sock, s.dir }; /* not sealed, or no files at all */

    for (size_t i = 0; i < COUNT_OF(tries); i++) {
        a.id++;
        ask(&a, &tries[i], 1);
        CHECK_INT(answer_to(a.id).r, -ERR_INVALID);
    }
    a.id++;
    ask(&a, NULL, 0);
    CHECK_INT(answer_to(a.id).r, -ERR_INVALID);
    CHECK(still_serves());
    stop_supervisor();
}

/* Messages of every kind and size, whose answers are not read. */
TEST(a_flood_is_survived)
{
    struct monitor_request a = { .kind = 0 };

    start_supervisor();
    for (uint32_t i = 0; i < FLOOD; i++) {
        a.id = i;
        a.kind = i % 3 ? i : MONITOR_END_EGRESS;
        a.flags = i;
        a.worker = i;
        (void)ipc_send(sock, &a, i % 7 ? sizeof a : 1 + i % sizeof a, NULL, 0, NULL);
    }
    CHECK(still_serves());
    stop_supervisor();
}

/* Lines of the log about requests that failed. */
static size_t count_failures(int log)
{
    static char text[1 << 20];
    ssize_t n = pread(log, text, sizeof text - 1, 0);
    size_t lines = 0;

    CHECK(n >= 0);
    text[n] = '\0';
    for (const char *at = text; (at = strstr(at, "warden.failed")); at++)
        lines++;
    return lines;
}

TEST(copies_that_cannot_be_started_do_not_fill_the_log)
{
    const struct monitor_request a = { .kind = MONITOR_SYNC, .sandbox = "sbx_1" };
    int log = memfd_create("log", MFD_CLOEXEC), usual = dup(STDERR_FILENO);

    CHECK(log >= 0 && usual >= 0 && dup2(log, STDERR_FILENO) >= 0);
    start_supervisor();
    CHECK(dup2(usual, STDERR_FILENO) >= 0);
    for (uint32_t i = 0; i < FLOOD / 10; i++)
        (void)ipc_send(sock, &a, sizeof a, NULL, 0, NULL);
    CHECK(still_serves());
    stop_supervisor();
    CHECK(count_failures(log) > 0 && count_failures(log) < FLOOD / 20);
}
