#include <stdlib.h>

#include "harness/tap.h"
#include "mcp/replay.h"

TEST(the_newest_are_kept_in_order)
{
    struct replay p = { 0 };
    const struct replay_entry *v;

    for (uint64_t i = 1; i <= REPLAY_ENTRIES_MAX + 10; i++)
        replay_add(&p, i % 2, i, STR("text"));
    CHECK_INT(p.n, REPLAY_ENTRIES_MAX);
    v = replay_after(&p, 1, 0);
    CHECK(v && v->seq == 11);
    v = replay_after(&p, 1, 11);
    CHECK(v && v->seq == 13);
    CHECK(!replay_after(&p, 0, REPLAY_ENTRIES_MAX + 10));
    CHECK(!replay_after(&p, 7, 0));
    replay_done(&p);
    CHECK_INT(p.bytes, 0);
}

TEST(bytes_are_limited)
{
    static char big[REPLAY_BYTES_MAX + 1];
    struct replay p = { 0 };

    replay_add(&p, 1, 1, STR("a"));
    replay_add(&p, 1, 2, (struct str){ big, sizeof big });
    CHECK_INT(p.n, 1);
    replay_add(&p, 1, 3, (struct str){ big, REPLAY_BYTES_MAX });
    CHECK_INT(p.n, 1);
    CHECK_INT(replay_after(&p, 1, 0)->seq, 3);
    replay_done(&p);
}

TEST(ids_are_read_back)
{
    char text[REPLAY_ID_MAX];
    uint64_t stream, seq;

    replay_id(text, UINT64_MAX, 7);
    CHECK(replay_id_read(str_from(text), &stream, &seq) && stream == UINT64_MAX && seq == 7);
    CHECK(!replay_id_read(STR(""), &stream, &seq));
    CHECK(!replay_id_read(STR("5"), &stream, &seq));
    CHECK(!replay_id_read(STR("5-"), &stream, &seq));
    CHECK(!replay_id_read(STR("-5"), &stream, &seq));
    CHECK(!replay_id_read(STR("5-x"), &stream, &seq));
}
