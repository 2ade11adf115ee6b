/* SPDX-License-Identifier: Apache-2.0 */
/* Somebody dies in the middle of a create, at every step; afterwards a destroy leaves nothing. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "box.h"
#include "lib/proc/spawn.h"

enum { STEPS_MAX = 64, STEP_MAX = 24 };

/* As the launcher names them, its own and then the child's. */
static size_t read_steps(char steps[STEPS_MAX][STEP_MAX])
{
    char path[4096], command[4200];
    struct err e;
    size_t n = 0;
    FILE *f;

    CHECK_OK(spawn_find("sandboxer-launch", path, sizeof path, &e), e);
    snprintf(command, sizeof command, "%s --list-steps", path);
    f = popen(command, "re");
    CHECK(f);
    while (n < STEPS_MAX && fgets(steps[n], STEP_MAX, f)) {
        steps[n][strcspn(steps[n], "\n")] = '\0';
        n++;
    }
    CHECK(pclose(f) == 0 && n > 10);
    return n;
}

static void destroy_with_another(const char *id)
{
    union launch_answer answer;
    struct launcher l;
    struct err e;

    CHECK_OK(launcher_start(&l, &e), e);
    CHECK_OK(launcher_destroy(&l, id, &e), e);
    CHECK_OK(launcher_answer(&l, &answer, NULL, &e), e);
    CHECK_INT(answer.destroyed.leftover, 0);
    CHECK(strcmp(answer.destroyed.id, id) == 0);
    launcher_done(&l);
    box_expect_gone(id);
}

/* A plain user may have no control group to find a sandbox by: then its socket does. */
static void end_by_socket(const struct place *p)
{
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (connect(fd, (const struct sockaddr *)&p->address, sizeof p->address) == 0)
        supervisor_request(fd, 1, CONTROL_END, NULL);
}

/* The sandbox is to stay: nothing but the destroy will end it. */
static void die_at(const char *step)
{
    union launch_answer answer;
    AUTO_CLOSE int pidfd = -1;
    struct launcher l;
    struct place place;
    struct plan p;
    struct err e;
    int pair[2], r;

    place_init(&place);
    CHECK(setenv("SANDBOXER_TEST_DIE_STEP", step, 1) == 0);
    CHECK_OK(launcher_start(&l, &e), e);
    CHECK(unsetenv("SANDBOXER_TEST_DIE_STEP") == 0);
    CHECK_OK(plan_init(&p, &e), e);
    p.flags = PLAN_LISTENER | PLAN_EGRESS;
    p.pids = BOX_PIDS;
    p.memory = 64 << 20;
    CHECK_OK(ipc_pair(pair, &e), e);
    CHECK_OK(launcher_create(&l, &p, (int[]){ pair[1], place.sock }, 2, &e), e);
    close(pair[1]);
    r = launcher_answer(&l, &answer, &pidfd, &e);
    if (r != -ERR_UPSTREAM)
        FAIL("a death at step %s gives %d: %s", step, r, e.msg);
    close(pair[0]);
    drop_fd(&place.sock);
    launcher_done(&l);
    destroy_with_another(p.id);
    end_by_socket(&place);
    box_reap_orphans();
    place_done(&place);
    drop_fd(&pidfd);
}

BOX_TEST(a_death_at_any_step_leaves_nothing)
{
    static char steps[STEPS_MAX][STEP_MAX];
    size_t n = read_steps(steps);

    for (size_t i = 0; i < n; i++)
        die_at(steps[i]);
}

/* Killed at any moment, by somebody who does not know where it is. */
BOX_TEST(a_launcher_killed_at_any_time_leaves_nothing)
{
    enum { TIMES = 30, STEP_US = 150 };

    for (useconds_t i = 0; i < TIMES; i++) {
        struct launcher l;
        struct place place;
        struct plan p;
        struct err e;
        int pair[2];

        place_init(&place);
        CHECK_OK(launcher_start(&l, &e), e);
        CHECK_OK(plan_init(&p, &e), e);
        p.flags = PLAN_LISTENER;
        CHECK_OK(ipc_pair(pair, &e), e);
        CHECK_OK(launcher_create(&l, &p, (int[]){ pair[1], place.sock }, 2, &e), e);
        close(pair[1]);
        drop_fd(&place.sock);
        usleep(i * STEP_US);
        CHECK(kill(l.pid, SIGKILL) == 0);
        launcher_done(&l);
        close(pair[0]);
        destroy_with_another(p.id);
        end_by_socket(&place);
        box_reap_orphans();
        place_done(&place);
    }
}

/* Hundreds of requests before the first answer is read; every answer says whom it concerns. */
BOX_TEST(requests_in_a_row)
{
    enum { MANY = 24 };
    struct plan plans[MANY];
    int controls[MANY];
    struct launcher l;
    struct err e;

    CHECK_OK(launcher_start(&l, &e), e);
    for (int i = 0; i < MANY; i++) {
        int pair[2];

        CHECK_OK(plan_init(&plans[i], &e), e);
        plans[i].flags = PLAN_EPHEMERAL;
        plans[i].memory = i % 3 == 2 ? 1 : 0; /* every third is refused */
        CHECK_OK(ipc_pair(pair, &e), e);
        CHECK_OK(launcher_create(&l, &plans[i], &pair[1], 1, &e), e);
        CHECK_OK(launcher_destroy(&l, plans[i].id, &e), e); /* while it is being created */
        close(pair[1]);
        controls[i] = pair[0];
    }
    for (int i = 0; i < MANY; i++) {
        union launch_answer created, destroyed;
        AUTO_CLOSE int pidfd = -1;

        CHECK_OK(launcher_next(&l, &created, &pidfd, &e), e);
        CHECK_OK(launcher_next(&l, &destroyed, NULL, &e), e);
        CHECK_INT(created.head.type, i % 3 == 2 ? LAUNCH_FAILED : LAUNCH_CREATED);
        CHECK(strcmp(i % 3 == 2 ? created.failed.id : created.created.id, plans[i].id) == 0);
        CHECK_INT(destroyed.head.type, LAUNCH_DESTROYED);
        CHECK(strcmp(destroyed.destroyed.id, plans[i].id) == 0);
        CHECK_INT(destroyed.destroyed.leftover, 0);
        box_expect_gone(plans[i].id);
        close(controls[i]);
        drop_fd(&pidfd);
    }
    launcher_done(&l);
}
