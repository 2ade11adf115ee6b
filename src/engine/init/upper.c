/* The top of what the sandbox writes: a mount of its own, read-only, without the mounts that cover
 * parts of it. PID 1 does nothing with it but keep it and hand it to those outside who ask. */
#include "init/init.h"

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
    return conns_tell(conn, &m, sizeof m, &fd, 1);
}

int upper_serve(int conn, const struct control_head *asked, struct err *e)
{
    struct control_one request = { .head = *asked };

    (void)e;
    conns_answer_by(conn, send_upper, &request);
    return 0;
}
