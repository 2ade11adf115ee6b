/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a session: a directory inside that is made and filled before the program starts, and
 * packed when it has ended. */
#include "cli/run/session_internal.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/own.h"

enum { PIECE = 64 << 10 };
#define COLLECT_NS (60 * NS_PER_S)

/* With the program's rights. */
static int start_file_op(struct session_run *r, uint32_t tag, enum start_what what, struct err *e)
{
    const char *const paths[] = { r->s->collect, NULL };
    const struct process_start op = { .what = what,
                                      .flags = what == START_UNPACK ? START_STDIN : 0,
                                      .user = r->start->user,
                                      .argv = paths };

    return supervisor_start(r->s->control, tag, &op, e);
}

int session_make_files(struct session_run *r, struct err *e)
{
    return start_file_op(r, MAKE_TAG, START_MKDIR, e);
}

/* Kills the remaining processes first, so that they cannot change the files that are packed. */
void session_collect(struct session_run *r)
{
    struct err e;

    r->collecting = true;
    r->deadline = clock_mono() + COLLECT_NS;
    if (supervisor_kill(r->s->control, COLLECT_TAG, 0, SIGKILL, CONTROL_ALL, &e) < 0 ||
        start_file_op(r, COLLECT_TAG, START_PACK, &e) < 0)
        session_fail(r, EXIT_TOOL_FAILED, e.msg);
}

static void end_collecting(struct session_run *r)
{
    if (!r->packed || r->tar >= 0)
        return;
    r->s->collected = true;
    session_destroy(r);
}

void session_receive_tar(struct session_run *r)
{
    static char piece[PIECE];
    ssize_t n = read(r->tar, piece, sizeof piece);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        drop_fd(&r->tar);
        if (n < 0)
            session_fail(r, EXIT_TOOL_FAILED, "the output could not be read");
        else if (!r->ended)
            end_collecting(r);
        return;
    }
    r->tar_bytes += (uint64_t)n;
    if (r->tar_bytes > r->s->collect_max)
        session_fail(r, EXIT_TOOL_FAILED, "the output is larger than the limit");
    else if (write(r->s->collect_to, piece, (size_t)n) != n)
        session_fail(r, EXIT_TOOL_FAILED, "the output could not be written");
    if (r->ended)
        drop_fd(&r->tar);
}

static void op_started(struct session_run *r, uint32_t tag, struct ipc_fds *fds)
{
    static char room[STREAM_BUFFER];

    if (fds->n != (tag == FEED_TAG ? 3 : 2))
        session_fail(r, EXIT_TOOL_FAILED,
                     "the sandbox sent another number of descriptors than expected");
    else if (tag == COLLECT_TAG)
        r->tar = take_fd(&fds->fd[0]);
    else if (tag == FEED_TAG)
        stream_init(&r->streams[STREAM_IN], r->s->feed, take_fd(&fds->fd[0]), false, room);
}

/* The messages of the launcher and of PID 1 arrive in any order. */
void session_start(struct session_run *r)
{
    struct session *s = r->s;
    struct err e;

    if (!r->created || !r->filled || r->ended)
        return;
    if ((s->prepare && s->prepare(s, &e) < 0) ||
        supervisor_start(s->control, TAG, r->start, &e) < 0)
        session_fail(r, EXIT_TOOL_FAILED, e.msg);
}

/* The next step: fill the directory, start the program; at the end it is packed. */
static void op_ended(struct session_run *r, uint32_t tag)
{
    struct err e;

    if (tag == COLLECT_TAG) {
        r->packed = true;
        end_collecting(r);
        return;
    }
    stream_close(&r->streams[STREAM_IN]);
    if (tag == MAKE_TAG && r->s->feed >= 0) {
        if (start_file_op(r, FEED_TAG, START_UNPACK, &e) < 0)
            session_fail(r, EXIT_TOOL_FAILED, e.msg);
        return;
    }
    r->filled = true;
    session_start(r);
}

void session_receive_files(struct session_run *r, const union supervisor_message *m,
                           struct ipc_fds *fds)
{
    if (r->ended)
        return;
    if (m->head.type == CONTROL_FAILED)
        session_fail(r, EXIT_TOOL_FAILED, m->failed.msg);
    else if (m->head.type == CONTROL_STARTED)
        op_started(r, m->head.tag, fds);
    else if (m->head.type != CONTROL_EXITED)
        return;
    else if (m->exited.how != CONTROL_BY_EXIT || m->exited.status != 0)
        session_fail(r, EXIT_TOOL_FAILED,
                     m->head.tag == COLLECT_TAG ? "the output could not be read"
                                                : "the output directory could not be made");
    else
        op_ended(r, m->head.tag);
}
