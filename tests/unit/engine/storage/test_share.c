/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/storage/share.h"

#include <string.h>

#include "harness/tap.h"
#include "unit/lib/tar/scratch.h"

#define KB UINT64_C(1024)
#define MB (UINT64_C(1) << 20)

static struct err e;

/* --- limits --- */

TEST(a_box_has_its_own_limit_while_the_share_has_room_for_it)
{
    const struct share_box b = { .used = 10 * MB, .limit = 32 * MB, .own = 32 * MB };
    const struct share_box lowered = { .used = 10 * MB, .limit = 12 * MB, .own = 32 * MB };

    CHECK_INT(share_limit(&b, 100 * MB), 32 * MB);
    CHECK_INT(share_limit(&b, 22 * MB), 32 * MB); /* exactly what it can still write */
    CHECK_INT(share_limit(&lowered, 22 * MB), 32 * MB);
}

TEST(a_box_can_use_what_is_left_of_the_share)
{
    const struct share_box b = { .used = 10 * MB, .limit = 32 * MB, .own = 32 * MB };
    const struct share_box none = { .used = 10 * MB, .limit = UINT64_MAX, .own = UINT64_MAX };

    CHECK_INT(share_limit(&b, 22 * MB - 1), 32 * MB - 1);
    CHECK_INT(share_limit(&b, 5 * MB), 15 * MB);
    CHECK_INT(share_limit(&none, 5 * MB), 15 * MB); /* which has none of its own */
}

TEST(a_used_up_share_leaves_room_for_metadata_once)
{
    struct share_box b = { .used = 10 * MB, .limit = 32 * MB, .own = 32 * MB };

    b.limit = share_limit(&b, 0);
    CHECK_INT(b.limit, 10 * MB + 128 * KB);
    b.used = b.limit; /* it used that */
    CHECK_INT(share_limit(&b, 0), b.limit);
    b.used = 4 * MB; /* and then removed files, others of its owner wrote */
    CHECK_INT(share_limit(&b, 0), 4 * MB + 128 * KB);
}

TEST(no_limit_is_beyond_the_own_one)
{
    struct share_box b = { .used = 40 * MB, .limit = 50 * MB, .own = 32 * MB };

    CHECK_INT(share_limit(&b, 0), 32 * MB); /* its use exceeds it: a limit set later */
    CHECK_INT(share_limit(&b, 1), 32 * MB);
    CHECK_INT(share_limit(&b, UINT64_MAX), 32 * MB);
    b.own = UINT64_MAX;
    CHECK_INT(share_limit(&b, UINT64_MAX), UINT64_MAX);
}

TEST(small_raises_are_not_written)
{
    struct share_box b = { .used = 10 * MB, .limit = 15 * MB, .own = 32 * MB };

    CHECK_INT(share_limit(&b, 5 * MB + 64 * KB - 1), 15 * MB);
    CHECK_INT(share_limit(&b, 5 * MB + 64 * KB), 15 * MB + 64 * KB);
    CHECK_INT(share_limit(&b, 5 * MB - 1), 15 * MB - 1); /* small cuts are */
    b.limit = b.own - 1;
    CHECK_INT(share_limit(&b, 100 * MB), b.own); /* and the return to its own */
}

/* --- notes --- */

TEST(a_box_of_an_owner_at_its_share_is_refused)
{
    const struct share_charge one = { .owner = "o-a", .disk = 5 }, other = { .owner = "o-b" },
                              again = { .owner = "o-a", .disk = 6, .again = true };
    struct scratch s = scratch_make();
    int box = make_dir(s.dir, "box"), full = make_dir(s.dir, SHARE_FULL);

    CHECK_OK(share_charge(s.dir, box, &one, &e), e);
    CHECK_STR(content_of(box, SHARE_NOTE), "o-a 5\n");
    make_file(full, "o-a", "");
    CHECK_INT(share_charge(s.dir, box, &one, &e), -ERR_FULL);
    CHECK(strstr(e.msg, "limits.owner.disk"));
    CHECK_OK(share_charge(s.dir, box, &other, &e), e);
    CHECK_STR(content_of(box, SHARE_NOTE), "o-b 0\n");
    CHECK_OK(share_charge(s.dir, box, &again, &e), e); /* it was there before */
    CHECK_STR(content_of(box, SHARE_NOTE), "o-a 6\n");
}

TEST(a_layer_is_charged_to_the_owner_of_the_one_that_it_was_made_of)
{
    const struct share_charge one = { .owner = "o-a", .disk = 5 };
    struct scratch s = scratch_make();
    int from = make_dir(s.dir, "from"), to = make_dir(s.dir, "to");

    CHECK_OK(share_copy_note(from, to, &e), e); /* an image's belongs to nobody */
    CHECK(!exists(to, SHARE_NOTE));
    CHECK_OK(share_charge(s.dir, from, &one, &e), e);
    CHECK_OK(share_copy_note(from, to, &e), e);
    CHECK_STR(content_of(to, SHARE_NOTE), "o-a 5\n");
}
