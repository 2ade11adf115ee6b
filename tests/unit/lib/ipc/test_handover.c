/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/handover.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static struct err e;

static int hand_over(enum handover_use use, const char *path, const char *target)
{
    struct handover h AUTO(handover_done) = { .n = 0 };
    struct handover_file f = { .use = use, .writable = 1 };
    int fd = open(path, O_PATH | O_CLOEXEC), sock;

    snprintf(f.target, sizeof f.target, "%s", target);
    CHECK(fd >= 0);
    CHECK_OK(handover_add(&h, &fd, &f, &e), e);
    CHECK_INT(fd, -1);
    CHECK_OK(handover_make(&h, &sock, &e), e);
    return sock;
}

TEST(files_arrive_with_their_use_and_their_sender)
{
    struct handover h AUTO(handover_done) = { .n = 0 }, got AUTO(handover_done) = { .n = 0 };
    int dir = open("/", O_PATH | O_CLOEXEC), file = open("/proc/self/exe", O_PATH | O_CLOEXEC),
        sock;

    CHECK_OK(handover_add(&h, &dir, &(struct handover_file){ .use = HANDOVER_WORKSPACE }, &e), e);
    CHECK_OK(handover_add(
                 &h, &file,
                 &(struct handover_file){ .use = HANDOVER_MOUNT, .writable = 1, .target = "/one" },
                 &e),
             e);
    CHECK_OK(handover_make(&h, &sock, &e), e);
    CHECK_OK(handover_take(sock, true, &got, &e), e);
    handover_done(&got);
    CHECK_OK(handover_take(sock, false, &got, &e), e);
    CHECK_INT(got.n, 2);
    CHECK(got.uid == geteuid() && got.gid == getegid());
    CHECK(got.file[0].use == HANDOVER_WORKSPACE && !got.file[0].writable);
    CHECK(got.file[1].use == HANDOVER_MOUNT && got.file[1].writable);
    CHECK_STR(str_from(got.file[1].target), "/one");
    CHECK_INT(handover_take(sock, false, &h, &e), -ERR_DENIED); /* it was taken */
}

TEST(only_directories_and_regular_files_are_taken)
{
    struct handover got AUTO(handover_done) = { .n = 0 };

    CHECK_INT(handover_take(hand_over(HANDOVER_MOUNT, "/dev/null", "/x"), false, &got, &e),
              -ERR_INVALID);
    CHECK(strstr(e.msg, "/x"));
    CHECK_INT(handover_take(hand_over(HANDOVER_WORKSPACE, "/proc/self/exe", ""), false, &got, &e),
              -ERR_INVALID);
    CHECK_OK(handover_take(hand_over(HANDOVER_MOUNT, "/proc/self/exe", "/x"), false, &got, &e), e);
}

/* Adds files until there is no room: how many there are. */
static size_t fill_handover(struct handover *h, enum handover_use first)
{
    enum handover_use use = first;
    int fd = open("/", O_PATH | O_CLOEXEC);

    while (handover_add(h, &fd, &(struct handover_file){ .use = use }, &e) >= 0) {
        use = HANDOVER_MOUNT;
        fd = open("/", O_PATH | O_CLOEXEC);
    }
    close(fd);
    CHECK_INT(e.code, ERR_TOO_BIG);
    return h->n;
}

TEST(there_is_room_for_a_workspace_and_all_mounts)
{
    struct handover h AUTO(handover_done) = { .n = 0 }, got AUTO(handover_done) = { .n = 0 };
    int sock;

    CHECK_INT(fill_handover(&h, HANDOVER_WORKSPACE), HANDOVER_FILES_MAX);
    CHECK_OK(handover_make(&h, &sock, &e), e);
    CHECK_OK(handover_take(sock, false, &got, &e), e);
    handover_done(&h);
    CHECK_INT(fill_handover(&h, HANDOVER_MOUNT), HANDOVER_MOUNTS_MAX);
    /* A client that does not count. */
    h.file[0].use = HANDOVER_WORKSPACE;
    CHECK_OK(handover_add(&h, &(int){ open("/", O_PATH | O_CLOEXEC) },
                          &(struct handover_file){ .use = HANDOVER_MOUNT }, &e),
             e);
    h.file[0].use = HANDOVER_MOUNT;
    CHECK_OK(handover_make(&h, &sock, &e), e);
    handover_done(&got);
    CHECK_INT(handover_take(sock, false, &got, &e), -ERR_DENIED);
}
