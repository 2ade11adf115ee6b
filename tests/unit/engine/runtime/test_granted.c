/* SPDX-License-Identifier: Apache-2.0 */
/* What a control plane that was taken over can pass to a launcher as the mounts of a sandbox. */
#include "engine/runtime/granted.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/credentials.h"

enum { OTHER = 61999 };

static struct err e;

static struct granted one_mount(void)
{
    struct granted g = { .id = "sbx_1", .uid = 7, .gid = 8, .n = 1 };

    g.file[0] = (struct granted_file){ .target = "/src", .is_dir = 1 };
    g.fd[0] = open("/", O_PATH | O_CLOEXEC);
    return g;
}

/* In a child of this process, as the supervisor does it; `uid` 0: with its rights. */
static int passed_by_child(uid_t uid)
{
    struct granted g AUTO(granted_done) = one_mount();
    int pair[2], status = 0;
    struct ipc_fds got;
    pid_t pid;
    char byte;

    CHECK_OK(ipc_pair(pair, &e), e);
    pid = fork();
    if (pid == 0) {
        int sock;

        if (uid && (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0))
            _exit(2);
        _exit(granted_pass(&g, &sock, NULL) < 0 || ipc_send(pair[0], "x", 1, &sock, 1, NULL) < 0
                  ? 1
                  : 0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
    CHECK_INT(ipc_recv(pair[1], &byte, 1, &got, &e), 1);
    return got.fd[0];
}

TEST(mounts_of_the_supervisor_are_taken_as_often_as_a_launcher_dies)
{
    struct granted got AUTO(granted_done) = { .n = 0 };
    pid_t supervisor = geteuid() == 0 ? getpid() : 0;
    int sock = passed_by_child(0);

    for (int i = 0; i < 2; i++) {
        granted_done(&got);
        CHECK_OK(granted_receive(sock, supervisor, &got, &e), e);
        CHECK(got.n == 1 && got.uid == 7 && got.gid == 8 && got.fd[0] >= 0 && got.file[0].is_dir);
        CHECK_STR(str_from(got.id), "sbx_1");
        CHECK_STR(str_from(got.file[0].target), "/src");
    }
}

TEST(mounts_of_any_other_process_are_refused)
{
    struct granted got, own AUTO(granted_done) = one_mount();
    struct handover h AUTO(handover_done) = { .n = 0 };
    int pair[2], sock, dir = open("/", O_PATH | O_CLOEXEC);

    if (geteuid() == 0) {
        CHECK_INT(granted_receive(passed_by_child(OTHER), getpid(), &got, &e), -ERR_DENIED);
        CHECK_INT(granted_receive(passed_by_child(OTHER), 0, &got, &e), -ERR_DENIED);
    }
    /* Another process of the same user, such as a client that is root. */
    CHECK_OK(granted_pass(&own, &sock, &e), e);
    CHECK_INT(granted_receive(sock, getpid() + 1, &got, &e), -ERR_DENIED);
    /* What a client hands over. */
    CHECK_OK(handover_add(&h, &dir, &(struct handover_file){ .use = HANDOVER_MOUNT }, &e), e);
    CHECK_OK(handover_make(&h, &sock, &e), e);
    CHECK_INT(granted_receive(sock, 0, &got, &e), -ERR_DENIED);
    CHECK_OK(ipc_pair(pair, &e), e);
    CHECK_INT(granted_receive(pair[0], 0, &got, &e), -ERR_DENIED);
    CHECK_INT(granted_receive(-1, 0, &got, &e), -ERR_DENIED);
}

/* An answer of the monitor begins with the number of a request, which the control plane chooses. */
TEST(an_answer_that_echoes_a_number_is_no_mount)
{
    const struct credentials self = credentials_own();
    struct granted got;
    struct {
        uint64_t id;
        int32_t r;
        char rest[240];
    } answer = { .id = UINT64_C(1) << 32 | 0x544e4d47 };
    int sock;

    for (answer.r = 0; answer.r > -20; answer.r--) {
        CHECK_OK(credentials_send(&self, &answer, sizeof answer, NULL, 0, &sock, &e), e);
        CHECK_INT(granted_receive(sock, 0, &got, &e), -ERR_DENIED);
        close(sock);
    }
}

TEST(the_plan_has_what_was_granted_and_no_more)
{
    struct granted g AUTO(granted_done) = one_mount();
    struct plan plan, p;

    CHECK_OK(plan_init(&plan, &e), e);
    snprintf(plan.id, sizeof plan.id, "sbx_1");
    CHECK_OK(plan_add_mount(&plan, 0, "", "/other", PLAN_MOUNT_RW, &e), e);
    CHECK_INT(granted_check(&g, &plan, &e), -ERR_DENIED); /* less */
    CHECK_OK(plan_add_mount(&plan, PLAN_GRANT, "", "/src", 0, &e), e);
    CHECK_OK(granted_check(&g, &plan, &e), e);
    p = plan;
    snprintf(p.id, sizeof p.id, "sbx_2");
    CHECK_INT(granted_check(&g, &p, &e), -ERR_DENIED);
    p = plan;
    p.mounts[1].flags = PLAN_MOUNT_RW;
    CHECK_INT(granted_check(&g, &p, &e), -ERR_DENIED);
    CHECK(strstr(e.msg, "reading only"));
    p = plan;
    snprintf(p.mounts[1].target, PLAN_TARGET_MAX, "/usr");
    CHECK_INT(granted_check(&g, &p, &e), -ERR_DENIED);
    CHECK_OK(plan_add_mount(&plan, PLAN_GRANT, "", "/more", 0, &e), e);
    CHECK_INT(granted_check(&g, &plan, &e), -ERR_DENIED);
    g.file[0].writable = 1;
    plan.n_mounts = 2;
    plan.mounts[1].flags = PLAN_MOUNT_RW;
    CHECK_OK(granted_check(&g, &plan, &e), e);
}
