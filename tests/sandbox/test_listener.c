/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket that PID 1 listens on: for those outside, again and again, and for nobody
 * inside. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "box.h"

BOX_TEST(connections_come_and_go)
{
    struct place p;
    struct box b;

    place_init(&p);
    box_open_listening(&b, &p, 0);
    CHECK_SH(&b, "echo first", 0, "first\n");
    for (int i = 0; i < 40; i++)
        box_reconnect(&b, &p);
    CHECK_SH(&b, "echo last", 0, "last\n");
    box_close(&b);
    place_done(&p);
}

BOX_TEST(several_connections_at_once_have_their_own_answers)
{
    struct place p;
    struct box b, second;
    struct job j;

    place_init(&p);
    box_open_listening(&b, &p, 0);
    second = b;
    second.control = place_connect(&p);
    CHECK(sh_job(&b, "exec sleep 100", &j));
    CHECK_SH(&second, "echo mine", 0, "mine\n");
    CHECK_INT(box_count_procs(&second), 1);
    CHECK_INT(box_kill(&second, j.proc, SIGTERM, false), 0);
    job_end(&b, &j, NULL); /* told to whoever started it */
    close(second.control);
    box_close(&b);
    place_done(&p);
}

/* The table has room for sixteen; one more is turned away and the others do not notice. */
BOX_TEST(more_connections_than_there_are_places)
{
    enum { MORE = 24 };
    int extra[MORE], refused = 0;
    struct place p;
    struct box b;

    place_init(&p);
    box_open_listening(&b, &p, 0);
    for (int i = 0; i < MORE; i++)
        extra[i] = place_connect(&p);
    for (int i = 0; i < MORE; i++) {
        struct pollfd closed = { .fd = extra[i], .events = POLLIN };

        refused += poll(&closed, 1, i == 0 ? 200 : 0) == 1;
    }
    CHECK_INT(refused, MORE - 15);
    box_ping(&b);
    for (int i = 0; i < MORE; i++)
        close(extra[i]);
    box_reconnect(&b, &p);
    box_close(&b);
    place_done(&p);
}

static void await_end(struct box *b, const struct job *j)
{
    char until_gone[80];

    snprintf(until_gone, sizeof until_gone, "while kill -0 %d 2>&-; do sleep 0.02; done", j->pid);
    CHECK_SH(b, until_gone, 0, "");
}

static void check_row(const struct control_procs *list, uint32_t i, const struct job *running,
                      const struct job *ended)
{
    struct control_proc row;
    const struct job *j;

    control_procs_at(list, i, &row);
    j = row.proc == running->proc ? running : ended;
    CHECK(row.proc == j->proc && row.pid == j->pid && row.tag == j->tag);
    CHECK_INT(row.what, START_PROGRAM);
    CHECK_INT(row.state, j == running ? CONTROL_RUNNING : CONTROL_ENDED);
    CHECK_INT(row.status, j == running ? 0 : 6);
    CHECK(row.started_ns > 0 && !(row.flags & CONTROL_TOLD));
}

BOX_TEST(a_list_adopts_what_an_earlier_connection_started)
{
    static union supervisor_message m;
    struct ipc_fds fds;
    struct job running, ended;
    struct place p;
    struct box b;
    struct err e;

    place_init(&p);
    box_open_listening(&b, &p, 0);
    CHECK(sh_job(&b, "trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done", &running));
    await_word(running.out, "ready");
    CHECK(sh_job(&b, "sleep 0.2; exit 6", &ended));
    job_close(&ended);
    box_reconnect(&b, &p);
    await_end(&b, &ended); /* while nobody is there to be told */
    CHECK_OK(supervisor_request(b.control, 500, CONTROL_LIST, &e), e);
    CHECK_INT(box_hear(&b, 500, &m, &fds), CONTROL_PROCS);
    CHECK_INT(m.procs.count, 2);
    for (uint32_t i = 0; i < 2; i++)
        check_row(&m.procs, i, &running, &ended);
    /* Its tag was another connection's: here it is told under none. */
    CHECK_INT(box_hear(&b, 0, &m, &fds), CONTROL_EXITED);
    CHECK(m.exited.proc == ended.proc && m.exited.status == 6);
    CHECK_INT(box_kill(&b, running.proc, SIGTERM, false), 0);
    running.tag = 0;
    job_end(&b, &running, NULL);
    CHECK_INT(box_count_procs(&b), 0);
    box_close(&b);
    place_done(&p);
}

/* What ended, and nobody has asked for, costs nothing. */
BOX_TEST(an_end_that_waits_for_a_client_is_quiet)
{
    struct process_start s;
    struct place p;
    struct box b;
    struct job j;
    int64_t before;

    place_init(&p);
    box_open_listening(&b, &p, 0);
    s = sh_start("sleep 0.1");
    s.timeout_ns = 300 * NS_PER_MS;
    CHECK(job_start(&b, &s, &j, NULL));
    job_close(&j);
    drop_fd(&b.control);
    usleep(400000); /* it has ended, and its timeout has passed */
    before = process_cpu_ms(b.pid);
    usleep(500000);
    if (process_cpu_ms(b.pid) - before > 50)
        FAIL("PID 1 used %lld ms of processor time in half a second",
             (long long)(process_cpu_ms(b.pid) - before));
    b.control = place_connect(&p);
    CHECK_INT(box_count_procs(&b), 1);
    box_close(&b);
    place_done(&p);
}

/* What a program inside gets from the socket by this path, and by this abstract name. */
static void expect_reached(struct box *b, const char *path, int by_path, int by_name)
{
    const char *argv[] = { "/opt/inside", "reach", path, NULL };
    struct process_start s = { .what = START_PROGRAM, .argv = argv };
    struct outcome o AUTO(outcome_done) = { 0 };
    char want[32];

    box_run(b, &s, STR(""), &o);
    snprintf(want, sizeof want, "%d %d\n", by_path, by_name);
    CHECK_STR(buf_str(&o.out), want);
}

BOX_TEST(nobody_inside_reaches_the_socket)
{
    struct sockaddr_un abstract = { .sun_family = AF_UNIX };
    AUTO_CLOSE int named = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct place p;
    struct box b;
    size_t n;

    place_init(&p);
    n = strlen(p.address.sun_path);
    memcpy(abstract.sun_path + 1, p.address.sun_path, n);
    CHECK(bind(named, (const struct sockaddr *)&abstract,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) == 0);
    CHECK(listen(named, 1) == 0);
    box_open_listening(&b, &p, 0);
    expect_reached(&b, p.address.sun_path, -ENOENT, -ECONNREFUSED);
    box_close(&b);
    place_done(&p);
    drop_fd(&named);
}

/* The socket itself, shown inside by a mistake of its owner: PID 1 knows its own by their
 * number. */
BOX_TEST(whoever_is_inside_is_turned_away)
{
    struct place p;
    struct box b;

    place_init(&p);
    CHECK(chmod(p.dir, 0777) == 0 && chmod(p.address.sun_path, 0777) == 0);
    box_prepare(&b);
    box_mount(&b, p.dir, "/opt/leak", true);
    box_build_listening(&b, &p, 0);
    expect_reached(&b, "/opt/leak/control", 0, -ECONNREFUSED);
    box_reconnect(&b, &p); /* while from outside it works */
    box_close(&b);
    place_done(&p);
}

/* With PLAN_EPHEMERAL the first connection is the sandbox's life, whoever else is connected. */
BOX_TEST(an_ephemeral_one_ends_with_its_first_connection_only)
{
    struct pollfd gone = { .events = POLLIN };
    struct place p;
    struct box b;
    int second;

    place_init(&p);
    box_open_listening(&b, &p, PLAN_EPHEMERAL);
    second = place_connect(&p);
    close(second);
    second = place_connect(&p);
    box_ping(&b);
    drop_fd(&b.control);
    gone.fd = b.pidfd;
    CHECK_INT(poll(&gone, 1, BOX_WAIT_MS), 1);
    close(second);
    box_close(&b);
    place_done(&p);
}
