/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/loop/list.h"

#include "base/own.h"
#include "harness/tap.h"

struct item {
    int n;
    struct link link;
};

static int take(struct list *l)
{
    struct link *m = list_take(l);

    return m ? container_of(m, struct item, link)->n : -1;
}

TEST(first_in_first_out)
{
    struct item items[3] = { { .n = 0 }, { .n = 1 }, { .n = 2 } };
    struct list l = { 0 };

    CHECK_INT(take(&l), -1);
    for (int i = 0; i < 3; i++)
        list_append(&l, &items[i].link);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(take(&l), i);
        CHECK(!link_joined(&items[i].link));
    }
    CHECK(!list_first(&l));
}

TEST(members_leave_from_anywhere)
{
    struct item items[4] = { { .n = 0 }, { .n = 1 }, { .n = 2 }, { .n = 3 } };
    struct list l = { 0 };

    for (int i = 0; i < 4; i++)
        list_append(&l, &items[i].link);
    link_leave(&items[1].link);
    link_leave(&items[1].link); /* harmless */
    link_leave(&items[3].link);
    link_leave(&items[0].link);
    CHECK(list_first(&l) == &items[2].link && !list_after(&l, &items[2].link));
    list_append(&l, &items[0].link);
    CHECK_INT(take(&l), 2);
    CHECK_INT(take(&l), 0);
}

TEST(moving_keeps_the_order)
{
    struct item items[3] = { { .n = 0 }, { .n = 1 }, { .n = 2 } };
    struct list a = { 0 }, b = { 0 };

    list_append(&b, &items[0].link);
    list_append(&a, &items[1].link);
    list_append(&a, &items[2].link);
    list_move(&a, &b);
    CHECK(!list_first(&a));
    for (int i = 0; i < 3; i++)
        CHECK_INT(take(&b), i);
    list_move(&a, &b);
    CHECK(!list_first(&b));
}
