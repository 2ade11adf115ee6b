/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/budget.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/tap.h"

static struct err e;

static struct budget *open_budget(int fd)
{
    struct budget *b;

    CHECK_OK(budget_open(fd, &b, &e), e);
    return b;
}

TEST(all_of_it_can_be_taken_and_no_more)
{
    int fd = budget_make(10, 2, &e);
    struct budget *one = open_budget(fd), *other = open_budget(fd);

    CHECK_OK(budget_take(one, 6, 1, &e), e);
    CHECK_INT(budget_take(other, 5, 0, &e), -ERR_TOO_BIG);
    CHECK(strstr(e.msg, "images.max_bytes"));
    CHECK_INT(budget_take(other, UINT64_MAX, 0, &e), -ERR_TOO_BIG);
    CHECK_OK(budget_take(other, 4, 1, &e), e);
    CHECK_INT(budget_take(one, 1, 0, &e), -ERR_TOO_BIG);
    CHECK_INT(budget_take(one, 0, 1, &e), -ERR_TOO_BIG);
    CHECK(strstr(e.msg, "files"));
    CHECK_OK(budget_take(one, 0, 0, &e), e);
}

TEST(those_who_take_at_the_same_time_get_all_of_it_together)
{
    enum { TAKERS = 4, LEFT = 100000 };
    int fd = budget_make(LEFT, 0, &e), told[2];
    struct budget *b = open_budget(fd);
    uint64_t got, sum = 0;

    CHECK(pipe(told) == 0);
    for (int i = 0; i < TAKERS; i++)
        if (fork() == 0) {
            for (got = 0; budget_take(b, 1, 0, NULL) >= 0; got++)
                ;
            _exit(write(told[1], &got, sizeof got) == (ssize_t)sizeof got ? 0 : 1);
        }
    for (int i = 0; i < TAKERS; i++) {
        CHECK(read(told[0], &got, sizeof got) == (ssize_t)sizeof got);
        sum += got;
        CHECK(wait(NULL) > 0);
    }
    CHECK_INT(sum, LEFT);
}

TEST(what_is_no_budget_is_refused)
{
    struct budget *b;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), empty = memfd_create("empty", MFD_CLOEXEC);

    CHECK_INT(budget_open(null, &b, &e), -ERR_INVALID);
    CHECK_INT(budget_open(empty, &b, &e), -ERR_INVALID);
    CHECK_INT(budget_open(-1, &b, &e), -ERR_SYS);
}

TEST(nobody_can_cut_it_short)
{
    int fd = budget_make(1, 1, &e);

    CHECK(ftruncate(fd, 0) < 0);
    CHECK_OK(budget_take(open_budget(fd), 1, 1, &e), e);
}
