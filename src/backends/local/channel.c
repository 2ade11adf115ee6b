/* SPDX-License-Identifier: Apache-2.0 */
/* The control connection of one box: its send queue, and the dispatch of received messages. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "backends/local/local.h"

enum { MESSAGES_AT_ONCE = 16 }; /* from one box, before the others are served */

struct queued_packet {
    struct link link;
    size_t n;
    char bytes[];
};

static void on_channel(struct loop_fd *s, unsigned events);

int local_channel_open(struct local_box *b, int sock, struct err *e)
{
    int flags = fcntl(sock, F_GETFL), r;

    if (flags < 0 || fcntl(sock, F_SETFL, flags | O_NONBLOCK) < 0)
        r = err_sys(e, "preparing a control connection");
    else
        r = loop_fd_start(b->x->c->loop, &b->channel.fd, sock, LOOP_READ, on_channel, e);
    if (r < 0) {
        close(sock);
        b->channel.fd.fd = -1;
    }
    return r;
}

void local_channel_close(struct local_box *b)
{
    for (struct link *m; (m = list_take(&b->channel.outbox));)
        free(container_of(m, struct queued_packet, link));
    b->channel.n_outbox = 0;
    loop_fd_stop(&b->channel.fd);
    drop_fd(&b->channel.fd.fd);
}

bool local_channel_is_open(const struct local_box *b)
{
    return b->channel.fd.fd >= 0;
}

bool local_is_reachable(const struct local_box *b)
{
    return b->state == BOX_UP && local_channel_is_open(b);
}

static void queue_packet(struct local_box *b, const void *message, size_t n)
{
    struct queued_packet *p;

    /* A PID 1 that does not read for so long is treated as dead when its connection ends. */
    if (b->channel.n_outbox == LOCAL_OUTBOX_MAX)
        return;
    p = new0(sizeof *p + n);
    p->n = n;
    memcpy(p->bytes, message, n);
    list_append(&b->channel.outbox, &p->link);
    b->channel.n_outbox++;
    loop_fd_want(&b->channel.fd, LOOP_READ | LOOP_WRITE, NULL);
}

void local_channel_post(struct local_box *b, const void *message, size_t n)
{
    if (!local_channel_is_open(b))
        return;
    /* Any other failure means that the connection ended, which the loop will report. */
    if (b->channel.n_outbox ||
        ipc_send(b->channel.fd.fd, message, n, NULL, 0, NULL) == -(int)ERR_BUSY)
        queue_packet(b, message, n);
}

void local_channel_post_request(struct local_box *b, enum control_type type, uint32_t tag)
{
    struct control_head m;

    control_fill(&m, type, tag, sizeof m);
    local_channel_post(b, &m, sizeof m);
}

void local_channel_post_one(struct local_box *b, enum control_type type, uint32_t tag,
                            uint32_t proc)
{
    struct control_one m = { .proc = proc };

    control_fill(&m.head, type, tag, sizeof m);
    local_channel_post(b, &m, sizeof m);
}

void local_channel_post_kill(struct local_box *b, uint32_t tag, uint32_t proc, int sig,
                             enum control_scope scope)
{
    struct control_kill m = { .proc = proc, .sig = sig, .scope = scope };

    control_fill(&m.head, CONTROL_KILL, tag, sizeof m);
    local_channel_post(b, &m, sizeof m);
}

int local_channel_start(struct local_box *b, uint32_t tag, const struct process_start *s,
                        struct err *e)
{
    int r = b->channel.n_outbox ? -(int)ERR_BUSY : supervisor_start(b->channel.fd.fd, tag, s, e);

    return r == -(int)ERR_BUSY
               ? err_set(e, ERR_BUSY,
                         "requests to the sandbox wait that it has not read yet; try again")
               : r;
}

void local_answers_ask(struct local_box *b, struct local_answers *a, enum control_type type,
                       uint32_t tag)
{
    if (local_is_reachable(b)) {
        a->pending++;
        local_channel_post_request(b, type, tag);
    } else {
        a->lost++;
        local_report_later(b);
    }
}

bool local_answers_take(struct local_answers *a)
{
    bool pending = a->pending;

    a->pending -= pending;
    return pending;
}

void local_answers_lose(struct local_answers *a)
{
    a->lost += a->pending;
    a->pending = 0;
}

bool local_answers_take_lost(struct local_box *b, struct local_answers *a)
{
    bool lost = !b->freed && a->lost;

    a->lost -= lost;
    return lost;
}

static void flush_outbox(struct local_box *b)
{
    for (struct link *m; (m = list_first(&b->channel.outbox));) {
        struct queued_packet *p = container_of(m, struct queued_packet, link);

        if (ipc_send(b->channel.fd.fd, p->bytes, p->n, NULL, 0, NULL) == -(int)ERR_BUSY)
            return;
        link_leave(m);
        free(p);
        b->channel.n_outbox--;
    }
    loop_fd_want(&b->channel.fd, LOOP_READ, NULL);
}

static void on_control_pong(struct local_box *b, const union supervisor_message *m,
                            struct ipc_fds *fds)
{
    memcpy(b->release, m->pong.release, sizeof b->release);
    b->other_release = strcmp(b->release, SANDBOXER_VERSION) != 0;
}

/* PID 1 has refused a message before it served it: its version does not know the request. */
static void explain_unknown_request(const struct local_box *b, struct control_failed *m)
{
    if (m->code != ERR_UNSUPPORTED || strcmp(m->step, "request") != 0)
        return;
    m->sys = EOPNOTSUPP;
    snprintf(m->msg, sizeof m->msg,
             "%.28s was started by another version of sandboxer (%.16s), which cannot do this; "
             "'sandboxer stop' and 'sandboxer resume' rebuild it with version " SANDBOXER_VERSION,
             b->backend.id, b->release[0] ? b->release : "before 0.1.0");
}

static void on_control_failed(struct local_box *b, const union supervisor_message *message,
                              struct ipc_fds *fds)
{
    struct control_failed m = message->failed;

    if (b->other_release)
        explain_unknown_request(b, &m);
    if (m.head.tag == TAG_LIST || m.head.tag == TAG_USAGE || m.head.tag == TAG_LAST_USAGE)
        local_on_refused(b, &m);
    else if (!local_hold_on_failed(b, &m) && !local_egress_on_failed(b, &m) &&
             !local_dial_on_failed(b, &m))
        local_process_on_failed(b, &m);
}

/* Other messages are ignored. */
static local_message_fn *const handlers[] = {
    [CONTROL_PONG] = on_control_pong,
    [CONTROL_STARTED] = local_process_on_started,
    [CONTROL_ATTACHED] = local_process_on_attached,
    [CONTROL_EXITED] = local_process_on_exited,
    [CONTROL_KILLED] = local_process_on_killed,
    [CONTROL_FAILED] = on_control_failed,
    [CONTROL_PROCS] = local_on_procs,
    [CONTROL_USED] = local_on_used,
    [CONTROL_LISTENING] = local_egress_on_listening,
    [CONTROL_WHO_IS] = local_egress_on_who_is,
    [CONTROL_DIALLED] = local_dial_on_dialled,
    [CONTROL_UPPER_IS] = local_hold_on_upper,
    [CONTROL_DONE] = local_assign_on_joined,
    [CONTROL_STOOD] = local_hold_on_stood,
};

/* Handles one message: 1; 0 if no message waits or the connection ended. */
static int receive_control_message(struct local_box *b)
{
    static union supervisor_message m; /* large; processed before the next one is read */
    struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
    struct err e = { 0 };
    int r = supervisor_next(b->channel.fd.fd, &m, &fds, &e);

    if (r == -(int)ERR_BUSY)
        return 0;
    if (r > 0) {
        if (m.head.type < COUNT_OF(handlers) && handlers[m.head.type])
            handlers[m.head.type](b, &m, &fds);
        return 1;
    }
    local_channel_close(b);
    local_on_channel_end(b, r, &e);
    return 0;
}

static void on_channel(struct loop_fd *s, unsigned events)
{
    struct local_box *b = container_of(s, struct local_box, channel.fd);

    local_box_ref(b);
    if (events & LOOP_WRITE)
        flush_outbox(b);
    for (int i = 0;
         i < MESSAGES_AT_ONCE && local_channel_is_open(b) && receive_control_message(b) > 0; i++)
        ;
    local_box_unref(b);
}
