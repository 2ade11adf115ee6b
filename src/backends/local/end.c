/* How a box is taken down.
 *
 * The launcher that made it kills PID 1 as its child and waits for it. For any other launcher the
 * sandbox is a stranger, of which it finds control groups, where there are any. So a stranger is
 * first told to end itself, on the connection there is or a new one; its death is waited for by a
 * pidfd, because a connection ends before the processes do. Then a launcher removes what is left.
 *
 * Before that, PID 1 is asked how much was used; it need not answer. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "extensions/local.h"
#include "proc/sys.h"

void local_end_stop(struct local_box *b)
{
    loop_timer_stop(&b->timer);
    loop_fd_stop(&b->death);
    drop_fd(&b->death.fd);
    local_request_cancel(&b->destroy);
}

static void ask_launcher(struct local_box *b);

static void on_patience(struct loop_timer *t)
{
    ask_launcher(container_of(t, struct local_box, timer));
}

static void on_death(struct loop_fd *s, unsigned events)
{
    (void)events;
    ask_launcher(container_of(s, struct local_box, death));
}

/* The process that listens on the sandbox's socket. Its number may have been given to another one
 * by now: only if it answers afterwards was it PID 1. */
static void watch_death(struct local_box *b)
{
    AUTO_CLOSE int sock = -1;
    struct ucred peer;
    socklen_t n = sizeof peer;

    b->death_sure = false;
    if (run_dir_connect(&b->x->run, b->ext.id, &sock, NULL) < 0 ||
        getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || peer.pid <= 1 ||
        peer.pid == getpid()) /* it is not up yet */
        return;
    b->death.fd = sys_pidfd_open(peer.pid);
}

static void wait_at_most(struct local_box *b, int64_t time)
{
    loop_timer_stop(&b->timer);
    loop_timer_start(b->x->c->loop, &b->timer, clock_mono() + time, on_patience, NULL);
}

static void end_stranger(struct local_box *b)
{
    int sock = -1;

    b->told_to_end = true;
    if (!local_channel_is_open(b) && (run_dir_connect(&b->x->run, b->ext.id, &sock, NULL) < 0 ||
                                      local_channel_open(b, sock, NULL) < 0)) {
        ask_launcher(b);
        return;
    }
    watch_death(b);
    local_channel_post_ask(b, CONTROL_USAGE, TAG_LAST_USAGE);
    local_channel_post_ask(b, CONTROL_END, TAG_NOBODY);
    /* One that is frozen hears nothing; its launcher does it. */
    wait_at_most(b, run_dir_marked(&b->x->run, b->ext.id) ? LOCAL_LAST_ASK_NS : LOCAL_DEATH_NS);
}

bool local_is_stranger(const struct local_box *b)
{
    return !b->maker || b->maker->life != b->maker_life;
}

/* It may have become a stranger since we began. The connection stays: should this launcher die, the
 * sandbox can be told on it to end itself, even one that is still on its way. */
static void ask_launcher(struct local_box *b)
{
    local_end_stop(b);
    if (local_is_stranger(b) && !b->told_to_end)
        end_stranger(b);
    else if (!b->destroy.lane)
        local_lane_destroy(b->x, b);
}

void local_end_begin(struct local_box *b)
{
    b->state = BOX_ENDING;
    b->told_to_end = false;
    local_end_stop(b);
    if (!local_is_stranger(b) && local_channel_is_open(b) && !b->create.lane) {
        local_channel_post_ask(b, CONTROL_USAGE, TAG_LAST_USAGE);
        wait_at_most(b, LOCAL_LAST_ASK_NS);
    } else {
        ask_launcher(b);
    }
}

void local_end_on_used(struct local_box *b)
{
    b->death_sure = true;
    if (!b->told_to_end)
        ask_launcher(b);
}

void local_end_on_close(struct local_box *b)
{
    if (b->destroy.lane)
        return;
    if (!b->death_sure || b->death.fd < 0 ||
        loop_fd_start(b->x->c->loop, &b->death, b->death.fd, LOOP_READ, on_death, NULL) < 0)
        ask_launcher(b);
}

void local_destroyed(struct local_box *b, const struct launch_destroyed *m)
{
    struct err e = { 0 };
    int r;

    b->report = (struct ext_report){ .oom_kills = m->oom_kills,
                                     .leftover = m->leftover,
                                     .cpu_ns = b->cpu_ns,
                                     .peak_bytes = m->peak_bytes };
    r = run_dir_remove(&b->x->run, b->ext.id, &e);
    local_ended(b, r, &e);
}

void local_destroy_failed(struct local_box *b, int r, const struct err *e)
{
    local_ended(b, r, e);
}

void local_destroy_lost(struct local_box *b)
{
    b->maker = NULL;
    if (!b->freed)
        local_end_begin(b);
}
