/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"

#include <fcntl.h>

#include "harness/tap.h"

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static int open_null(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    CHECK(fd >= 0);
    return fd;
}

TEST(descriptors_close_at_the_end_of_their_scope)
{
    int seen;

    {
        AUTO_CLOSE int fd = open_null();
        AUTO_CLOSE int none = -1;

        seen = fd;
        CHECK(is_open(seen) && none < 0);
    }
    CHECK(!is_open(seen));
}

TEST(closing_keeps_errno)
{
    errno = ENOENT;
    {
        AUTO_CLOSE int closed_already = open_null();

        close(closed_already);
        errno = ENOENT;
    }
    CHECK_INT(errno, ENOENT);
}

TEST(what_is_taken_is_not_closed)
{
    int kept;

    {
        AUTO_CLOSE int fd = open_null();

        kept = take_fd(&fd);
        CHECK_INT(fd, -1);
    }
    CHECK(is_open(kept));
    drop_fd(&kept);
    CHECK_INT(kept, -1);
    drop_fd(&kept);
}

TEST(memory_is_freed_or_taken)
{
    char *kept;

    {
        AUTO_FREE char *freed = malloc(10); /* the leak checker tells if not */
        AUTO_FREE char *given = malloc(10);
        AUTO_FREE char *none = NULL;

        CHECK(freed && given && !none);
        kept = take_ptr(given);
        CHECK(!given);
    }
    kept[0] = 'x';
    free(kept);
}

static int value = 7, *slot = &value, asked;

static int **ask_for_slot(void)
{
    asked++;
    return &slot;
}

TEST(take_ptr_evaluates_once)
{
    CHECK_INT(*take_ptr(*ask_for_slot()), 7);
    CHECK(!slot);
    CHECK_INT(asked, 1);
}

TEST(container_of_finds_the_owner)
{
    struct owner {
        int before;
        struct {
            int x;
        } member;
    } o = { .before = 7 };

    CHECK(container_of(&o.member, struct owner, member) == &o);
    CHECK_INT(COUNT_OF(((int[5]){ 0 })), 5);
}
