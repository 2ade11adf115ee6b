/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/network_internal.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/io.h"
#include "lib/ipc/channel.h"
#include "lib/proc/spawn.h"

enum {
    WORKER_UID = 61742, /* the uid of the daemon's workers, used if the system has no user of that
                           name */
    WORKER_FD = 3,
    ARGUMENTS_MAX = 5 + 2 * NETWORK_RESOLVERS_MAX,
    AUDIT_MAX = 16 << 20, /* bytes of events in memory; then they are counted and forgotten */
    END_MS = 2000,
};
#define FIRST_PING_NS (2 * NS_PER_S)

/* ---- the policy and the record ---- */

static int seal_text(const char *name, struct str text, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = memfd_create(name, MFD_CLOEXEC);
    int r = fd < 0 ? err_sys(e, "making memory for the policy") : write_all(fd, text, e);

    if (r >= 0)
        *ret = take_fd(&fd);
    return r;
}

static int take_items(struct network *n, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(TEXT_FILE_MAX);
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n->options->allow.n; i++) {
        if (strchr(n->options->allow.p[i], '\n'))
            return err_set(e, ERR_INVALID, "--allow: a destination is one line");
        r = buf_addf(&text, "%s\n", n->options->allow.p[i]);
    }
    if (r < 0)
        return err_set(e, ERR_TOO_BIG, "--allow: the destinations have more than %d bytes together",
                       TEXT_FILE_MAX);
    return seal_text("allow", buf_str(&text), &n->items, e);
}

/* Events are recorded in any case: the messages about denials come from them. */
static int make_audit(struct network *n, struct err *e)
{
    drop_fd(&n->audit);
    drop_fd(&n->seen);
    n->audit = memfd_create("audit", MFD_CLOEXEC);
    if (n->audit < 0)
        return err_sys(e, "making memory for the egress log");
    n->seen = fcntl(n->audit, F_DUPFD_CLOEXEC, 3);
    return 0;
}

static int open_network_audit(struct network *n, struct err *e)
{
    struct stat st;
    int r;

    if (!n->options->log || n->options->record)
        return make_audit(n, e);
    r = network_log_open(n->options, &n->audit, e);
    if (r < 0)
        return r;
    if (fstat(n->audit, &st) < 0)
        return err_sys(e, "--egress-log %s", n->options->log);
    if (!S_ISREG(st.st_mode))
        return 0;
    n->seen = open(n->options->log, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    n->denials.at = st.st_size;
    return 0;
}

/* ---- the worker ---- */

static void add_worker_argument(char **argv, size_t *n, const char *s)
{
    memcpy(&argv[(*n)++], &s, sizeof s); /* execve() writes to none of it */
}

int network_start_worker(struct network *n, struct err *e)
{
    AUTO_CLOSE int ours = -1, theirs = -1;
    char path[PATH_MAX], *argv[ARGUMENTS_MAX + 1] = { NULL }, *envp[] = { NULL };
    struct spawn s = { .path = path,
                       .argv = argv,
                       .envp = envp,
                       .n_fds = WORKER_FD + 1,
                       .become = geteuid() == 0,
                       .uid = WORKER_UID,
                       .gid = WORKER_UID };
    size_t at = 0;
    int pair[2], r = spawn_find("sandboxer-egress", path, sizeof path, e);

    if (r >= 0)
        r = ipc_pair(pair, e);
    if (r < 0)
        return r;
    ours = pair[0];
    theirs = pair[1];
    add_worker_argument(argv, &at, "sandboxer-egress");
    add_worker_argument(argv, &at, "--worker");
    add_worker_argument(argv, &at, "3");
    for (size_t i = 0; i < n->options->resolvers.n; i++) {
        add_worker_argument(argv, &at, "--resolver");
        add_worker_argument(argv, &at, n->options->resolvers.p[i]);
    }
    if (n->options->upstream) {
        add_worker_argument(argv, &at, "--upstream");
        add_worker_argument(argv, &at, n->options->upstream);
    }
    s.fds = (const int[]){ -1, -1, STDERR_FILENO, theirs };
    r = spawn_start(&s, &n->pid, e);
    if (r >= 0 && fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
        r = err_sys(e, "preparing the worker's socket");
    if (r >= 0)
        n->sock = take_fd(&ours);
    return r; /* of a failure the caller ends the process */
}

int network_init(struct network *n, const struct network_options *o, struct err *e)
{
    int r = 0;

    *n = (struct network)NETWORK_NONE;
    n->options = o;
    n->ping_ns = clock_mono() + FIRST_PING_NS;
    if (o->policy)
        r = seal_text("policy", buf_str(&o->text), &n->file, e);
    if (r >= 0 && o->allow.n)
        r = take_items(n, e);
    if (r >= 0)
        r = open_network_audit(n, e);
    return r < 0 ? r : network_start_worker(n, e);
}

/* A worker that has finished writing is killed rather than awaited. */
void network_done(struct network *n)
{
    network_kill(n);
    listeners_done(&n->listeners);
    drop_fd(&n->file);
    drop_fd(&n->items);
    drop_fd(&n->audit);
    drop_fd(&n->seen);
    drop_fd(&n->before);
}

bool network_worker_failed(struct network *n)
{
    int status = 0;
    bool ended = n->pid > 0 && spawn_wait(n->pid, &status, NULL) >= 0;

    n->pid = 0;
    return ended && WIFEXITED(status) && WEXITSTATUS(status) != 0;
}

/* ---- requests ---- */

static int send_worker_add(struct network *n, struct err *e)
{
    struct wire_add m = { .has_audit = 1, .audit_part = n->options->log ? 0 : AUDIT_MAX };
    int fds[LISTENER_COUNT_ + 1];
    size_t n_fds = listeners_pack(&n->listeners, fds, &m.slots);

    fds[n_fds++] = n->audit;
    if (n->life)
        network_resume_record(n, &m);
    wire_fill(&m.head, WIRE_ADD, 0, sizeof m);
    memcpy(m.id, n->id, sizeof m.id);
    return ipc_send(n->sock, &m, sizeof m, fds, n_fds, e);
}

static int send_texts(struct network *n, struct err *e)
{
    struct wire_texts m = {
        .generation = 1,
        .has_file = n->file >= 0,
        .has_allow = n->items >= 0,
        .spent = n->life > 0,
        .identify = n->options->identify,
    };
    int fds[2];
    size_t n_fds = 0;

    if (n->file >= 0)
        fds[n_fds++] = n->file;
    if (n->items >= 0)
        fds[n_fds++] = n->items;
    wire_fill(&m.head, WIRE_TEXTS, 0, sizeof m);
    memcpy(m.id, n->id, sizeof m.id);
    if (n->options->policy)
        snprintf(m.name, sizeof m.name, "%s", n->options->policy);
    return ipc_send(n->sock, &m, sizeof m, fds, n_fds, e);
}

int network_send_sandbox(struct network *n, struct err *e)
{
    int r = send_worker_add(n, e);

    return r < 0 ? r : send_texts(n, e);
}

int network_serve(struct network *n, const char *id, struct ipc_fds *fds, uint32_t slots,
                  struct err *e)
{
    int r;

    snprintf(n->id, sizeof n->id, "%s", id);
    listeners_done(&n->listeners);
    listeners_init(&n->listeners);
    r = listeners_take(fds, slots, &n->listeners, e);
    if (r >= 0)
        r = network_send_sandbox(n, e);
    return err_wrap(e, r, "handing the sandbox's network to its worker");
}

/* ---- messages ---- */

/* A reader that has gone gets nothing, and reports it. */
static void copy_record_file(const struct network *n, int fd, off_t *at)
{
    char piece[64 << 10];
    ssize_t got;

    while (fd >= 0 && (got = pread(fd, piece, sizeof piece, *at)) > 0) {
        *at += got;
        if (write_all(*n->options->record, (struct str){ piece, (size_t)got }, NULL) < 0)
            return;
    }
}

/* The end of the record before, then the record so far: lines stay whole. */
static void copy_network_record(struct network *n)
{
    if (!n->options->record)
        return;
    copy_record_file(n, n->before, &n->copied_before);
    drop_fd(&n->before);
    copy_record_file(n, n->seen, &n->copied);
}

static void keep_record_before(struct network *n)
{
    if (!n->options->record)
        return;
    copy_network_record(n);
    n->before = take_fd(&n->seen);
    n->copied_before = n->copied;
    n->copied = 0;
}

/* Beyond its ceiling, the record in memory begins again. */
static void renew_audit(struct network *n)
{
    struct wire_audit m = { .room = 0 };

    denials_read(&n->denials, n->seen);
    n->denials.at = 0;
    keep_record_before(n);
    if (make_audit(n, NULL) < 0)
        return;
    wire_fill(&m.head, WIRE_AUDIT, 0, sizeof m);
    memcpy(m.id, n->id, sizeof m.id);
    ipc_send(n->sock, &m, sizeof m, &n->audit, 1, NULL);
}

union message {
    struct wire_head head;
    struct wire_box box;
    struct wire_failed failed;
    struct wire_who who;
    struct wire_used used;
};

/* 1: received; 0: the worker has ended or sent a malformed message, which is treated alike. */
static int receive_worker_message(struct network *n, union message *m)
{
    ssize_t got = ipc_recv(n->sock, m, sizeof *m, NULL, NULL);

    if (got == -(ssize_t)ERR_BUSY)
        return -ERR_BUSY;
    if (got > 0 && wire_check(m, (size_t)got, NULL) >= 0)
        return 1;
    drop_fd(&n->sock);
    return 0;
}

int network_receive(struct network *n, enum network_news *ret, struct wire_who *who, struct err *e)
{
    union message m;
    int r = receive_worker_message(n, &m);

    *ret = r == 0 ? NETWORK_GONE : NETWORK_NOTHING;
    if (r <= 0)
        return 0;
    switch (m.head.type) {
    case WIRE_APPLIED:
        *ret = n->served ? NETWORK_NOTHING : NETWORK_READY;
        n->served = true;
        n->ready_ns = clock_mono();
        n->down_ns = 0;
        return 0;
    case WIRE_PONG:
        n->silent = 0;
        return 0;
    case WIRE_WHO:
        *ret = NETWORK_WHO;
        *who = m.who;
        return 0;
    case WIRE_USED:
        n->used = m.used;
        return 0;
    case WIRE_FULL:
        renew_audit(n);
        return 0;
    case WIRE_FAILED:
        if (!n->served)
            return err_set(e,
                           m.failed.code > ERR_OK && m.failed.code < ERR_CODE_COUNT_
                               ? (enum err_code)m.failed.code
                               : ERR_UPSTREAM,
                           "%s", m.failed.msg);
        *ret = NETWORK_GONE; /* a policy that was in force before must not end the program now */
        return 0;
    default:
        return 0;
    }
}

/* ---- who holds a connection ---- */

static bool has_ancestor(const struct control_holder *h, uint32_t exe)
{
    for (uint32_t i = 0; i < h->n_ancestors; i++)
        if (h->ancestors[i] == exe)
            return true;
    return false;
}

static bool is_program(const struct control_holder *h, uint32_t exe)
{
    return h->exe == exe;
}

/* A path that fits, or NULL. */
static const char *who_is_path(const struct control_who_is *m, uint32_t exe)
{
    struct control_exe x;
    const char *path = control_exe_at(m, exe, &x);

    return path[0] == '/' && strlen(path) < WIRE_PATH_MAX ? path : NULL;
}

/* Whether that is true of all holders behind the first. */
static bool all_match(const struct control_who_is *m, uint32_t exe,
                      bool (*match)(const struct control_holder *h, uint32_t exe))
{
    struct control_holder h;

    for (uint32_t i = 1; i < m->n_holders; i++) {
        control_holder_at(m, i, &h);
        if (!match(&h, exe))
            return false;
    }
    return true;
}

void network_who_is(const struct control_who_is *m, struct wire_who_is *ret)
{
    struct control_holder first;
    const char *path;

    *ret = (struct wire_who_is){ .known = 0 };
    if (m->n_holders == 0)
        return;
    control_holder_at(m, 0, &first);
    path = who_is_path(m, first.exe);
    if (!path || !all_match(m, first.exe, is_program))
        return;
    ret->known = 1;
    ret->pid = first.pid;
    snprintf(ret->binary, sizeof ret->binary, "%s", path);
    for (uint32_t i = 0; i < first.n_ancestors && ret->n_ancestors < WIRE_ANCESTORS_MAX; i++) {
        path = who_is_path(m, first.ancestors[i]);
        if (path && all_match(m, first.ancestors[i], has_ancestor))
            snprintf(ret->ancestors[ret->n_ancestors++], WIRE_PATH_MAX, "%s", path);
    }
}

/* An answer that the worker does not take in time counts as none: it denies. */
static void send_who_is(struct network *n, uint32_t tag, const struct control_who_is *m)
{
    struct wire_who_is is = { .known = 0 };

    if (n->sock < 0)
        return;
    if (m)
        network_who_is(m, &is);
    wire_fill(&is.head, WIRE_WHO_IS, tag, sizeof is);
    ipc_send(n->sock, &is, sizeof is, NULL, 0, NULL);
}

/* More than PID 1 lets wait could make both of us wait for each other. */
int network_add_question(struct network *n, uint32_t tag)
{
    for (int i = 0; i < CONTROL_WHO_MAX; i++) {
        if (n->questions[i].asked)
            continue;
        n->questions[i] = (struct network_question){ true, tag, n->life };
        return i;
    }
    send_who_is(n, tag, NULL);
    return -1;
}

void network_answer(struct network *n, uint32_t question, const struct control_who_is *m)
{
    struct network_question *q = &n->questions[question % CONTROL_WHO_MAX];

    if (question >= CONTROL_WHO_MAX || !q->asked)
        return;
    q->asked = false;
    if (q->life == n->life)
        send_who_is(n, q->tag, m);
}

/* ---- the end ---- */

static void await_removed(struct network *n)
{
    int64_t deadline = clock_mono() + END_MS * NS_PER_MS;
    struct pollfd in = { .fd = n->sock, .events = POLLIN };
    union message m;

    while (n->sock >= 0 && clock_mono() < deadline) {
        int r = receive_worker_message(n, &m);

        if (r > 0 && m.head.type == WIRE_REMOVED)
            return;
        if (r > 0 && m.head.type == WIRE_USED)
            n->used = m.used;
        if (r < 0)
            poll(&in, 1, clock_poll_ms(deadline));
    }
}

void network_end(struct network *n, bool quiet)
{
    struct wire_box m = { .generation = 0 };

    if (n->sock >= 0 && n->id[0]) {
        wire_fill(&m.head, WIRE_REMOVE, 0, sizeof m);
        memcpy(m.id, n->id, sizeof m.id);
        if (ipc_send(n->sock, &m, sizeof m, NULL, 0, NULL) >= 0)
            await_removed(n);
    }
    drop_fd(&n->sock);
    copy_network_record(n);
    if (quiet)
        return;
    if (n->seen >= 0)
        denials_read(&n->denials, n->seen);
    denials_print(&n->denials);
}
