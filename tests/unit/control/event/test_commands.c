/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "control/event/commands.h"
#include "control/plane/plane.h"
#include "unit/control/fixture.h"

static const char *const echo[] = { "/bin/echo", "--password", "hunter2", NULL };

static struct command_run *begin_as(const struct actor *who, const char *owner,
                                    enum command_recording recording)
{
    return command_begin(fix.control, &(struct command_begin){ .sandbox = "sbx_test",
                                                               .owner = owner,
                                                               .who = who,
                                                               .recording = recording,
                                                               .client = "rest",
                                                               .argv = echo,
                                                               .user = "0" });
}

static struct command_run *begin(const char *owner, enum command_recording recording)
{
    const struct actor who = { .kind = ACTOR_ADM, .id = "uid:4711" };

    return begin_as(&who, owner, recording);
}

static const struct backend_end good_end = { .how = BACKEND_EXITED };

/* The only event of this type. */
static void read_only_event(const char *type, struct command *ret, struct arena *a)
{
    struct store_query q = { .kind = STORE_EVENTS, .text = str_from(type) };

    arena_init(&q.arena, 1 << 20);
    CHECK_OK(store_ask_now(control_store(fix.control), &q, &e), e);
    CHECK_INT(q.n, 1);
    CHECK_OK(command_read(q.events[0].detail, ret, a, &e), e);
    arena_done(&q.arena);
}

TEST(a_program_that_has_ended_is_one_event)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(8 * COMMAND_JSON_MAX);
    struct command c;
    struct command_run *r;

    plane_open();
    r = begin("uid:1", RECORDING_MASKED);
    CHECK(id_valid("cmd_", str_from(command_id(r))));
    command_started(r, 7);
    command_ended(r, &good_end);
    WAIT_FOR(count_events(COMMAND_ENDED) == 1);
    CHECK_INT(count_events(COMMAND_STARTED), 0);
    read_only_event(COMMAND_ENDED, &c, &a);
    CHECK_INT(c.outcome, COMMAND_EXITED);
    CHECK_INT(c.process, 7);
    CHECK_INT(c.masked, 1);
    CHECK_STR(str_from(c.argv.p[2]), "***");
    CHECK_STR(str_from(c.client), "rest");
    CHECK(commands_are_idle(fix.control));
    plane_close();
}

/* The record of a server that is given a command, as the client says. */
static void record_request(const char *requested, enum command_recording recording,
                           struct command *ret, struct arena *a)
{
    struct command_run *r;

    plane_open();
    r = command_begin(fix.control, &(struct command_begin){ .sandbox = "sbx_test",
                                                            .owner = "uid:1",
                                                            .recording = recording,
                                                            .client = "ssh",
                                                            .argv = echo,
                                                            .requested = requested,
                                                            .user = "0" });
    command_started(r, 7);
    command_ended(r, &good_end);
    WAIT_FOR(count_events(COMMAND_ENDED) == 1);
    read_only_event(COMMAND_ENDED, ret, a);
    plane_close();
}

TEST(a_requested_command_is_masked_like_a_script)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(8 * COMMAND_JSON_MAX);
    struct command c;

    record_request("cd src && TOKEN=hunter2 make", RECORDING_MASKED, &c, &a);
    CHECK_STR(str_from(c.requested), "cd src && TOKEN=*** make");
    CHECK_INT(c.masked, 2);
    CHECK_INT(c.argv.n, 3);
    CHECK(!c.truncated);
}

TEST(a_requested_command_is_recorded_in_full_if_the_profile_says_so)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(8 * COMMAND_JSON_MAX);
    struct command c;

    record_request("TOKEN=hunter2 make", RECORDING_FULL, &c, &a);
    CHECK_STR(str_from(c.requested), "TOKEN=hunter2 make");
}

TEST(a_requested_command_has_a_limit)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(8 * COMMAND_JSON_MAX);
    char text[COMMAND_REQUESTED_MAX];
    struct command c;

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = '\001'; /* six bytes of JSON each */
    text[sizeof text - 1] = '\0';
    record_request(text, RECORDING_FULL, &c, &a);
    CHECK(c.truncated);
    CHECK(strlen(c.requested) >= 1000);
    CHECK(strlen(c.requested) <= 8192);
}

TEST(a_program_that_runs_has_a_start_and_an_end)
{
    struct command_run *r;

    plane_open();
    r = begin("uid:1", RECORDING_FULL);
    command_started(r, 7);
    WAIT_FOR(count_events(COMMAND_STARTED) == 1);
    CHECK_INT(count_events(COMMAND_ENDED), 0);
    command_ended(r, &good_end);
    WAIT_FOR(count_events(COMMAND_ENDED) == 1);
    plane_close();
    plane_open(); /* nothing is left open */
    CHECK_INT(count_events(COMMAND_ENDED), 1);
    plane_close();
}

TEST(a_start_without_an_end_is_lost_at_the_next_start)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(8 * COMMAND_JSON_MAX);
    struct command c;
    char id[ID_MAX];

    plane_open();
    for (int i = 0; i < 2; i++) {
        struct command_run *r = begin("uid:1", RECORDING_MASKED);

        snprintf(id, sizeof id, "%s", command_id(r));
        command_started(r, 7);
        if (i == 0)
            command_gave_up(r, COMMAND_ABANDONED, "its client disconnected");
    }
    WAIT_FOR(count_events(COMMAND_STARTED) == 1 && count_events(COMMAND_ENDED) == 1);
    plane_close();
    plane_open();
    WAIT_FOR(count_events(COMMAND_ENDED) == 2);
    CHECK(!command_claim(fix.control, id));
    plane_close();
    plane_open();
    CHECK_INT(count_events(COMMAND_ENDED), 2);
    CHECK_INT(count_events(COMMAND_STARTED), 1);
    read_only_event(COMMAND_STARTED, &c, &a);
    CHECK_STR(str_from(c.id), id);
    plane_close();
}

TEST(what_ends_last_is_written_at_the_close)
{
    plane_open();
    for (int i = 0; i < 2 * COMMANDS_BATCH + 1; i++) {
        struct command_run *r = begin("uid:1", RECORDING_MASKED);

        command_started(r, 7);
        command_ended(r, &good_end);
    }
    plane_close();
    plane_open();
    CHECK_INT(count_events(COMMAND_ENDED), 2 * COMMANDS_BATCH + 1);
    plane_close();
}

TEST(programs_without_a_record_need_no_care)
{
    struct err why = { .code = ERR_NOT_FOUND, .msg = "none" };
    struct command_run *r;

    plane_open();
    r = begin("uid:1", RECORDING_NONE);
    CHECK(!r);
    CHECK_STR(str_from(command_id(r)), "");
    command_started(r, 7);
    command_not_started(r, &why);
    command_ended(r, &good_end);
    command_gave_up(r, COMMAND_LOST, "none");
    CHECK(commands_are_idle(fix.control));
    plane_close();
}

TEST(an_administrator_is_counted_beyond_the_share)
{
    unsigned recorded = 0;

    fix.config.limits.events_per_owner = 6; /* three at once */
    plane_open();
    CHECK(commands_check(fix.control, "uid:1", NULL, &e) >= 0);
    for (int i = 0; i < 10; i++) {
        struct command_run *r = begin("uid:0", RECORDING_MASKED);

        recorded += r != NULL;
        command_started(r, 7);
        command_ended(r, &good_end);
    }
    CHECK_INT(recorded, 3);
    CHECK(commands_check(fix.control, "uid:0", NULL, &e) >= 0);
    plane_close();
    plane_open();
    CHECK_INT(count_events(COMMAND_ENDED), 3);
    CHECK_INT(count_events(COMMAND_SKIPPED), 1);
    plane_close();
}

TEST(tokens_of_an_administrator_leave_its_share_alone)
{
    const struct actor token = { .kind = ACTOR_AGT, .id = "tok_a" };

    fix.config.limits.events_per_owner = 6;
    plane_open();
    for (int i = 0; i < 10; i++) {
        struct command_run *r = begin_as(&token, "uid:0", RECORDING_MASKED);

        CHECK(r); /* refused by commands_check(), and never left out */
        command_started(r, 7);
        command_ended(r, &good_end);
    }
    for (int i = 0; i < 5; i++) {
        struct command_run *r = begin("uid:0", RECORDING_MASKED);

        CHECK_INT(r != NULL, i < 3);
        command_started(r, 7);
        command_ended(r, &good_end);
    }
    WAIT_FOR(commands_check(fix.control, "uid:0", &token, &e) == -(int)ERR_QUOTA);
    CHECK(commands_check(fix.control, "uid:0", NULL, &e) >= 0);
    plane_close();
}

static bool count_row(void *user, const struct command_row *row)
{
    ++*(int *)user;
    return true;
}

TEST(programs_of_one_owner_hide_no_others)
{
    enum { MANY = 5000 };
    struct command_run *runs[MANY];
    int n = 0;

    plane_open();
    for (int i = 0; i < MANY; i++)
        runs[i] = begin(i ? "uid:2" : "uid:1", RECORDING_MASKED);
    commands_each_running(fix.control, count_row, &n);
    CHECK_INT(n, MANY);
    for (int i = 0; i < MANY; i++)
        command_gave_up(runs[i], COMMAND_ABANDONED, "test");
    plane_close();
}

TEST(an_owner_is_refused_beyond_its_share)
{
    fix.config.limits.events_per_owner = 6;
    plane_open();
    for (int i = 0; i < 3; i++) {
        struct command_run *r = begin("uid:1", RECORDING_MASKED);

        command_started(r, 7);
        command_ended(r, &good_end);
    }
    WAIT_FOR(commands_check(fix.control, "uid:1", NULL, &e) == -(int)ERR_QUOTA);
    CHECK(commands_check(fix.control, "uid:2", NULL, &e) >= 0);
    plane_close();
}
