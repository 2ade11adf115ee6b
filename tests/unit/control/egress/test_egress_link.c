/* SPDX-License-Identifier: Apache-2.0 */
#include "control/egress/egress_link.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "unit/lib/tar/scratch.h"
#include "base/clock.h"
#include "base/own.h"
#include "control/sandbox/sandbox.h"
#include "engine/egress/chain.h"
#include "engine/egress/wire.h"
#include "unit/control/fixture.h"
#include "lib/gate/gate.h"
#include "lib/ipc/channel.h"

/* Room is given in this unit, and a part of a log has as much. */
enum { UNIT = 64 << 10, KB = 1 << 10 };
#define KEEP_NS (3600 * NS_PER_S)

/* The worker's end, in our hands; how many were started. */
static int theirs = -1;
static int started;
static uint64_t ended; /* the last one that was to end for good */

static union {
    struct wire_head head;
    struct wire_add add;
    struct wire_box box;
    struct wire_audit audit;
    struct wire_who_is who_is;
} got;
static struct ipc_fds fds;

static int start_worker(void *user, int *ret, uint64_t *ret_id, struct err *why)
{
    int pair[2];

    if (ipc_pair(pair, why) < 0)
        return -(int)why->code;
    drop_fd(&theirs);
    *ret = pair[0];
    theirs = pair[1];
    CHECK(fcntl(theirs, F_SETFL, O_NONBLOCK) == 0);
    *ret_id = (uint64_t)++started;
    return 0;
}

static void end_worker(void *user, uint64_t id)
{
    ended = id;
}

/* Receives a message, and answers it if it is a ping; false: no message. */
static bool receive(void)
{
    ssize_t n = theirs < 0 ? -(ssize_t)ERR_BUSY : ipc_recv(theirs, &got, sizeof got, &fds, &e);

    if (n == -(ssize_t)ERR_BUSY)
        return false;
    CHECK(n > 0);
    CHECK_OK(wire_check(&got, (size_t)n, &e), e);
    if (got.head.type != WIRE_PING)
        return true;
    wire_fill(&got.head, WIRE_PONG, got.head.tag, sizeof got.head);
    CHECK_OK(ipc_send(theirs, &got, sizeof got.head, NULL, 0, &e), e);
    return false;
}

/* The next message to the worker. */
static void expect(enum wire_type type, const char *id)
{
    ipc_fds_done(&fds);
    while (!receive())
        turn();
    CHECK_INT(got.head.type, type);
    if (id)
        CHECK_STR(str_from(got.box.id), id);
}

static void say(const void *message, size_t n)
{
    CHECK_OK(ipc_send(theirs, message, n, NULL, 0, &e), e);
}

static void say_box(enum wire_type type, const char *id, uint64_t generation)
{
    struct wire_box m = { .generation = generation };

    wire_fill(&m.head, type, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id);
    say(&m, sizeof m);
}

static void say_failed(enum wire_type request, const char *id, uint64_t generation)
{
    struct wire_failed m = {
        .request = request, .code = ERR_INVALID, .generation = generation, .msg = "no such thing"
    };

    wire_fill(&m.head, WIRE_FAILED, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id);
    say(&m, sizeof m);
}

static void open_plane(void)
{
    fix.egress_worker = start_worker;
    fix.end_egress_worker = end_worker;
    fix.config.egress.workers = 1;
    if (!fix.config.egress.audit_max)
        fix.config.egress.audit_max = 8 * UNIT;
    fix.config.egress.audit_keep = KEEP_NS;
    plane_open();
}

/* --- creating --- */

static struct creating {
    struct create_op op;
    struct create_request request;
    int done, r;
    struct err why;
} made;

static const char *const hosts[] = { "api.example.com:80" };

static void on_created(struct create_op *op, int r, const struct err *why)
{
    made.done++;
    made.r = r;
    if (r < 0)
        made.why = *why;
}

static void begin_create(void)
{
    made = (struct creating){ 0 };
    made.request = (struct create_request){ .profile = "profile.fake",
                                            .egress = { .given = true, .allow = { hosts, 1 } } };
    made.op =
        (struct create_op){ .caller = &fix.caller, .request = &made.request, .done = on_created };
    control_create(fix.control, &made.op);
}

static struct str policy_text(void)
{
    static char text[4096];
    ssize_t n = pread(fds.fd[0], text, sizeof text, 0);

    CHECK(n > 0);
    return (struct str){ text, (size_t)n };
}

static bool contains(struct str s, const char *part)
{
    return memmem(s.p, s.n, part, strlen(part));
}

static uint64_t room; /* of the log of the box that was added last */
static uint32_t lack;

/* The worker receives a box with its policy, and accepts both. */
static void serve(const char *id, uint64_t generation)
{
    char name[ID_MAX];

    expect(WIRE_ADD, id);
    snprintf(name, sizeof name, "%s", got.add.id);
    CHECK(got.add.has_audit && got.add.audit_part == UNIT);
    room = got.add.audit_room;
    lack = got.add.audit_lack;
    CHECK_INT(fds.n, 6); /* those of a fake boundary, and the log */
    say_box(WIRE_ADDED, name, 0);
    expect(WIRE_POLICY, name);
    CHECK_INT(got.box.generation, generation);
    CHECK_INT(fds.n, 2);
    say_box(WIRE_APPLIED, name, generation);
}

static struct sandbox *create(void)
{
    struct sandbox *s;

    begin_create();
    serve(NULL, 1);
    CHECK(!made.done);
    WAIT_FOR(made.done);
    CHECK_OK(made.r, made.why);
    s = find_sandbox(made.op.record->id);
    CHECK(s);
    arena_done(&made.op.arena);
    return s;
}

static void wait_in_force(struct sandbox *s, uint64_t generation)
{
    struct sandbox_egress x;

    do {
        CHECK(sandbox_egress(s, &x));
        if (x.in_force != generation)
            turn();
    } while (x.in_force != generation);
}

static void finish(struct sandbox *s)
{
    sandbox_unref(s);
    plane_close();
    ipc_fds_done(&fds);
    drop_fd(&theirs);
    fake_forget_all();
}

/* --- tests --- */

TEST(a_sandbox_is_ready_when_its_policy_is_in_force)
{
    struct sandbox_egress x;
    struct sandbox *s;

    open_plane();
    CHECK_INT(started, 0);
    begin_create();
    expect(WIRE_ADD, NULL);
    say_box(WIRE_ADDED, got.box.id, 0);
    expect(WIRE_POLICY, NULL);
    CHECK(contains(policy_text(), "api.example.com"));
    CHECK(!made.done);
    say_box(WIRE_APPLIED, got.box.id, 1);
    WAIT_FOR(made.done);
    CHECK_OK(made.r, made.why);
    CHECK_INT(made.op.record->state, SANDBOX_READY);
    s = find_sandbox(made.op.record->id);
    CHECK(sandbox_egress(s, &x));
    CHECK_INT(x.generation, 1);
    CHECK_INT(x.in_force, 1);
    CHECK_INT(x.endpoints, 1);
    arena_done(&made.op.arena);
    finish(s);
}

TEST(a_policy_that_the_worker_refuses_fails_the_sandbox)
{
    open_plane();
    begin_create();
    expect(WIRE_ADD, NULL);
    say_box(WIRE_ADDED, got.box.id, 0);
    expect(WIRE_POLICY, NULL);
    say_failed(WIRE_POLICY, got.box.id, 1);
    expect(WIRE_REMOVE, got.box.id);
    say_box(WIRE_REMOVED, got.box.id, 0);
    WAIT_FOR(made.done);
    CHECK(made.r < 0);
    CHECK(strstr(made.why.msg, "no such thing"));
    CHECK_STR(str_from(made.op.record->step), "egress");
    CHECK_INT(fake_box_count(), 0);
    arena_done(&made.op.arena);
    finish(NULL);
}

TEST(a_box_without_listeners_fails_the_sandbox)
{
    open_plane();
    fake_plan.fail_listeners = "they are gone";
    begin_create();
    WAIT_FOR(made.done);
    CHECK(made.r < 0 && strstr(made.why.msg, "they are gone"));
    arena_done(&made.op.arena);
    finish(NULL);
}

TEST(a_dead_worker_has_a_successor_that_is_told_everything)
{
    struct sandbox *s;

    open_plane();
    s = create();
    drop_fd(&theirs);
    WAIT_FOR(started == 2);
    serve(id_of(s), 1);
    wait_in_force(s, 1);
    CHECK_INT(egress_links_restarts(fix.control), 1);
    finish(s);
}

TEST(a_worker_that_talks_nonsense_is_left)
{
    struct sandbox *s;

    open_plane();
    s = create();
    say("hello", 5);
    WAIT_FOR(started == 2);
    serve(id_of(s), 1);
    wait_in_force(s, 1);
    finish(s);
}

TEST(the_next_life_of_the_daemon_tells_the_policy_again)
{
    char id[ID_MAX];
    struct sandbox *s;

    open_plane();
    s = create();
    snprintf(id, sizeof id, "%s", id_of(s));
    sandbox_unref(s);
    plane_close();
    drop_fd(&theirs);
    open_plane();
    serve(id, 1);
    s = find_sandbox(id);
    wait_in_force(s, 1);
    finish(s);
}

static int set_r = 1;
static struct err set_why;

static void on_set(void *user, int r, const struct err *why)
{
    set_r = r;
    if (r < 0)
        set_why = *why;
}

static const struct policy_bounds everything = { .ceiling = { .reach = EGRESS_REACH_LOCAL,
                                                              .from = "" } };

static void set_policy(struct sandbox *s, const char *host)
{
    struct policy_text *t;
    char text[200];

    snprintf(text, sizeof text,
             "version: 1\nnetwork_policies: {a: {endpoints: [{host: %s, port: 443}],"
             " binaries: [{path: '/**'}]}}\n",
             host);
    CHECK_OK(policy_text_read(str_from(text), &everything, &t, &e), e);
    set_r = 1;
    sandbox_set_policy(s, &fix.caller.actor, t, NULL, on_set, NULL);
    policy_text_unref(t);
}

TEST(a_new_policy_has_a_new_generation)
{
    char id[ID_MAX];
    struct sandbox *s;

    open_plane();
    s = create();
    snprintf(id, sizeof id, "%s", id_of(s));
    set_policy(s, "other.example.com");
    expect(WIRE_POLICY, id);
    CHECK_INT(got.box.generation, 2);
    CHECK(contains(policy_text(), "other.example.com"));
    CHECK_INT(set_r, 1);
    say_box(WIRE_APPLIED, id, 2);
    WAIT_FOR(set_r <= 0);
    CHECK_INT(set_r, 0);
    CHECK_INT(count_events("egress.policy"), 1);
    CHECK(contains(sandbox_policy(s), "other.example.com"));
    sandbox_unref(s);
    plane_close();
    drop_fd(&theirs);
    open_plane(); /* and it is on disk */
    serve(id, 2);
    s = find_sandbox(id);
    wait_in_force(s, 2);
    finish(s);
}

TEST(a_policy_that_is_not_taken_is_told)
{
    struct sandbox *s;

    open_plane();
    s = create();
    set_policy(s, "other.example.com");
    expect(WIRE_POLICY, id_of(s));
    say_failed(WIRE_POLICY, id_of(s), 2);
    WAIT_FOR(set_r <= 0);
    CHECK_INT(set_r, -ERR_INVALID);
    CHECK(strstr(set_why.msg, "no such thing"));
    wait_in_force(s, 1);
    finish(s);
}

TEST(a_sandbox_without_a_network_has_no_policy)
{
    struct sandbox_egress x;
    struct sandbox *s;

    open_plane();
    s = new_sandbox();
    CHECK(!sandbox_egress(s, &x));
    CHECK_INT(started, 0);
    set_policy(s, "other.example.com");
    WAIT_FOR(set_r <= 0);
    CHECK_INT(set_r, -ERR_CONFLICT);
    finish(s);
}

static bool gone;

static void on_gone(struct sandbox_op *op, int r, const struct err *why)
{
    if (r < 0)
        FAIL("destroying: %s", why->msg);
    gone = true;
}

/* The worker hears of it, and has said nothing yet. */
static void begin_destroy(struct sandbox *s, struct sandbox_op *op)
{
    gone = false;
    *op = (struct sandbox_op){ .done = on_gone };
    sandbox_destroy(s, &fix.caller.actor, "test", DESTROY_NO_SYNC, op);
    expect(WIRE_REMOVE, id_of(s));
    CHECK(!gone);
}

TEST(the_end_waits_for_the_last_counters)
{
    struct wire_used m = { .allowed = 3, .bytes_out = 10, .bytes_in = 20 };
    struct sandbox_egress x;
    struct sandbox_op op;
    struct sandbox *s;

    open_plane();
    s = create();
    begin_destroy(s, &op);
    CHECK_INT(fake_box_count(), 1);
    wire_fill(&m.head, WIRE_USED, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id_of(s));
    say(&m, sizeof m);
    say_box(WIRE_REMOVED, id_of(s), 0);
    WAIT_FOR(gone);
    CHECK(sandbox_egress(s, &x));
    CHECK_INT(x.allowed, 3);
    CHECK_INT(x.bytes_in, 20);
    CHECK_INT(egress_links_counters(fix.control).bytes_out, 10);
    CHECK_INT(fake_box_count(), 0);
    finish(s);
}

TEST(the_end_does_not_wait_for_ever)
{
    struct sandbox_op op;
    struct sandbox *s;

    open_plane();
    s = create();
    begin_destroy(s, &op);
    WAIT_FOR(gone); /* without a word from the worker */
    finish(s);
}

TEST(the_end_does_not_wait_for_a_dead_worker)
{
    struct sandbox_op op;
    struct sandbox *s;

    open_plane();
    s = create();
    begin_destroy(s, &op);
    drop_fd(&theirs);
    WAIT_FOR(gone);
    finish(s);
}

TEST(the_daemon_may_end_before_the_last_counters)
{
    struct sandbox_op op;
    struct sandbox *s;

    open_plane();
    s = create();
    begin_destroy(s, &op);
    link_leave(&op.link_);
    finish(s);
}

TEST(a_worker_that_does_not_answer_is_ended_and_replaced)
{
    struct sandbox *s;

    open_plane();
    s = create();
    WAIT_FOR(started == 2); /* the worker reads no messages */
    CHECK_INT(ended, 1);
    serve(id_of(s), 1);
    wait_in_force(s, 1);
    finish(s);
}

TEST(what_is_used_is_counted_and_keeps_a_sandbox_alive)
{
    struct wire_used m = { .allowed = 3, .denied = 2, .bytes_out = 10, .bytes_in = 20 };
    struct sandbox_egress x = { 0 };
    struct sandbox *s;

    open_plane();
    s = create();
    s->idle.used_ns[USE_EGRESS] = 0;
    wire_fill(&m.head, WIRE_USED, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id_of(s));
    say(&m, sizeof m);
    WAIT_FOR((sandbox_egress(s, &x), x.allowed));
    CHECK_INT(x.denied, 2);
    CHECK_INT(x.bytes_in, 20);
    CHECK(s->idle.used_ns[USE_EGRESS] > 0);
    drop_fd(&theirs); /* the next one begins at 0 */
    WAIT_FOR(started == 2);
    serve(id_of(s), 1);
    say(&m, sizeof m);
    WAIT_FOR((sandbox_egress(s, &x), x.allowed == 6));
    CHECK_INT(egress_links_counters(fix.control).bytes_out, 20);
    finish(s);
}

/* In place of the worker. */
static void write_log(const char *id, size_t n)
{
    static const char bytes[16 * UNIT];
    char name[64];
    int fd;

    snprintf(name, sizeof name, "state/egress/%s.jsonl", id);
    fd = openat(fix.scratch.dir, name, O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(n <= sizeof bytes && fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

/* A line with its place in the chain. */
static void write_line(const char *id, struct chain_place *at, bool first, int64_t time_ms)
{
    char name[64], line[512];
    size_t n;
    int fd;

    snprintf(line, sizeof line, "{\"time\":%lld,\"unmapped\":{\"x\":1}}\n", (long long)time_ms);
    n = chain_add(at, first, NULL, line, strlen(line));
    snprintf(name, sizeof name, "state/egress/%s.jsonl", id);
    fd = openat(fix.scratch.dir, name, O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, line, n) == (ssize_t)n);
    close(fd);
}

static size_t count_parts(const char *id)
{
    struct egress_link_parts all;

    egress_link_list_parts(fix.control, id, &all);
    return all.n;
}

/* As if nothing had been written to a part, `number` or the last one, for so long. */
static void age_part(const char *id, uint32_t number, int64_t ns)
{
    int64_t at = clock_wall() - ns;
    struct timespec times[2] = { { .tv_sec = at / NS_PER_S }, { .tv_sec = at / NS_PER_S } };
    char name[96];

    if (number == EGRESS_LINK_PART_NOW)
        snprintf(name, sizeof name, "state/egress/%s.jsonl", id);
    else
        snprintf(name, sizeof name, "state/egress/%s.parts/%09u", id, number);
    CHECK(utimensat(fix.scratch.dir, name, times, 0) == 0);
}

static void end(struct sandbox *s)
{
    struct sandbox_op op;

    begin_destroy(s, &op);
    say_box(WIRE_REMOVED, id_of(s), 0);
    WAIT_FOR(gone);
    sandbox_unref(s);
}

static uint64_t log_bytes(void)
{
    return quota_used(&fix.control->egress_links->log_bytes, STR("uid:1000"));
}

/* Asks for more room; how much there is then, and whether the log was begun anew. */
static uint64_t ask_room(const char *id, bool *ret_anew)
{
    say_box(WIRE_FULL, id, 0);
    expect(WIRE_AUDIT, id);
    *ret_anew = fds.n == 1;
    lack = got.audit.lack;
    return got.audit.room;
}

TEST(a_sandbox_whose_log_is_full_is_denied_alone)
{
    struct sandbox *s[2];
    bool anew;

    fix.config.egress.audit_max = 2 * UNIT;
    fix.config.limits.egress_logs_per_owner = 16 * UNIT;
    open_plane();
    s[0] = create();
    CHECK_INT(room, UNIT);
    CHECK_INT(lack, WIRE_LACK_NONE);
    write_log(id_of(s[0]), 40 * KB);
    CHECK_INT(ask_room(id_of(s[0]), &anew), 2 * UNIT);
    CHECK_INT(lack, WIRE_LACK_BOX); /* that is all */
    CHECK_INT(egress_links_full_logs(fix.control), 0);
    write_log(id_of(s[0]), 60 * KB);
    CHECK_INT(ask_room(id_of(s[0]), &anew), 28 * KB); /* of the next part */
    CHECK(anew);
    CHECK_INT(lack, WIRE_LACK_BOX);
    write_log(id_of(s[0]), 28 * KB);
    CHECK_INT(ask_room(id_of(s[0]), &anew), 28 * KB);
    CHECK_INT(lack, WIRE_LACK_BOX);
    CHECK_INT(egress_links_full_logs(fix.control), 1);
    CHECK_INT(count_parts(id_of(s[0])), 2); /* nothing of it is gone */
    s[1] = create();
    CHECK_INT(room, UNIT);
    CHECK_INT(lack, WIRE_LACK_NONE);

    age_part(id_of(s[0]), 1, KEEP_NS + NS_PER_S); /* expired records free their room */
    egress_links_expire_logs(fix.control);
    expect(WIRE_AUDIT, id_of(s[0]));
    CHECK_INT(got.audit.room, 28 * KB + UNIT);
    CHECK_INT(got.audit.lack, WIRE_LACK_NONE);
    CHECK_INT(count_parts(id_of(s[0])), 1);
    CHECK_INT(egress_links_full_logs(fix.control), 0);
    end(s[0]);
    finish(s[1]);
}

/* One that has ended, of 100 KiB in two parts, and one that has room for 64 KiB. */
static struct sandbox *fill_share(char first[static ID_MAX])
{
    struct sandbox *s;
    bool anew;

    fix.config.limits.egress_logs_per_owner = 3 * UNIT;
    open_plane();
    s = create();
    snprintf(first, ID_MAX, "%s", id_of(s));
    write_log(first, 70 * KB);
    CHECK_INT(ask_room(first, &anew), UNIT);
    CHECK(anew);
    write_log(first, 30 * KB);
    CHECK_INT(log_bytes(), 70 * KB + UNIT);
    end(s);
    CHECK_INT(log_bytes(), 100 * KB); /* its lines, and no spare room */
    s = create();
    CHECK_INT(log_bytes(), 100 * KB + UNIT);
    write_log(id_of(s), 60 * KB);
    return s;
}

TEST(logs_of_an_owner_have_a_share_and_ended_ones_count_until_they_expire)
{
    char first[ID_MAX];
    struct sandbox *s = fill_share(first);
    bool anew;

    CHECK_INT(ask_room(id_of(s), &anew), UNIT);
    CHECK_INT(lack, WIRE_LACK_OWNER);
    CHECK_INT(egress_links_full_logs(fix.control), 1);
    CHECK_INT(count_parts(first), 2);
    age_part(first, 1, KEEP_NS + NS_PER_S);
    egress_links_expire_logs(fix.control);
    CHECK_INT(count_parts(first), 1);
    CHECK_INT(log_bytes(), 30 * KB + UNIT);
    CHECK_INT(ask_room(id_of(s), &anew), 2 * UNIT); /* the worker asks again and again */
    CHECK_INT(lack, WIRE_LACK_NONE);
    CHECK_INT(egress_links_full_logs(fix.control), 0);
    CHECK_INT(fix.control->egress_links->dropped, 0);
    finish(s);
}

TEST(where_it_is_configured_the_oldest_ended_logs_make_room)
{
    char first[ID_MAX];
    struct sandbox *s;
    bool anew;

    fix.config.egress.audit_overflow = CONFIG_AUDIT_DROP_OLDEST;
    s = fill_share(first);
    CHECK_INT(ask_room(id_of(s), &anew), 2 * UNIT);
    CHECK_INT(lack, WIRE_LACK_NONE);
    CHECK_INT(count_parts(first), 1); /* the older part */
    CHECK_INT(log_bytes(), 30 * KB + 2 * UNIT);
    CHECK_INT(fix.control->egress_links->dropped, 70 * KB);
    finish(s);
}

/* The cut is on record before the lines are gone. */
TEST(an_expired_part_leaves_a_cut)
{
    struct store_query q = { .kind = STORE_EGRESS_HEADS, .limit = 1 };
    struct chain_place at = { 0 }, cut;
    struct sandbox *s;
    char id[ID_MAX];
    bool anew;

    open_plane();
    s = create();
    snprintf(id, sizeof id, "%s", id_of(s));
    for (int i = 0; i < 600; i++)
        write_line(id, &at, i == 0, clock_wall() / NS_PER_MS);
    cut = at;
    (void)ask_room(id, &anew);
    CHECK(anew);
    write_line(id, &at, true, clock_wall() / NS_PER_MS);
    egress_links_expire_logs(fix.control);
    CHECK_INT(count_parts(id), 2); /* it is not that old */
    age_part(id, 1, KEEP_NS + NS_PER_S);
    egress_links_expire_logs(fix.control);
    CHECK_INT(count_parts(id), 2); /* the cut is on its way */
    expect(WIRE_AUDIT, id);
    CHECK_INT(count_parts(id), 1);
    q.sandbox = str_from(id);
    arena_init(&q.arena, CONTROL_ARENA_MAX);
    CHECK_OK(store_ask_now(fix.control->store, &q, &e), e);
    CHECK_INT(q.n, 1);
    CHECK_INT(q.egress_heads[0].cut_seq, cut.seq);
    CHECK_INT(q.egress_heads[0].seq, at.seq);
    CHECK(memcmp(q.egress_heads[0].cut_digest, cut.digest, CHAIN_SIZE) == 0);
    arena_done(&q.arena);
    finish(s);
}

TEST(a_part_with_old_records_is_put_aside)
{
    struct chain_place at = { 0 };
    struct sandbox *s;

    open_plane();
    s = create();
    write_line(id_of(s), &at, true, 1); /* of 1970 */
    egress_links_expire_logs(fix.control);
    expect(WIRE_AUDIT, id_of(s));
    CHECK_INT(fds.n, 1);
    CHECK_INT(count_parts(id_of(s)), 2);
    finish(s);
}

/* Killed between putting a part aside and making the next. */
TEST(a_log_without_a_last_part_goes_on)
{
    struct chain_place at = { 0 };
    struct sandbox *s;
    char now[96], aside[96];

    open_plane();
    s = create();
    for (int i = 0; i < 3; i++)
        write_line(id_of(s), &at, i == 0, 1);
    snprintf(now, sizeof now, "state/egress/%s.parts", id_of(s));
    CHECK(mkdirat(fix.scratch.dir, now, 0700) == 0);
    snprintf(now, sizeof now, "state/egress/%s.jsonl", id_of(s));
    snprintf(aside, sizeof aside, "state/egress/%s.parts/000000007", id_of(s));
    CHECK(renameat(fix.scratch.dir, now, fix.scratch.dir, aside) == 0);
    drop_fd(&theirs); /* the next worker continues after its last line */
    WAIT_FOR(theirs >= 0);
    expect(WIRE_ADD, id_of(s));
    CHECK_INT(got.add.chain_seq, 3);
    CHECK(memcmp(got.add.chain_digest, at.digest, CHAIN_SIZE) == 0);
    CHECK_INT(count_parts(id_of(s)), 2);
    finish(s);
}

TEST(another_owners_logs_have_their_own_share)
{
    struct sandbox *s[2];

    fix.config.limits.egress_logs_per_owner = UNIT;
    open_plane();
    s[0] = create();
    CHECK_INT(room, UNIT);
    snprintf(fix.caller.owner, sizeof fix.caller.owner, "uid:1001");
    s[1] = create();
    CHECK_INT(room, UNIT);
    end(s[0]);
    finish(s[1]);
}

TEST(a_family_at_its_part_removes_no_log_of_another)
{
    struct sandbox *s[8];
    char other[ID_MAX];
    bool anew;

    fix.config.limits.egress_logs_per_owner = 8 * UNIT;
    fix.config.egress.audit_overflow = CONFIG_AUDIT_DROP_OLDEST;
    open_plane();
    snprintf(fix.caller.family, sizeof fix.caller.family, "tok_2");
    s[0] = create();
    snprintf(other, sizeof other, "%s", id_of(s[0]));
    write_log(other, 3000);
    end(s[0]);
    snprintf(fix.caller.family, sizeof fix.caller.family, "tok_1");
    for (int i = 0; i < 8; i++) {
        s[i] = create();
        CHECK_INT(room, i < 7 ? UNIT : 1); /* no line fits */
    }
    CHECK_INT(lack, WIRE_LACK_OWNER);
    CHECK_INT(count_parts(other), 1);
    CHECK_INT(log_bytes(), 7 * UNIT + 3000);
    write_log(id_of(s[0]), 3000);
    end(s[0]); /* its own makes room */
    CHECK_INT(ask_room(id_of(s[7]), &anew), UNIT);
    CHECK_INT(count_parts(other), 1);
    for (int i = 1; i < 7; i++)
        end(s[i]);
    finish(s[7]);
}

static void be_administrators_token(const char *family)
{
    snprintf(fix.caller.owner, sizeof fix.caller.owner, "uid:0");
    snprintf(fix.caller.family, sizeof fix.caller.family, "%s", family);
}

TEST(a_family_of_an_administrators_tokens_has_an_owners_share_of_logs)
{
    static const struct {
        const char *family;
        uint64_t room;
    } rows[] = {
        { "tok_1", UNIT }, { "tok_1", 1 }, { "tok_2", UNIT }, { "", UNIT }, { "", UNIT },
    };
    struct sandbox *s[COUNT_OF(rows)];

    fix.config.limits.egress_logs_per_owner = UNIT;
    open_plane();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        be_administrators_token(rows[i].family);
        s[i] = create();
        CHECK_INT(room, rows[i].room);
    }
    for (size_t i = 1; i < COUNT_OF(rows); i++)
        end(s[i]);
    finish(s[0]);
}

static unsigned drops_published;

static void on_any_event(struct event_subscriber *s, const struct event_record *v)
{
    drops_published += strcmp(v->type, "audit.dropped") == 0;
}

/* Also where the log counts in the account of a family of an administrator's tokens. */
TEST(an_event_of_dropped_records_is_its_owners)
{
    struct store_query q = { .kind = STORE_EVENTS, .limit = 1000 };
    struct event_subscriber listening = { 0 };
    struct chain_place at = { 0 };
    struct sandbox *s;
    bool anew, found = false;

    fix.config.egress.audit_overflow = CONFIG_AUDIT_DROP_OLDEST;
    fix.config.limits.egress_logs_per_owner = 3 * UNIT;
    open_plane();
    control_subscribe(fix.control, &listening, on_any_event);
    be_administrators_token("tok_1");
    s = create();
    for (int i = 0; i < 600; i++)
        write_line(id_of(s), &at, i == 0, clock_wall() / NS_PER_MS);
    (void)ask_room(id_of(s), &anew);
    CHECK(anew);
    write_log(id_of(s), 30 * KB);
    end(s);
    s = create();
    write_log(id_of(s), 60 * KB);
    (void)ask_room(id_of(s), &anew);
    expect(WIRE_AUDIT, id_of(s)); /* when the cut is on record */
    CHECK_INT(got.audit.room, 2 * UNIT);
    arena_init(&q.arena, CONTROL_ARENA_MAX);
    CHECK_OK(store_ask_now(fix.control->store, &q, &e), e);
    for (size_t i = 0; i < q.n; i++)
        if (strcmp(q.events[i].type, "audit.dropped") == 0) {
            CHECK_STR(str_from(q.events[i].owner), "uid:0");
            found = true;
        }
    CHECK(found);
    CHECK_INT(drops_published, 1);
    event_unsubscribe(&listening);
    arena_done(&q.arena);
    end(s);
    finish(NULL);
}

TEST(the_next_life_of_the_daemon_counts_the_logs)
{
    struct sandbox *s;
    char id[ID_MAX];
    bool anew;

    fix.config.limits.egress_logs_per_owner = 8 * UNIT;
    open_plane();
    s = create();
    snprintf(id, sizeof id, "%s", id_of(s));
    write_log(id, UNIT + 1);
    (void)ask_room(id, &anew);
    write_log(id, 1000);
    end(s);
    plane_close();
    drop_fd(&theirs);
    open_plane();
    CHECK_INT(log_bytes(), UNIT + 1001);
    egress_link_remove_logs(fix.control, id);
    CHECK_INT(log_bytes(), 0);
    CHECK_INT(count_parts(id), 0);
    finish(NULL);
}

TEST(a_long_part_is_put_aside)
{
    char name[64];
    struct sandbox *s;
    struct stat st;
    bool anew;

    open_plane();
    s = create();
    CHECK_INT(count_parts(id_of(s)), 1);
    write_log(id_of(s), UNIT + 1);
    (void)ask_room(id_of(s), &anew);
    CHECK(anew);
    CHECK_INT(count_parts(id_of(s)), 2);
    snprintf(name, sizeof name, "state/egress/%s.jsonl", id_of(s));
    CHECK(fstatat(fix.scratch.dir, name, &st, 0) == 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    finish(s);
}

TEST(a_log_of_an_ended_sandbox_goes_when_its_last_record_expires)
{
    char id[ID_MAX];
    struct sandbox *s;
    bool anew;

    open_plane();
    s = create();
    snprintf(id, sizeof id, "%s", id_of(s));
    write_log(id, UNIT + 1);
    (void)ask_room(id, &anew);
    age_part(id, EGRESS_LINK_PART_NOW, 2 * KEEP_NS);
    egress_links_expire_logs(fix.control);
    CHECK_INT(count_parts(id), 2); /* it lives */
    drop_fd(&theirs);              /* no worker is left to report counters */
    destroy(s);
    egress_links_expire_logs(fix.control);
    CHECK_INT(count_parts(id), 2); /* it has just ended */
    age_part(id, EGRESS_LINK_PART_NOW, 2 * KEEP_NS);
    egress_links_expire_logs(fix.control);
    CHECK_INT(count_parts(id), 0);
    finish(s);
}

/* --- who --- */

static void ask_who(struct sandbox *s, uint32_t tag)
{
    struct wire_who m = { .inode = 7 };

    wire_fill(&m.head, WIRE_WHO, tag, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id_of(s));
    say(&m, sizeof m);
    expect(WIRE_WHO_IS, NULL);
    CHECK_INT(got.head.tag, tag);
}

TEST(a_program_is_told_with_its_hash)
{
    static const char hash[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    struct backend_exe exe[2] = { { .path = "/usr/bin/x", .fd = -1 },
                                  { .path = "/bin/sh", .fd = -1 } };
    struct backend_holder holder[2] = {
        { .pid = 5, .exe = &exe[0], .ancestors = { &exe[1] }, .n_ancestors = 1 },
        { .pid = 6, .exe = &exe[0] },
    };
    struct backend_who who = { .holders = holder, .n = 1, .exes = exe, .n_exes = 2 };
    struct sandbox *s;

    open_plane();
    s = create();
    make_file(fix.scratch.dir, "x", "abc");
    exe[0].fd = openat(fix.scratch.dir, "x", O_RDONLY | O_CLOEXEC);
    fake_plan.who = &who;
    for (uint32_t i = 1; i < 3; i++) { /* read, and known */
        ask_who(s, i);
        CHECK(got.who_is.known);
        CHECK_STR(str_from(got.who_is.binary), "/usr/bin/x");
        CHECK_STR(str_from(got.who_is.hash), hash);
        CHECK_INT(got.who_is.n_ancestors, 1);
        CHECK_STR(str_from(got.who_is.ancestors[0]), "/bin/sh");
    }
    who.n = 2; /* the second has another way here */
    ask_who(s, 3);
    CHECK(got.who_is.known && !got.who_is.n_ancestors);
    holder[1].exe = &exe[1];
    ask_who(s, 4);
    CHECK(!got.who_is.known);
    who.n = 1;
    exe[0].path = NULL;
    ask_who(s, 5);
    CHECK(!got.who_is.known);
    fake_plan.who = NULL;
    ask_who(s, 6);
    CHECK(!got.who_is.known);
    fake_plan.fail_who = "it is busy";
    ask_who(s, 7);
    CHECK(!got.who_is.known);
    close(exe[0].fd);
    finish(s);
}

/* Hashing reads up to a GiB on the threads that the store needs, too. */
TEST(programs_of_one_owner_leave_turns_to_those_of_others)
{
    struct backend_exe exe = { .path = "/usr/bin/x", .fd = -1 };
    struct backend_holder holder = { .pid = 5, .exe = &exe };
    const struct backend_who who = { .holders = &holder, .n = 1, .exes = &exe, .n_exes = 1 };
    const struct quota *waiting, *running;
    struct sandbox *one, *other;

    open_plane();
    waiting = &fix.control->egress_links->hashing.waiting;
    running = &fix.control->egress_links->hashing.running;
    one = create();
    snprintf(fix.caller.owner, sizeof fix.caller.owner, "uid:1001");
    other = create();
    make_file(fix.scratch.dir, "x", "abc");
    exe.fd = openat(fix.scratch.dir, "x", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 100; i++)
        egress_link_on_who(fix.control, one->box, 0, 0, NULL, &who);
    CHECK_INT(waiting->used, 64);
    egress_link_on_who(fix.control, other->box, 0, 0, NULL, &who);
    CHECK_INT(waiting->used, 65);
    while (waiting->used || running->used) {
        CHECK(running->used <= 2);
        CHECK(quota_used(running, STR("uid:1000")) <= 1);
        CHECK_OK(loop_run_once(&fix.loop, NS_PER_S, &e), e);
    }
    close(exe.fd);
    end(one);
    finish(other);
}

/* --- places: the supervisor's answers are ours --- */

static struct {
    int n; /* requests so far */
    struct control_request *request;
    uint64_t worker;
    struct gate_place list[8];
    size_t count;
} asked;

static int take_places(void *user, uint64_t id, const struct gate_place *list, size_t n,
                       struct control_request *q, struct err *why)
{
    CHECK(!asked.request && n <= COUNT_OF(asked.list)); /* one at a time */
    asked.n++;
    asked.request = q;
    asked.worker = id;
    asked.count = n;
    memcpy(asked.list, list, n * sizeof *list);
    CHECK_OK(gate_places_check(list, n, &e), e);
    return 0;
}

static void cancel_places(void *user, struct control_request *q)
{
    CHECK(q == asked.request);
    asked.request = NULL;
}

static void answer_places(int r)
{
    struct control_request *q = asked.request;
    struct err why;
    int none = -1;

    (void)err_set(&why, ERR_TOO_BIG, "no room");
    asked.request = NULL;
    q->done(q, r, &why, &none);
}

static void open_gated_plane(void)
{
    fix.egress_places = take_places;
    fix.cancel = cancel_places;
    open_plane();
}

static void set_local_policy(struct sandbox *s, const char *address, unsigned port)
{
    AUTO(policy_text_unrefp_) struct policy_text *t = NULL;
    struct policy_bounds bounds = everything;
    char text[256];

    bounds.author.admin = true; /* an administrator, also after a restart */
    snprintf(text, sizeof text,
             "version: 1\nnetwork_policies: {a: {endpoints: [{host: '%s', port: %u, allowed_ips: "
             "['%s']}], binaries: [{path: '/**'}]}}\n",
             address, port, address);
    CHECK_OK(policy_text_read(str_from(text), &bounds, &t, &e), e);
    set_r = 1;
    sandbox_set_policy(s, &fix.caller.actor, t, NULL, on_set, NULL);
}

static bool asked_for(const char *address, uint16_t port)
{
    struct gate_place want;
    struct address a;

    CHECK(address_parse(str_from(address), &a));
    want = gate_place_of(&a, port);
    for (size_t i = 0; i < asked.count; i++)
        if (gate_place_compare(&asked.list[i], &want) == 0)
            return true;
    return false;
}

/* The policy and what else is under way has time to come, and does not. */
static void expect_silence(void)
{
    for (int i = 0; i < 50; i++) {
        CHECK(!receive());
        turn();
    }
}

static void set_in_force(struct sandbox *s, uint64_t generation)
{
    expect(WIRE_POLICY, id_of(s));
    CHECK_INT(got.box.generation, generation);
    say_box(WIRE_APPLIED, id_of(s), generation);
    wait_in_force(s, generation);
    WAIT_FOR(set_r <= 0);
    CHECK_INT(set_r, 0);
}

TEST(a_policy_waits_until_the_supervisor_has_its_places)
{
    struct sandbox *s;

    open_gated_plane();
    s = create();
    CHECK_INT(asked.n, 0); /* public destinations need none */
    set_local_policy(s, "10.1.2.3", 443);
    WAIT_FOR(asked.n == 1);
    CHECK_INT(asked.worker, 1);
    CHECK_INT(asked.count, 1);
    CHECK(asked_for("10.1.2.3", 443));
    expect_silence();
    answer_places(0);
    set_in_force(s, 2);
    set_local_policy(s, "127.0.0.1", 80);
    WAIT_FOR(asked.n == 2);
    CHECK_INT(asked.count, 1);
    CHECK(asked_for("127.0.0.1", 80));
    answer_places(0);
    set_in_force(s, 3);
    set_policy(s, "other.example.com"); /* does not wait for places that it does not need */
    set_in_force(s, 4);
    CHECK_INT(asked.n, 3);
    CHECK_INT(asked.count, 0);
    answer_places(0);
    finish(s);
}

TEST(the_next_worker_and_the_next_daemon_have_the_places_first)
{
    char id[ID_MAX];
    struct sandbox *s;

    open_gated_plane();
    s = create();
    snprintf(id, sizeof id, "%s", id_of(s));
    set_local_policy(s, "10.1.2.3", 443);
    WAIT_FOR(asked.n == 1);
    answer_places(0);
    set_in_force(s, 2);
    drop_fd(&theirs);
    WAIT_FOR(asked.n == 2);
    CHECK_INT(asked.worker, 2);
    CHECK(asked_for("10.1.2.3", 443));
    expect(WIRE_ADD, id);
    say_box(WIRE_ADDED, id, 0);
    expect_silence();
    drop_fd(&theirs); /* it dies before the answer */
    WAIT_FOR(asked.n == 3);
    CHECK_INT(asked.worker, 3);
    answer_places(0);
    serve(id, 2);
    wait_in_force(s, 2);
    sandbox_unref(s);
    plane_close();
    drop_fd(&theirs);
    asked.n = 0;
    open_gated_plane();
    WAIT_FOR(asked.n == 1);
    CHECK(asked_for("10.1.2.3", 443));
    answer_places(0);
    serve(id, 2);
    s = find_sandbox(id);
    wait_in_force(s, 2);
    finish(s);
}

TEST(places_go_with_their_sandbox)
{
    struct sandbox_op op;
    struct sandbox *s;

    open_gated_plane();
    s = create();
    set_local_policy(s, "10.1.2.3", 443);
    WAIT_FOR(asked.n == 1);
    answer_places(0);
    set_in_force(s, 2);
    begin_destroy(s, &op);
    say_box(WIRE_REMOVED, id_of(s), 0);
    WAIT_FOR(gone && asked.n == 2);
    CHECK_INT(asked.count, 0);
    answer_places(0);
    finish(s);
}

TEST(places_that_the_supervisor_does_not_take_are_told_and_tried_again)
{
    struct sandbox *s;

    open_gated_plane();
    s = create();
    set_local_policy(s, "10.1.2.3", 443);
    WAIT_FOR(asked.n == 1);
    answer_places(-ERR_TOO_BIG);
    WAIT_FOR(set_r <= 0);
    CHECK_INT(set_r, -ERR_TOO_BIG);
    CHECK(strstr(set_why.msg, "no room"));
    wait_in_force(s, 1);
    WAIT_FOR(asked.n == 2);
    answer_places(0);
    expect(WIRE_POLICY, id_of(s));
    say_box(WIRE_APPLIED, id_of(s), 2);
    wait_in_force(s, 2);
    finish(s);
}
