/* SPDX-License-Identifier: Apache-2.0 */
/* A box at a standstill, and what it has written. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conformance/rig.h"

#define NEEDS(r, bit, what)                                                                        \
    if (!((r)->ops->can & (bit)))                                                                  \
    SKIP("%s has no %s", (r)->ops->id, what)

static void freeze(struct subject *s)
{
    int before = s->held;

    s->rig->ops->freeze(s->b);
    CHECK_INT(s->held, before); /* never from inside */
    rig_await(s->rig, &s->held, before + 1, "the standstill");
    CHECK_OK(s->r, s->e);
    CHECK(s->frozen);
}

static void thaw(struct subject *s)
{
    int before = s->held;

    s->rig->ops->thaw(s->b);
    CHECK_INT(s->held, before);
    rig_await(s->rig, &s->held, before + 1, "that it goes on");
    CHECK_OK(s->r, s->e);
    CHECK(!s->frozen);
}

static void ask_upper(struct subject *s)
{
    int before = s->shown;

    s->rig->ops->upper(s->b);
    CHECK_INT(s->shown, before);
    rig_await(s->rig, &s->shown, before + 1, "what it wrote");
}

/* The size of a file that something in the box appends to. */
static off_t grown(const struct subject *s)
{
    struct stat st;

    return fstatat(s->upper, "tmp/grows", &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_size;
}

static void await_growth(struct subject *s, off_t than)
{
    for (int i = 0; i < 2000 && grown(s) <= than; i++)
        rig_idle(s->rig, 10 * NS_PER_MS);
    CHECK(grown(s) > than);
}

CONFORMANCE(what_a_box_writes_is_shown_and_cannot_be_changed)
{
    struct subject s;
    struct task j;
    int fd;

    NEEDS(r, BACKEND_CAN_SNAPSHOT, "snapshots");
    subject_ready(r, &s);
    task_sh(&s, &j, "echo it is there >/tmp/file");
    CHECK_ENDED(&j, BACKEND_EXITED, 0);
    task_done(&j);
    for (int i = 0; i < 2; i++) { /* as often as one likes */
        ask_upper(&s);
        CHECK_OK(s.r, s.e);
        fd = openat(s.upper, "tmp/file", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        CHECK(fd >= 0);
        close(fd);
        CHECK(openat(s.upper, "tmp/other", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0);
    }
    subject_end(&s);
}

CONFORMANCE(a_box_stands_still_and_goes_on)
{
    struct subject s;
    struct process_start start = sh("while :; do echo x >>/tmp/grows; done");
    struct task j;
    off_t still;

    NEEDS(r, BACKEND_CAN_PAUSE | BACKEND_CAN_SNAPSHOT, "pauses");
    subject_ready(r, &s);
    ask_upper(&s);
    CHECK_OK(s.r, s.e);
    task_start(&s, &j, &start);
    await_growth(&s, 0);
    for (int i = 0; i < 3; i++) {
        freeze(&s);
        still = grown(&s);
        rig_idle(r, 30 * NS_PER_MS);
        CHECK_INT(grown(&s), still);
        thaw(&s);
        await_growth(&s, still);
    }
    thaw(&s); /* of one that is not frozen */
    r->ops->signal(&j.p, SIGKILL, BACKEND_SCOPE_TREE);
    task_follow(&j);
    CHECK_ENDED(&j, BACKEND_SIGNALLED, SIGKILL);
    task_done(&j);
    subject_end(&s);
}

CONFORMANCE(what_stands_still_can_be_torn_down)
{
    struct subject s;

    NEEDS(r, BACKEND_CAN_PAUSE, "pauses");
    subject_ready(r, &s);
    freeze(&s);
    subject_end(&s);
}

CONFORMANCE(what_stood_still_goes_on_when_it_is_adopted)
{
    struct subject s, again;
    struct task j;

    NEEDS(r, BACKEND_CAN_PAUSE, "pauses");
    subject_ready(r, &s);
    freeze(&s);
    subject_free(&s);
    rig_restart(r);
    subject_adopt(r, &again, s.id);
    CHECK_OK(again.r, again.e);
    task_sh(&again, &j, "exit 3");
    CHECK_ENDED(&j, BACKEND_EXITED, 3);
    task_done(&j);
    subject_end(&again);
}

CONFORMANCE(a_box_that_is_not_up_has_nothing_to_show)
{
    struct subject s;

    NEEDS(r, BACKEND_CAN_SNAPSHOT, "snapshots");
    subject_init(r, &s);
    ask_upper(&s);
    CHECK_INT(s.r, -ERR_CONFLICT);
    CHECK(s.upper < 0);
    subject_teardown(&s);
    subject_free(&s);
}
