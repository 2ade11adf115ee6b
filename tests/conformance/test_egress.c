/* SPDX-License-Identifier: Apache-2.0 */
/* The network boundary of a box: its sockets, and who holds a connection. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conformance/rig.h"

static bool has_egress(struct rig *r)
{
    return r->ops->can & BACKEND_CAN_EGRESS;
}
#define NEEDS_EGRESS(r)                                                                            \
    if (!has_egress(r))                                                                            \
    SKIP("%s has no network boundaries", (r)->ops->id)

static void open_box(struct rig *r, struct subject *s)
{
    subject_init(r, s);
    s->egress = true;
    subject_provision(s);
    AWAIT(r, s->provisioned);
    CHECK_OK(s->r, s->e);
}

static void ask_listeners(struct subject *s)
{
    int before = s->listening;

    s->rig->ops->listeners(s->b);
    CHECK_INT(s->listening, before);
    rig_await(s->rig, &s->listening, before + 1, "listeners");
}

static void ask_who(struct subject *s, uint64_t tag, uint64_t inode)
{
    int before = s->told;

    s->rig->ops->who(s->b, tag, inode);
    CHECK_INT(s->told, before);
    rig_await(s->rig, &s->told, before + 1, "who");
}

CONFORMANCE(a_box_hands_out_its_listeners_again_and_again)
{
    struct subject s;

    NEEDS_EGRESS(r);
    open_box(r, &s);
    for (int i = 0; i < 3; i++) {
        ask_listeners(&s);
        CHECK_OK(s.r, s.e);
        CHECK(s.listeners.fd[LISTENER_PROXY4] >= 0 && s.listeners.fd[LISTENER_REJECTS] >= 0);
    }
    subject_end(&s);
}

/* The same sockets, for the worker of the next daemon. */
CONFORMANCE(listeners_survive_a_restart)
{
    struct subject s, again;

    NEEDS_EGRESS(r);
    open_box(r, &s);
    subject_free(&s);
    rig_restart(r);
    subject_adopt(r, &again, s.id);
    CHECK_OK(again.r, again.e);
    ask_listeners(&again);
    CHECK_OK(again.r, again.e);
    subject_end(&again);
}

CONFORMANCE(a_box_without_egress_has_none)
{
    struct subject s;

    NEEDS_EGRESS(r);
    subject_ready(r, &s);
    ask_listeners(&s);
    CHECK_INT(s.r, -ERR_NOT_FOUND);
    subject_end(&s);
}

CONFORMANCE(what_is_asked_of_no_box_fails)
{
    struct subject s;

    NEEDS_EGRESS(r);
    subject_init(r, &s);
    ask_listeners(&s);
    CHECK_INT(s.r, -ERR_CONFLICT);
    ask_who(&s, 7, 1);
    CHECK_INT(s.r, -ERR_CONFLICT);
    CHECK_INT(s.tag, 7);
    subject_end(&s);
}

/* Asked and then taken down: everything is told, once. */
CONFORMANCE(teardown_answers_what_was_asked)
{
    struct subject s;

    NEEDS_EGRESS(r);
    open_box(r, &s);
    for (uint64_t i = 0; i < 20; i++) {
        r->ops->listeners(s.b);
        r->ops->who(s.b, i, 1);
    }
    r->ops->teardown(s.b);
    r->ops->listeners(s.b);
    r->ops->who(s.b, 20, 1);
    subject_teardown(&s);
    CHECK_INT(s.listening, 21);
    CHECK_INT(s.told, 21);
    subject_free(&s);
}

/* What a script has said about its connection. */
static uint64_t socket_of(struct task *j)
{
    uint64_t inode = 0;
    int64_t end = clock_mono() + RIG_PATIENCE;

    while (!memchr(j->out.p ? j->out.p : "", '\n', j->out.n) && clock_mono() < end) {
        char c;

        rig_idle(j->rig, 10 * NS_PER_MS);
        while (read(j->p.stdio[1], &c, 1) == 1)
            CHECK(buf_add_c(&j->out, c) >= 0);
    }
    CHECK(buf_add_c(&j->out, '\0') >= 0);
    CHECK(strncmp(j->out.p, "socket:[", 8) == 0);
    CHECK(str_to_u64((struct str){ j->out.p + 8, strcspn(j->out.p + 8, "]") }, &inode));
    return inode;
}

CONFORMANCE(who_holds_a_connection)
{
    struct process_start start = sh("exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128;"
                                    " readlink /proc/$$/fd/3 3>&-; read -t 100 -u 3'");
    struct subject s;
    struct task j;
    uint64_t inode;

    NEEDS_EGRESS(r);
    if (access("/usr/bin/bash", X_OK) < 0)
        SKIP("there is no bash");
    open_box(r, &s);
    task_start(&s, &j, &start);
    AWAIT(r, j.started);
    CHECK_OK(j.r, j.e);
    inode = socket_of(&j);
    ask_who(&s, 1ull << 40, inode);
    CHECK_OK(s.r, s.e);
    CHECK(s.tag == 1ull << 40);
    CHECK_INT(s.n_holders, 1);
    CHECK_INT(s.pid, j.p.pid);
    CHECK_STR(str_from(s.exe), "/usr/bin/bash");
    ask_who(&s, 2, inode + 1000000);
    CHECK_OK(s.r, s.e);
    CHECK_INT(s.n_holders, 0);
    task_done(&j);
    subject_end(&s);
}

/* More than may wait: each is answered, if only with "busy". */
CONFORMANCE(many_questions)
{
    struct subject s;

    NEEDS_EGRESS(r);
    open_box(r, &s);
    for (uint64_t i = 0; i < 500; i++)
        r->ops->who(s.b, i, 1);
    rig_await(r, &s.told, 500, "all answers");
    ask_who(&s, 500, 1);
    CHECK_OK(s.r, s.e);
    subject_end(&s);
    CHECK_INT(s.told, 501);
}

CONFORMANCE(a_box_may_be_freed_with_questions)
{
    struct subject s, again;

    NEEDS_EGRESS(r);
    open_box(r, &s);
    r->ops->listeners(s.b);
    r->ops->who(s.b, 1, 1);
    subject_free(&s);
    subject_init_id(r, &again, s.id);
    subject_end(&again);
    CHECK_INT(s.listening + s.told, 0);
}

/* What programs are told of the proxy, and that others may tell them otherwise. */
CONFORMANCE(programs_know_the_proxy)
{
    static const char *const other[] = { "https_proxy=http://other:1", NULL };
    struct process_start start;
    struct subject s;
    struct task j;

    NEEDS_EGRESS(r);
    open_box(r, &s);
    task_sh(&s, &j, "echo $HTTP_PROXY,$http_proxy,$HTTPS_PROXY,$all_proxy,$no_proxy");
    CHECK_STR(buf_str(&j.out),
              LISTENERS_PROXY_URL "," LISTENERS_PROXY_URL "," LISTENERS_PROXY_URL
                                  "," LISTENERS_PROXY_URL "," LISTENERS_NO_PROXY "\n");
    task_done(&j);
    start = sh("echo $HTTP_PROXY,$https_proxy,$HTTPS_PROXY,$NO_PROXY");
    start.envp = other;
    task_start(&s, &j, &start);
    AWAIT(r, j.started);
    task_follow(&j);
    CHECK_STR(buf_str(&j.out), LISTENERS_PROXY_URL ",http://other:1,," LISTENERS_NO_PROXY "\n");
    task_done(&j);
    subject_end(&s);
    subject_ready(r, &s);
    task_sh(&s, &j, "echo $HTTP_PROXY$https_proxy$NO_PROXY");
    CHECK_STR(buf_str(&j.out), "\n");
    task_done(&j);
    subject_end(&s);
}
