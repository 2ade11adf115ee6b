/* SPDX-License-Identifier: Apache-2.0 */
/* Tears a box down.
 *
 * The launcher that made it kills PID 1 as its child and waits for it. Any other launcher finds
 * only its control groups, if there are any. So a box of a former launcher is first asked to end
 * itself, on the existing connection or a new one; a pidfd reports its death, because a connection
 * ends before the processes do. Then a launcher removes the rest.
 *
 * Before that, PID 1 is asked for the resource usage; it need not answer. */
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "backends/local/local.h"
#include "lib/proc/sys.h"

void local_end_stop(struct local_box *b)
{
    loop_timer_stop(&b->timer);
    loop_fd_stop(&b->end.death);
    drop_fd(&b->end.death.fd);
    local_request_cancel(&b->end.request);
}

static void request_destroy(struct local_box *b);

static void on_end_timeout(struct loop_timer *t)
{
    request_destroy(container_of(t, struct local_box, timer));
}

static void on_death(struct loop_fd *s, unsigned events)
{
    request_destroy(container_of(s, struct local_box, end.death));
}

/* Opens a pidfd of the process that listens on the sandbox's socket. The pid may have been reused
 * already: it was PID 1 only if that answers afterwards. */
static void open_death_pidfd(struct local_box *b)
{
    AUTO_CLOSE int sock = -1;
    struct ucred peer;
    socklen_t n = sizeof peer;

    b->end.death_sure = false;
    if (run_dir_connect(&b->x->run, b->backend.id, &sock, NULL) < 0 ||
        getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || peer.pid <= 1 ||
        peer.pid == getpid()) /* PID 1 does not listen yet */
        return;
    b->end.death.fd = sys_pidfd_open(peer.pid);
}

static void start_end_timer(struct local_box *b, int64_t time)
{
    loop_timer_stop(&b->timer);
    loop_timer_start(b->x->c->loop, &b->timer, clock_mono() + time, on_end_timeout, NULL);
}

static void end_foreign_box(struct local_box *b)
{
    int sock = -1;

    b->end.requested = true;
    if (!local_channel_is_open(b) && (run_dir_connect(&b->x->run, b->backend.id, &sock, NULL) < 0 ||
                                      local_channel_open(b, sock, NULL) < 0)) {
        request_destroy(b);
        return;
    }
    open_death_pidfd(b);
    local_channel_post_request(b, CONTROL_USAGE, TAG_LAST_USAGE);
    local_channel_post_request(b, CONTROL_END, TAG_NONE);
    /* A frozen PID 1 does not answer; the launcher kills it. */
    start_end_timer(b, run_dir_is_frozen(&b->x->run, b->backend.id) ? LOCAL_LAST_ASK_NS
                                                                    : LOCAL_DEATH_NS);
}

bool local_is_foreign(const struct local_box *b)
{
    return !b->maker || b->maker->generation != b->maker_generation;
}

/* Its launcher may have died since the teardown began. The connection stays open: if this launcher
 * dies, too, the sandbox can be asked to end itself, even while it is still starting. */
static void request_destroy(struct local_box *b)
{
    local_end_stop(b);
    if (local_is_foreign(b) && !b->end.requested)
        end_foreign_box(b);
    else if (!b->end.request.lane)
        local_lane_ask(b, LAUNCH_DESTROY);
}

void local_end_begin(struct local_box *b)
{
    b->state = BOX_ENDING;
    b->end.requested = false;
    local_end_stop(b);
    if (!local_is_foreign(b) && local_channel_is_open(b) && !b->create.lane) {
        local_channel_post_request(b, CONTROL_USAGE, TAG_LAST_USAGE);
        start_end_timer(b, LOCAL_LAST_ASK_NS);
    } else {
        request_destroy(b);
    }
}

void local_end_on_used(struct local_box *b)
{
    b->end.death_sure = true;
    if (!b->end.requested)
        request_destroy(b);
}

void local_end_on_close(struct local_box *b)
{
    if (b->end.request.lane)
        return;
    if (!b->end.death_sure || b->end.death.fd < 0 ||
        loop_fd_start(b->x->c->loop, &b->end.death, b->end.death.fd, LOOP_READ, on_death, NULL) < 0)
        request_destroy(b);
}

void local_on_destroyed(struct local_box *b, const struct launch_destroyed *m)
{
    struct err e = { 0 };
    int r;

    b->end.report = (struct backend_report){ .oom_kills = m->oom_kills,
                                             .leftover = m->leftover,
                                             .cpu_ns = b->cpu_ns,
                                             .peak_bytes = m->peak_bytes };
    r = run_dir_remove(&b->x->run, b->backend.id, &e);
    local_finish_end(b, r, &e);
}

void local_on_destroy_lost(struct local_box *b)
{
    b->maker = NULL;
    if (!b->freed)
        local_end_begin(b);
}
