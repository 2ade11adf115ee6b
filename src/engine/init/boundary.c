/* The sockets of the network boundary. PID 1 does nothing with them but keep them open as long as
 * the sandbox lives, and hand them to those outside who ask. */
#include "init/init.h"

#include <fcntl.h>

static struct listeners kept = { .fd = { [0 ... LISTENER_COUNT_ - 1] = -1 } };

void boundary_keep(uint32_t slots)
{
    for (int i = 0; i < LISTENER_COUNT_; i++)
        if (slots & (1u << i)) {
            kept.fd[i] = INIT_LISTENERS + i;
            fcntl(kept.fd[i], F_SETFD, FD_CLOEXEC);
        }
}

static int send_listeners(int conn, const struct control_one *asked)
{
    struct control_listening m = { 0 };
    int fds[LISTENER_COUNT_];
    size_t n = listeners_pack(&kept, fds, &m.slots);

    control_fill(&m.head, CONTROL_LISTENING, asked->head.tag, sizeof m);
    return conns_tell(conn, &m, sizeof m, fds, (int)n);
}

int boundary_serve(int conn, const struct control_head *asked, struct err *e)
{
    struct control_one request = { .head = *asked };

    if (kept.fd[0] < 0)
        return err_set(e, ERR_NOT_FOUND, "this sandbox has no network boundary");
    conns_answer_by(conn, send_listeners, &request);
    return 0;
}
