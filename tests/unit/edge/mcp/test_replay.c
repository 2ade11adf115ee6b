/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/own.h"
#include "harness/tap.h"
#include "edge/mcp/replay.h"

#define NONE STR("")

static struct replay_room room;
static char big[REPLAY_ANSWER_BYTES_MAX];

static struct str bytes(size_t n)
{
    return (struct str){ big, n };
}

TEST(the_newest_are_kept_in_order)
{
    struct mcp_replay p;
    const struct replay_entry *v;

    replay_init(&p, &room, "me", "");
    for (uint64_t i = 1; i <= REPLAY_NOTES_MAX + 10; i++)
        replay_add(&p, i % 2, i, NONE, STR("text"));
    CHECK_INT(p.shelf.n[REPLAY_NOTE], REPLAY_NOTES_MAX);
    v = replay_after(&p, 1, 0);
    CHECK(v && v->seq == 11);
    v = replay_after(&p, 1, 11);
    CHECK(v && v->seq == 13);
    CHECK(!replay_after(&p, 0, REPLAY_NOTES_MAX + 10));
    CHECK(!replay_after(&p, 7, 0));
    replay_done(&p);
    CHECK_INT(room.shelf.bytes[REPLAY_NOTE], 0);
    CHECK(!list_first(&room.peers));
}

TEST(bytes_are_limited)
{
    struct mcp_replay p;

    replay_init(&p, &room, "me", "");
    replay_add(&p, 1, 1, NONE, STR("a"));
    replay_add(&p, 1, 2, NONE, bytes(REPLAY_NOTE_BYTES_MAX));
    CHECK_INT(p.shelf.n[REPLAY_NOTE], 1);
    replay_add(&p, 1, 3, NONE, bytes(REPLAY_NOTE_BYTES_MAX - sizeof(struct replay_entry)));
    CHECK_INT(p.shelf.n[REPLAY_NOTE], 1);
    CHECK_INT(replay_after(&p, 1, 0)->seq, 3);
    replay_done(&p);
}

TEST(notes_push_no_answer_out)
{
    struct mcp_replay p;
    const struct replay_entry *v;

    replay_init(&p, &room, "me", "");
    replay_add(&p, 1, 1, STR("7"), bytes(14 << 20));
    for (uint64_t i = 1; i <= 2000; i++)
        replay_add(&p, 2, i, NONE, bytes(64 << 10));
    v = replay_after(&p, 1, 0);
    CHECK(v && v->kind == REPLAY_ANSWER && v->text.n == 14 << 20);
    CHECK(replay_answered(&p, 1) && !replay_answered(&p, 2));
    replay_done(&p);
}

TEST(an_answer_that_went_is_known_to_be_gone)
{
    struct mcp_replay p;
    const struct replay_entry *v;

    replay_init(&p, &room, "me", "");
    replay_add(&p, 1, 1, STR("\"a\""), bytes(10 << 20));
    replay_add(&p, 1, 2, NONE, STR("note"));
    replay_add(&p, 2, 1, STR("8"), bytes(10 << 20));
    v = replay_after(&p, 1, 0);
    CHECK(v && v->kind == REPLAY_GONE && !v->text.n);
    CHECK_STR(v->id, "\"a\"");
    CHECK_INT(replay_after(&p, 1, 1)->kind, REPLAY_NOTE);
    CHECK_INT(replay_after(&p, 2, 0)->kind, REPLAY_ANSWER);
    replay_add(&p, 3, 1, STR("9"),
               bytes(REPLAY_ANSWER_BYTES_MAX)); /* with its own size, too large */
    CHECK_INT(replay_after(&p, 3, 0)->kind, REPLAY_GONE);
    for (uint64_t i = 10; i < 10 + REPLAY_ANSWERS_MAX + REPLAY_GONE_MAX; i++)
        replay_add(&p, i, 1, STR("1"), STR("text"));
    CHECK_INT(p.shelf.n[REPLAY_ANSWER], REPLAY_ANSWERS_MAX);
    CHECK_INT(p.shelf.n[REPLAY_GONE], REPLAY_GONE_MAX);
    CHECK(!replay_answered(&p, 1));
    CHECK(p.shelf.bytes[REPLAY_GONE] <= REPLAY_GONE_BYTES_MAX);
    replay_done(&p);
}

static size_t used(const struct replay_shelf *s)
{
    return s->bytes[REPLAY_NOTE] + s->bytes[REPLAY_ANSWER];
}

TEST(peers_and_everybody_are_limited)
{
    enum { PEERS = 6, SESSIONS = 3, N = PEERS * SESSIONS };
    struct mcp_replay all[N];
    char name[2] = "a";

    for (size_t i = 0; i < N; i++) {
        name[0] = (char)('a' + i / SESSIONS);
        replay_init(&all[i], &room, name, "");
        replay_add(&all[i], 1, 1, NONE, bytes(1000));
        replay_add(&all[i], 1, 2, STR("1"), bytes(14 << 20));
        CHECK(used(&room.shelf) <= REPLAY_ALL_BYTES_MAX);
    }
    for (size_t i = 0; i < N; i++) /* of a peer two have room, of all nine */
        CHECK_INT(replay_after(&all[i], 1, 1)->kind,
                  i < 5 || i % 3 == 0 ? REPLAY_GONE : REPLAY_ANSWER);
    for (size_t i = 0; i < N; i++)
        replay_done(&all[i]);
    CHECK_INT(used(&room.shelf), 0);
    CHECK(!list_first(&room.peers));
}

TEST(a_family_pushes_out_its_own_alone)
{
    struct mcp_replay hog[2], sibling;

    replay_init(&sibling, &room, "owner", "tok_2");
    replay_add(&sibling, 1, 1, STR("1"), bytes(3 << 20)); /* the oldest of all */
    for (size_t i = 0; i < COUNT_OF(hog); i++) {
        replay_init(&hog[i], &room, "owner", "tok_1");
        replay_add(&hog[i], 1, 1, STR("1"), bytes(15 << 20));
    }
    CHECK_INT(replay_after(&sibling, 1, 0)->kind, REPLAY_ANSWER);
    CHECK_INT(replay_after(&hog[0], 1, 0)->kind, REPLAY_GONE);
    CHECK_INT(replay_after(&hog[1], 1, 0)->kind, REPLAY_ANSWER);
    for (size_t i = 0; i < COUNT_OF(hog); i++)
        replay_done(&hog[i]);
    replay_done(&sibling);
    CHECK_INT(used(&room.shelf), 0);
    CHECK(!list_first(&room.peers) && !list_first(&room.families));
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
