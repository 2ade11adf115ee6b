/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/init/init.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/proc/sys.h"

enum { SCAN_SOCKET = 3 }; /* in the child; nothing is open above it */

enum owner_scan_state { SCAN_FREE, SCAN_RUNNING, SCAN_ANSWERED };

union owner_scan_answer {
    struct control_head head;
    struct control_failed failed;
    struct control_who_is who_is;
    char room[CONTROL_WHO_IS_MAX];
};

struct owner_scan {
    enum owner_scan_state state;
    int conn; /* -1: closed */
    uint32_t tag;
    pid_t pid;
    int sock;
    int64_t deadline;
    union owner_scan_answer answer;
    struct ipc_fds fds; /* with the answer */
};

static struct owner_scan owner_scans[INIT_OWNER_SCANS_MAX];

/* In order of arrival. Each connection has its own share of places: the requests of a client that
 * died are still read to the end. */
static struct {
    int conn;
    struct control_who asked;
} waiting[INIT_CONNECTIONS_MAX * CONTROL_WHO_MAX];
static size_t n_waiting;

static size_t fill_scan_failure(union owner_scan_answer *a, uint32_t tag, const struct err *e)
{
    struct control_failed *m = &a->failed;

    *m = (struct control_failed){ .code = e->code, .sys = e->sys, .step = "who" };
    control_fill(&m->head, CONTROL_FAILED, tag, sizeof *m);
    snprintf(m->msg, sizeof m->msg, "%.*s", (int)sizeof m->msg - 1, e->msg);
    return sizeof *m;
}

/* Runs in the child, which closes the descriptors inherited from PID 1. */
static void run_scan(const struct control_who *asked, int sock)
{
    static union owner_scan_answer answer;
    struct ipc_fds fds = { .n = 0 };
    struct err e = { 0 };
    size_t n = 0;
    int r;

    if (dup3(sock, SCAN_SOCKET, O_CLOEXEC) < 0 || sys_close_range(SCAN_SOCKET + 1, ~0u) < 0)
        _exit(1);
    r = socket_owner_find(asked->inode, &answer.who_is, &n, &fds, &e);
    if (r >= 0)
        control_fill(&answer.head, CONTROL_WHO_IS, asked->head.tag, n);
    else
        n = fill_scan_failure(&answer, asked->head.tag, &e);
    ipc_send(SCAN_SOCKET, &answer, n, fds.fd, r >= 0 ? fds.n : 0, NULL);
    _exit(0);
}

static int begin_scan(struct owner_scan *l, int conn, const struct control_who *asked,
                      struct err *e)
{
    int pair[2], r = ipc_pair(pair, e);

    if (r < 0)
        return r;
    l->pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (l->pid == 0)
        run_scan(asked, pair[1]);
    close(pair[1]);
    if (l->pid < 0) {
        close(pair[0]);
        return err_set(
            e, ERR_BUSY,
            "the process limit of the sandbox, or of all sandboxes of its owner, is reached");
    }
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    init_watch(pair[0]);
    l->sock = pair[0];
    l->conn = conn;
    l->tag = asked->head.tag;
    l->deadline = clock_mono() + INIT_OWNER_SCAN_MS * NS_PER_MS;
    l->state = SCAN_RUNNING;
    return 0;
}

static struct owner_scan *find_free_scan(void)
{
    for (size_t i = 0; i < COUNT_OF(owner_scans); i++)
        if (owner_scans[i].state == SCAN_FREE)
            return &owner_scans[i];
    return NULL;
}

int owner_scans_add(int conn, const struct control_who *asked, struct err *e)
{
    struct owner_scan *l = n_waiting ? NULL : find_free_scan();
    size_t own = 0;

    if (l)
        return begin_scan(l, conn, asked, e);
    for (size_t i = 0; i < n_waiting; i++)
        own += waiting[i].conn == conn;
    if (n_waiting == COUNT_OF(waiting) || own >= CONTROL_WHO_MAX)
        return err_set(e, ERR_BUSY, "%d queries for socket owners are already pending",
                       CONTROL_WHO_MAX);
    waiting[n_waiting].conn = conn;
    waiting[n_waiting++].asked = *asked;
    return 0;
}

static void finish_scan(struct owner_scan *l, const struct err *why)
{
    if (why)
        fill_scan_failure(&l->answer, l->tag, why);
    l->state = SCAN_ANSWERED;
}

/* Receives the child's answer, or notes that it exited without one. */
static void receive_scan_answer(struct owner_scan *l)
{
    ssize_t n;
    struct err e;

    l->fds.n = 0;
    n = ipc_recv(l->sock, &l->answer, sizeof l->answer, &l->fds, NULL);
    if (n == -(int)ERR_BUSY)
        return;
    drop_fd(&l->sock);
    if (n > 0 && control_check(&l->answer, (size_t)n, NULL) >= 0) {
        finish_scan(l, NULL);
        return;
    }
    ipc_fds_done(&l->fds);
    (void)err_set(&e, ERR_BUSY, "the search for the socket's owner was killed or took too long");
    finish_scan(l, &e);
}

bool owner_scans_receive(int fd)
{
    for (size_t i = 0; i < COUNT_OF(owner_scans); i++)
        if (owner_scans[i].state == SCAN_RUNNING && owner_scans[i].sock == fd) {
            receive_scan_answer(&owner_scans[i]);
            return true;
        }
    return false;
}

static void remove_waiting(size_t i)
{
    memmove(waiting + i, waiting + i + 1, (--n_waiting - i) * sizeof waiting[0]);
}

void owner_scans_orphan(int conn)
{
    for (size_t i = 0; i < COUNT_OF(owner_scans); i++)
        if (owner_scans[i].state != SCAN_FREE && owner_scans[i].conn == conn) {
            owner_scans[i].conn = -1;
            owner_scans[i].deadline = 1;
        }
    for (size_t i = n_waiting; i > 0; i--)
        if (waiting[i - 1].conn == conn)
            remove_waiting(i - 1);
}

/* Kills scans that take too long. The pid is valid until the end of the socket is seen: it was not
 * reaped before. */
void owner_scans_enforce(void)
{
    int64_t now = clock_mono();

    for (size_t i = 0; i < COUNT_OF(owner_scans); i++) {
        struct owner_scan *l = &owner_scans[i];

        if (l->state != SCAN_RUNNING || l->deadline > now)
            continue;
        receive_scan_answer(l);
        if (l->state != SCAN_RUNNING)
            continue;
        kill(l->pid, SIGKILL);
        l->deadline = now + INIT_OWNER_SCAN_MS * NS_PER_MS;
    }
}

void owner_scans_answer(void)
{
    struct owner_scan *l;
    struct err e;

    for (size_t i = 0; i < COUNT_OF(owner_scans); i++) {
        l = &owner_scans[i];
        if (l->state != SCAN_ANSWERED)
            continue;
        if (l->conn >= 0 &&
            conns_send(l->conn, &l->answer, l->answer.head.size, l->fds.fd, (int)l->fds.n) == 0)
            continue; /* sent when there is room */
        ipc_fds_done(&l->fds);
        l->state = SCAN_FREE;
    }
    while (n_waiting && (l = find_free_scan())) {
        if (begin_scan(l, waiting[0].conn, &waiting[0].asked, &e) < 0) {
            l->conn = waiting[0].conn;
            l->tag = waiting[0].asked.head.tag;
            l->fds.n = 0;
            finish_scan(l, &e);
        }
        remove_waiting(0);
    }
}

int64_t owner_scans_deadline(void)
{
    int64_t nearest = 0;

    for (size_t i = 0; i < COUNT_OF(owner_scans); i++)
        if (owner_scans[i].state == SCAN_RUNNING && (!nearest || owner_scans[i].deadline < nearest))
            nearest = owner_scans[i].deadline;
    return nearest;
}
