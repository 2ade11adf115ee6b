/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the sockets of the network boundary. PID 1 does not use them: it holds them as long as the
 * sandbox lives and passes them to clients outside. */
#include "engine/init/init.h"

#include <fcntl.h>

static struct listeners kept_listeners = { .fd = { [0 ... LISTENER_COUNT_ - 1] = -1 } };

void listeners_keep(uint32_t slots)
{
    for (int i = 0; i < LISTENER_COUNT_; i++)
        if (slots & (1u << i)) {
            kept_listeners.fd[i] = INIT_LISTENERS + i;
            fcntl(kept_listeners.fd[i], F_SETFD, FD_CLOEXEC);
        }
}

static int send_listeners(int conn, const struct control_one *asked)
{
    struct control_listening m = { 0 };
    int fds[LISTENER_COUNT_];
    size_t n = listeners_pack(&kept_listeners, fds, &m.slots);

    control_fill(&m.head, CONTROL_LISTENING, asked->head.tag, sizeof m);
    return conns_send(conn, &m, sizeof m, fds, (int)n);
}

int listeners_serve(int conn, const struct control_head *asked, struct err *e)
{
    struct control_one request = { .head = *asked };

    if (kept_listeners.fd[0] < 0)
        return err_set(e, ERR_NOT_FOUND,
                       "this sandbox has no egress listeners: it was created without egress");
    conns_answer_by(conn, send_listeners, &request);
    return 0;
}
