#include "control/outlet.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "../tree/scratch.h"
#include "base/clock.h"
#include "base/own.h"
#include "control/sandbox.h"
#include "egress/wire.h"
#include "fixture.h"
#include "ipc/channel.h"

/* The worker's end, in our hands; how many were started. */
static int theirs = -1;
static int started;
static pid_t ended; /* the last one that was to end for good */

static union {
    struct wire_head head;
    struct wire_add add;
    struct wire_box box;
    struct wire_who_is who_is;
} got;
static struct ipc_fds fds;

static int start_worker(void *user, int *ret, pid_t *ret_pid, struct err *why)
{
    int pair[2];

    (void)user;
    if (ipc_pair(pair, why) < 0)
        return -(int)why->code;
    drop_fd(&theirs);
    *ret = pair[0];
    theirs = pair[1];
    CHECK(fcntl(theirs, F_SETFL, O_NONBLOCK) == 0);
    *ret_pid = ++started;
    return 0;
}

static void end_worker(void *user, pid_t pid)
{
    (void)user;
    ended = pid;
}

/* Receives a message, and answers it if it is a ping; false: there is none. */
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
    fix.config.egress.audit_max = 4096;
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
    (void)op;
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

/* The worker is told of a box, and takes it and its policy. */
static void serve(const char *id, uint64_t generation)
{
    char name[ID_MAX];

    expect(WIRE_ADD, id);
    snprintf(name, sizeof name, "%s", got.add.id);
    CHECK(got.add.has_audit && got.add.audit_max == 4096);
    CHECK_INT(fds.n, 6); /* those of a fake boundary, and the log */
    say_box(WIRE_ADDED, name, 0);
    expect(WIRE_POLICY, name);
    CHECK_INT(got.box.generation, generation);
    CHECK_INT(fds.n, 1);
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
    CHECK_INT(outlets_restarts(fix.control), 1);
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
    (void)user;
    set_r = r;
    if (r < 0)
        set_why = *why;
}

static void set_policy(struct sandbox *s, const char *host)
{
    struct policy_text *t;
    char text[200];

    snprintf(text, sizeof text,
             "version: 1\nnetwork_policies: {a: {endpoints: [{host: %s, port: 443}],"
             " binaries: [{path: '/**'}]}}\n",
             host);
    CHECK_OK(policy_text_read(str_from(text), &t, &e), e);
    set_r = 1;
    sandbox_set_policy(s, &fix.caller.actor, t, on_set, NULL);
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
    (void)op;
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
    CHECK_INT(outlets_counters(fix.control).bytes_out, 10);
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
    WAIT_FOR(started == 2); /* nobody receives what it is asked */
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
    s->used_ns = 0;
    wire_fill(&m.head, WIRE_USED, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id_of(s));
    say(&m, sizeof m);
    WAIT_FOR((sandbox_egress(s, &x), x.allowed));
    CHECK_INT(x.denied, 2);
    CHECK_INT(x.bytes_in, 20);
    CHECK(s->used_ns > 0);
    drop_fd(&theirs); /* the next one begins at 0 */
    WAIT_FOR(started == 2);
    serve(id_of(s), 1);
    say(&m, sizeof m);
    WAIT_FOR((sandbox_egress(s, &x), x.allowed == 6));
    CHECK_INT(outlets_counters(fix.control).bytes_out, 20);
    finish(s);
}

TEST(a_full_log_is_put_aside)
{
    char name[64];
    struct sandbox *s;
    struct stat st;
    int fd;

    open_plane();
    s = create();
    CHECK_OK(outlet_open_log(fix.control, id_of(s), OUTLET_LOG_NOW, &fd, &e), e);
    close(fd);
    CHECK_INT(outlet_open_log(fix.control, id_of(s), OUTLET_LOG_BEFORE, &fd, &e), -ERR_NOT_FOUND);
    say_box(WIRE_FULL, id_of(s), 0);
    expect(WIRE_AUDIT, id_of(s));
    CHECK_INT(fds.n, 1);
    CHECK_OK(outlet_open_log(fix.control, id_of(s), OUTLET_LOG_BEFORE, &fd, &e), e);
    close(fd);
    snprintf(name, sizeof name, "state/egress/%s.jsonl", id_of(s));
    CHECK(fstatat(fix.scratch.dir, name, &st, 0) == 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    finish(s);
}

TEST(a_log_goes_with_its_record)
{
    char id[ID_MAX];
    struct sandbox *s;
    int fd;

    open_plane();
    s = create();
    snprintf(id, sizeof id, "%s", id_of(s));
    outlets_prune_logs(fix.control, INT64_MAX);
    CHECK_OK(outlet_open_log(fix.control, id, OUTLET_LOG_NOW, &fd, &e), e); /* it lives */
    close(fd);
    drop_fd(&theirs); /* nobody's counters are waited for */
    destroy(s);
    outlets_prune_logs(fix.control, clock_wall() - 3600 * NS_PER_S);
    CHECK_OK(outlet_open_log(fix.control, id, OUTLET_LOG_NOW, &fd, &e), e);
    close(fd);
    outlets_prune_logs(fix.control, INT64_MAX);
    CHECK_INT(outlet_open_log(fix.control, id, OUTLET_LOG_NOW, &fd, &e), -ERR_NOT_FOUND);
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
    struct ext_exe exe[2] = { { .path = "/usr/bin/x", .fd = -1 }, { .path = "/bin/sh", .fd = -1 } };
    struct ext_holder holder[2] = {
        { .pid = 5, .exe = &exe[0], .ancestors = { &exe[1] }, .n_ancestors = 1 },
        { .pid = 6, .exe = &exe[0] },
    };
    struct ext_who who = { .holders = holder, .n = 1, .exes = exe, .n_exes = 2 };
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
