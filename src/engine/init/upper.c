/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the top directory of the sandbox's writable layer: a read-only mount without the mounts
 * that cover parts of it. PID 1 does not use it, but passes it to clients outside. */
#include "engine/init/init.h"

#include <fcntl.h>

void upper_keep(void)
{
    fcntl(INIT_UPPER, F_SETFD, FD_CLOEXEC);
    fcntl(INIT_BOX, F_SETFD, FD_CLOEXEC);
}

static int send_upper(int conn, const struct control_one *asked)
{
    const int fd = INIT_UPPER;
    struct control_head m;

    control_fill(&m, CONTROL_UPPER_IS, asked->head.tag, sizeof m);
    return conns_send(conn, &m, sizeof m, &fd, 1);
}

int upper_serve(int conn, const struct control_head *asked, struct err *e)
{
    struct control_one request = { .head = *asked };

    conns_answer_by(conn, send_upper, &request);
    return 0;
}
