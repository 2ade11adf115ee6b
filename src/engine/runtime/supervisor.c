/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/supervisor.h"

#include <fcntl.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"
#include "engine/runtime/user.h"
#include "lib/proc/sealed.h"

static int append_string(struct buf *b, const char *s)
{
    return buf_add(b, (struct str){ s, strlen(s) + 1 });
}

static int append_strings(struct buf *b, const char *const *list, uint32_t *count)
{
    int r = 0;

    for (*count = 0; list && list[*count] && r >= 0; (*count)++)
        r = append_string(b, list[*count]);
    return r;
}

static int append_start_text(struct buf *b, const struct process_start *s, const char *user,
                             struct control_start *head, struct err *e)
{
    int r = user ? append_string(b, user) : 0;

    if (r >= 0)
        r = append_string(b, s->cwd ? s->cwd : "");
    if (r >= 0)
        r = append_strings(b, s->argv, &head->argc);
    if (r >= 0)
        r = append_strings(b, s->envp, &head->envc);
    return r < 0 ? err_set(e, ERR_TOO_BIG, "arguments and environment take more than %d bytes",
                           CONTROL_TEXT_MAX)
                 : 0;
}

static int send_start_message(int sock, const void *m, size_t n, int text,
                              const struct process_start *s, struct err *e)
{
    int fds[IPC_FDS_MAX];
    size_t n_fds = 0;

    if (s->n_lent > START_LENT_MAX)
        return err_set(e, ERR_TOO_BIG, "%zu descriptors to pass to a program, the maximum is %d",
                       s->n_lent, START_LENT_MAX);
    if (text >= 0)
        fds[n_fds++] = text;
    for (size_t i = 0; i < s->n_lent; i++)
        fds[n_fds++] = s->lent[i];
    return ipc_send(sock, m, n, fds, n_fds, e);
}

/* Fills the head and appends the text behind it. */
static int write_start(const struct process_start *s, struct control_start *head, struct buf *b,
                       struct err *e)
{
    struct user u = { 0 };
    int r = s->user ? user_parse(s->user, &u, e) : 0;

    *head = (struct control_start){ .what = s->what,
                                    .flags = s->flags | (u.name ? CONTROL_USER_NAME : 0) |
                                             (s->n_lent ? CONTROL_LENT : 0),
                                    .uid = u.uid,
                                    .gid = u.gid,
                                    .mode = s->mode,
                                    .rows = s->rows,
                                    .cols = s->cols,
                                    .timeout_ns = s->timeout_ns,
                                    .grace_ns = s->grace_ns,
                                    .text_at = sizeof *head,
                                    .cookie = s->cookie };
    if (r >= 0)
        r = buf_add(b, (struct str){ (const char *)head, sizeof *head });
    return r < 0 ? r : append_start_text(b, s, u.name, head, e);
}

int supervisor_start(int sock, uint32_t tag, const struct process_start *s, struct err *e)
{
    struct buf m AUTO(buf_done) = BUF_INIT(CONTROL_TEXT_MAX + sizeof(struct control_start));
    struct control_start head;
    AUTO_CLOSE int text = -1;
    size_t size;
    int r = write_start(s, &head, &m, e);

    if (r < 0)
        return r;
    size = m.n;
    head.text_size = (uint32_t)(m.n - sizeof head);
    if (m.n > IPC_MESSAGE_MAX) {
        /* Text too long for a packet is sent in a memfd. */
        r = sealed_text((struct str){ m.p + sizeof head, head.text_size }, "arguments", &text, e);
        if (r < 0)
            return r;
        head.flags |= CONTROL_TEXT_FD;
        size = sizeof head;
    }
    control_fill(&head.head, CONTROL_START, tag, size);
    memcpy(m.p, &head, sizeof head);
    return send_start_message(sock, m.p, size, text, s, e);
}

int supervisor_kill(int sock, uint32_t tag, uint32_t proc, int sig, enum control_scope scope,
                    struct err *e)
{
    struct control_kill m = { .proc = proc, .sig = sig, .scope = scope };

    control_fill(&m.head, CONTROL_KILL, tag, sizeof m);
    return ipc_send(sock, &m, sizeof m, NULL, 0, e);
}

int supervisor_request(int sock, uint32_t tag, enum control_type type, struct err *e)
{
    struct control_head m;

    control_fill(&m, type, tag, sizeof m);
    return ipc_send(sock, &m, sizeof m, NULL, 0, e);
}

int supervisor_query_socket_owner(int sock, uint32_t tag, uint64_t inode, struct err *e)
{
    struct control_who m = { .inode = inode };

    control_fill(&m.head, CONTROL_WHO, tag, sizeof m);
    return ipc_send(sock, &m, sizeof m, NULL, 0, e);
}

/* Accepts only pipes and terminals from a sandbox, and makes them non-blocking. */
static int accept_stdio(struct ipc_fds *fds, struct err *e)
{
    for (size_t i = 0; i < fds->n; i++) {
        struct stat st;
        int flags = fcntl(fds->fd[i], F_GETFL);

        if (flags < 0 || fstat(fds->fd[i], &st) < 0)
            return err_sys(e, "checking a descriptor from the sandbox");
        if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
            return err_set(e, ERR_DENIED,
                           "the sandbox sent a descriptor that is neither a pipe nor a terminal");
        if (fcntl(fds->fd[i], F_SETFL, flags | O_NONBLOCK) < 0)
            return err_sys(e, "preparing a descriptor from the sandbox");
    }
    return 0;
}

static int accept_exe(int fd, const struct control_exe *x, struct err *e)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "checking an executable from the sandbox");
    if ((flags & (O_ACCMODE | O_PATH)) != O_RDONLY || !S_ISREG(st.st_mode) || st.st_dev != x->dev ||
        st.st_ino != x->ino)
        return err_set(e, ERR_DENIED, "the sandbox sent a descriptor that is not the executable");
    return 0;
}

static int accept_exes(const struct control_who_is *m, const struct ipc_fds *fds, struct err *e)
{
    size_t at = 0;
    int r = 0;

    for (uint32_t i = 0; i < m->n_exes && r >= 0; i++) {
        struct control_exe x;

        control_exe_at(m, i, &x);
        if (!(x.flags & CONTROL_EXE_FD))
            continue;
        r = at < fds->n
                ? accept_exe(fds->fd[at++], &x, e)
                : err_set(e, ERR_INVALID, "the sandbox sent an executable without its descriptor");
    }
    return r < 0 || at == fds->n
               ? r
               : err_set(e, ERR_INVALID, "the sandbox sent more descriptors than executables");
}

static int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t n = sizeof value;

    return getsockopt(fd, SOL_SOCKET, option, &value, &n) < 0 ? -1 : value;
}

/* Accepts only a TCP connection: another kind of socket could be made to block, or carry
 * descriptors. */
static int accept_socket(const struct ipc_fds *fds, struct err *e)
{
    int fd = fds->n == 1 ? fds->fd[0] : -1, flags;

    if (fd < 0)
        return err_set(e, ERR_INVALID, "the sandbox sent a connection without its socket");
    if (socket_option(fd, SO_PROTOCOL) != IPPROTO_TCP || socket_option(fd, SO_ACCEPTCONN) != 0)
        return err_set(e, ERR_DENIED, "the sandbox sent a descriptor that is not a TCP connection");
    flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return err_sys(e, "preparing a connection from the sandbox");
    return 0;
}

static int accept_dir(const struct ipc_fds *fds, struct err *e)
{
    struct stat st;

    if (fds->n != 1 || fstat(fds->fd[0], &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(e, ERR_DENIED, "the sandbox sent no descriptor of a directory");
    return 0;
}

static int accept_fds(const union supervisor_message *m, struct ipc_fds *fds, struct err *e)
{
    switch (m->head.type) {
    case CONTROL_STARTED:
    case CONTROL_ATTACHED:
        return accept_stdio(fds, e);
    case CONTROL_WHO_IS:
        return accept_exes(&m->who_is, fds, e);
    case CONTROL_DIALLED:
        return accept_socket(fds, e);
    case CONTROL_UPPER_IS:
        return accept_dir(fds, e);
    case CONTROL_LISTENING:
        return 0;
    default:
        return fds->n ? err_set(e, ERR_DENIED, "the sandbox sent unexpected descriptors") : 0;
    }
}

_Static_assert(sizeof(struct control_exited) >= sizeof(struct control_failed),
               "the largest message that has no list");

int supervisor_next(int sock, union supervisor_message *ret, struct ipc_fds *ret_fds, struct err *e)
{
    enum { KNOWN = sizeof(struct control_exited) };
    struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
    ssize_t n = ipc_recv(sock, ret, sizeof *ret, &fds, e);
    int r;

    if (n <= 0)
        return (int)n;
    r = control_check(ret, (size_t)n, e);
    /* Zeroes the fields that an older PID 1 did not send. */
    if (r >= 0 && ret->head.type != CONTROL_PROCS && ret->head.type != CONTROL_WHO_IS && n < KNOWN)
        memset(ret->room_ + n, 0, (size_t)(KNOWN - n));
    if (r >= 0)
        r = accept_fds(ret, &fds, e);
    if (r < 0)
        return r;
    *ret_fds = fds;
    fds.n = 0;
    return 1;
}
