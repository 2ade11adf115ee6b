/* SPDX-License-Identifier: Apache-2.0 */
/* Many programs: one after the other and at the same time, and nothing piles up. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "box.h"

enum { SHORT = 2000, SHORT_SOAK = 10000, AT_ONCE = 100 };

static void run_true(struct box *b)
{
    static const char *const argv[] = { "/bin/true", NULL };
    struct process_start s = { .what = START_PROGRAM, .argv = argv };
    struct control_exited end;
    struct job j;

    CHECK(job_start(b, &s, &j, NULL));
    job_end(b, &j, &end);
    CHECK(end.how == CONTROL_BY_EXIT && end.status == 0);
}

BOX_TEST(thousands_of_short_programs)
{
    int ours, rounds = getenv("SOAK") ? SHORT_SOAK : SHORT, its = 0;
    struct box b;

    box_open(&b);
    run_true(&b);
    ours = count_descriptors(getpid());
    if (box_is_root())
        its = count_descriptors(b.pid);
    for (int i = 0; i < rounds; i++)
        run_true(&b);
    CHECK_INT(box_count_procs(&b), 0);
    CHECK_INT(count_descriptors(getpid()), ours);
    if (box_is_root()) { /* PID 1's descriptors are nobody else's to see */
        CHECK(its > 0);
        CHECK_INT(count_descriptors(b.pid), its);
    }
    CHECK_SH(&b, "exec /opt/inside count", 0, "0 0\n");
    box_close(&b);
}

/* Orphans are reaped, though nobody asked for them by name. */
BOX_TEST(orphans_leave_no_zombies)
{
    struct box b;

    box_open(&b);
    CHECK_SH(&b, "i=0; while [ $i -lt 50 ]; do (setsid sh -c true &) ; i=$((i+1)); done", 0, "");
    CHECK_SH(&b,
             "for i in 1 2 3 4 5 6 7 8 9; do n=$(/opt/inside count); [ \"$n\" = '1 0' ] && break; "
             "sleep 0.1; done; echo $n",
             0, "1 0\n"); /* the shell */
    CHECK_INT(box_count_procs(&b), 0);
    box_close(&b);
}

BOX_TEST(a_hundred_at_once)
{
    static const char *const argv[] = { "/bin/sh", "-c", "read x; echo $x; exit $((x % 200))",
                                        NULL };
    struct process_start s = { .what = START_PROGRAM, .argv = argv, .flags = START_STDIN };
    struct job jobs[AT_ONCE];
    struct box b;

    box_open(&b);
    for (int i = 0; i < AT_ONCE; i++)
        CHECK(job_start(&b, &s, &jobs[i], NULL));
    CHECK_INT(box_count_procs(&b), AT_ONCE);
    CHECK_SH(&b, "exec /opt/inside count", 0, "100 0\n");
    for (int i = AT_ONCE - 1; i >= 0; i--) {
        struct outcome o AUTO(outcome_done) = { 0 };
        char line[16];

        snprintf(line, sizeof line, "%d\n", i);
        job_finish(&b, &jobs[i], str_from(line), &o);
        CHECK_INT(o.end.status, i);
        CHECK_STR(buf_str(&o.out), line);
    }
    CHECK_INT(box_count_procs(&b), 0);
    box_close(&b);
}

/* All asked for before the first answer is read. */
BOX_TEST(a_hundred_requests_without_waiting)
{
    static const char *const argv[] = { "/bin/sh", "-c", "exit 5", NULL };
    struct process_start s = { .what = START_PROGRAM, .argv = argv };
    static union supervisor_message m;
    struct ipc_fds fds;
    struct box b;
    struct err e;

    box_open(&b);
    for (uint32_t i = 0; i < AT_ONCE; i++)
        CHECK_OK(supervisor_start(b.control, 1000 + i, &s, &e), e);
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        CHECK_INT(box_hear(&b, 1000 + i, &m, &fds), CONTROL_STARTED);
        CHECK_INT(fds.n, 2);
        ipc_fds_done(&fds);
        CHECK_INT(box_hear(&b, 1000 + i, &m, &fds), CONTROL_EXITED);
        CHECK_INT(m.exited.status, 5);
    }
    box_close(&b);
}

BOX_TEST(the_process_limit_is_an_error_that_passes)
{
    struct control_failed f = { 0 };
    struct process_start s;
    struct box b;
    struct job jobs[20], extra;
    int n = 0;

    box_prepare(&b);
    b.plan.pids = 12;
    box_build(&b);
    s = sh_start("exec sleep 100");
    while (n < 20 && job_start(&b, &s, &jobs[n], &f))
        n++;
    /* A plain user's limit leaves PID 1 and the launcher some processes of their own. */
    if (n < 8 || n > (box_is_root() ? 12 : 16))
        FAIL("%d processes with a limit of 12", n);
    CHECK_INT(f.code, ERR_BUSY);
    box_ping(&b);
    while (n > 0) {
        CHECK_INT(box_kill(&b, jobs[--n].proc, 9, true), 0);
        job_end(&b, &jobs[n], NULL);
    }
    CHECK(job_start(&b, &s, &extra, NULL));
    CHECK_INT(box_kill(&b, extra.proc, 9, true), 0);
    job_end(&b, &extra, NULL);
    box_close(&b);
}
