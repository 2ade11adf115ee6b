#include "init/init.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "proc/sys.h"

enum { SOCK = 3 }; /* in the child, and nothing above it */

enum look_state { LOOK_FREE, LOOK_RUNS, LOOK_ANSWERED };

union answer {
    struct control_head head;
    struct control_failed failed;
    struct control_who_is who_is;
    char room[CONTROL_WHO_IS_MAX];
};

struct look {
    enum look_state state;
    int conn; /* -1 when that is gone */
    uint32_t tag;
    pid_t pid;
    int sock;
    int64_t deadline;
    union answer answer;
    struct ipc_fds fds; /* with the answer */
};

static struct look looks[INIT_LOOKS_MAX];

/* In the order of their arrival. No connection takes another's places: what a client has asked is
 * read to its end even if it has died. */
static struct {
    int conn;
    struct control_who asked;
} waiting[INIT_CONNECTIONS_MAX * CONTROL_WHO_MAX];
static size_t n_waiting;

static size_t fail(union answer *a, uint32_t tag, const struct err *e)
{
    struct control_failed *m = &a->failed;

    *m = (struct control_failed){ .code = e->code, .sys = e->sys, .step = "who" };
    control_fill(&m->head, CONTROL_FAILED, tag, sizeof *m);
    snprintf(m->msg, sizeof m->msg, "%.*s", (int)sizeof m->msg - 1, e->msg);
    return sizeof *m;
}

/* The child. What PID 1 has open may not live on in it. */
static void look(const struct control_who *asked, int sock)
{
    static union answer answer;
    struct ipc_fds fds = { .n = 0 };
    struct err e = { 0 };
    size_t n = 0;
    int r;

    if (dup3(sock, SOCK, O_CLOEXEC) < 0 || sys_close_range(SOCK + 1, ~0u) < 0)
        _exit(1);
    r = who_find(asked->inode, &answer.who_is, &n, &fds, &e);
    if (r >= 0)
        control_fill(&answer.head, CONTROL_WHO_IS, asked->head.tag, n);
    else
        n = fail(&answer, asked->head.tag, &e);
    ipc_send(SOCK, &answer, n, fds.fd, r >= 0 ? fds.n : 0, NULL);
    _exit(0);
}

static int begin(struct look *l, int conn, const struct control_who *asked, struct err *e)
{
    int pair[2], r = ipc_pair(pair, e);

    if (r < 0)
        return r;
    l->pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (l->pid == 0)
        look(asked, pair[1]);
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
    l->deadline = clock_mono() + INIT_LOOK_MS * NS_PER_MS;
    l->state = LOOK_RUNS;
    return 0;
}

static struct look *find_free(void)
{
    for (size_t i = 0; i < COUNT_OF(looks); i++)
        if (looks[i].state == LOOK_FREE)
            return &looks[i];
    return NULL;
}

static size_t count_waiting(int conn)
{
    size_t n = 0;

    for (size_t i = 0; i < n_waiting; i++)
        n += waiting[i].conn == conn;
    return n;
}

int looks_add(int conn, const struct control_who *asked, struct err *e)
{
    struct look *l = n_waiting ? NULL : find_free();

    if (l)
        return begin(l, conn, asked, e);
    if (n_waiting == COUNT_OF(waiting) || count_waiting(conn) >= CONTROL_WHO_MAX)
        return err_set(e, ERR_BUSY, "%d questions wait already", CONTROL_WHO_MAX);
    waiting[n_waiting].conn = conn;
    waiting[n_waiting++].asked = *asked;
    return 0;
}

static void settle(struct look *l, const struct err *why)
{
    if (why)
        fail(&l->answer, l->tag, why);
    l->state = LOOK_ANSWERED;
}

/* What the child says, or that it ended without a word. */
static void hear(struct look *l)
{
    ssize_t n;
    struct err e;

    l->fds.n = 0;
    n = ipc_recv(l->sock, &l->answer, sizeof l->answer, &l->fds, NULL);
    if (n == -(int)ERR_BUSY)
        return;
    drop_fd(&l->sock);
    if (n > 0 && control_check(&l->answer, (size_t)n, NULL) >= 0) {
        settle(l, NULL);
        return;
    }
    ipc_fds_done(&l->fds);
    (void)err_set(&e, ERR_BUSY, "looking for it took too long, or was ended");
    settle(l, &e);
}

bool looks_hear(int fd)
{
    for (size_t i = 0; i < COUNT_OF(looks); i++)
        if (looks[i].state == LOOK_RUNS && looks[i].sock == fd) {
            hear(&looks[i]);
            return true;
        }
    return false;
}

static void take_waiting(size_t i)
{
    memmove(waiting + i, waiting + i + 1, (--n_waiting - i) * sizeof waiting[0]);
}

void looks_orphan(int conn)
{
    for (size_t i = 0; i < COUNT_OF(looks); i++)
        if (looks[i].state != LOOK_FREE && looks[i].conn == conn) {
            looks[i].conn = -1;
            looks[i].deadline = 1;
        }
    for (size_t i = n_waiting; i > 0; i--)
        if (waiting[i - 1].conn == conn)
            take_waiting(i - 1);
}

/* Until it is heard that its end is closed, its number is its own: nobody has waited for it. */
static void end_late(struct look *l, int64_t now)
{
    if (l->state != LOOK_RUNS || l->deadline > now)
        return;
    hear(l);
    if (l->state != LOOK_RUNS)
        return;
    kill(l->pid, SIGKILL);
    l->deadline = now + INIT_LOOK_MS * NS_PER_MS;
}

static void begin_waiting(void)
{
    struct look *l;

    while (n_waiting && (l = find_free())) {
        struct err e;

        if (begin(l, waiting[0].conn, &waiting[0].asked, &e) < 0) {
            l->conn = waiting[0].conn;
            l->tag = waiting[0].asked.head.tag;
            l->fds.n = 0;
            settle(l, &e);
        }
        take_waiting(0);
    }
}

void looks_enforce(void)
{
    int64_t now = clock_mono();

    for (size_t i = 0; i < COUNT_OF(looks); i++)
        end_late(&looks[i], now);
}

void looks_tell(void)
{
    for (size_t i = 0; i < COUNT_OF(looks); i++) {
        struct look *l = &looks[i];

        if (l->state != LOOK_ANSWERED)
            continue;
        if (l->conn >= 0 &&
            conns_tell(l->conn, &l->answer, l->answer.head.size, l->fds.fd, (int)l->fds.n) == 0)
            continue; /* when there is room */
        ipc_fds_done(&l->fds);
        l->state = LOOK_FREE;
    }
    begin_waiting();
}

int64_t looks_deadline(void)
{
    int64_t nearest = 0;

    for (size_t i = 0; i < COUNT_OF(looks); i++)
        if (looks[i].state == LOOK_RUNS && (!nearest || looks[i].deadline < nearest))
            nearest = looks[i].deadline;
    return nearest;
}
