/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/ipc/channel.h"
#include "domain/policy/egress_ceiling.h"
#include "lib/proc/spawn.h"

struct fixture fix;
struct err e;

static bool opened, closed;

static const char profile[] = "id: profile.fake\n"
                              "version: 1\n"
                              "description: For tests.\n"
                              "extension: ext.fake\n"
                              "isolation:\n  level: container\n"
                              "ttl:\n  default: 1h\n  max: 2h\n";

void turn(void)
{
    enum { LOOK_AGAIN_MS = 10 };

    CHECK_OK(loop_run_once(&fix.loop, LOOK_AGAIN_MS * NS_PER_MS, &e), e);
}

static void on_open(void *user)
{
    opened = true;
}

static void on_closed(void *user)
{
    closed = true;
}

/* In place of the monitor. */
static int open_headers(void *user, int *ret, struct err *why)
{
    *ret = open(fix.config.hub.headers_file, O_RDONLY | O_CLOEXEC);
    return *ret < 0 ? err_sys(why, "opening the headers") : 0;
}

/* In place of the supervisor: the real program, which ends with its socket. */
static int start_fetch(void *user, int *ret, uint64_t *ret_id, struct err *why)
{
    char path[PATH_MAX], name[] = "sandboxer-fetch", *argv[] = { name, NULL }, *none[] = { NULL };
    int pair[2], r = ipc_pair(pair, why);
    const int fds[] = { -1, -1, STDERR_FILENO, pair[1] };
    const struct spawn s = {
        .path = path, .argv = argv, .envp = none, .fds = fds, .n_fds = COUNT_OF(fds)
    };
    pid_t pid;

    if (r >= 0)
        r = spawn_find(name, path, sizeof path, why);
    if (r >= 0)
        r = spawn_start(&s, &pid, why);
    if (r < 0)
        return r;
    close(pair[1]);
    *ret = pair[0];
    *ret_id = (uint64_t)pid;
    return 0;
}

static void make_place(void)
{
    signal(SIGPIPE, SIG_IGN);
    fix.scratch = scratch_make();
    make_dir(fix.scratch.dir, "profiles");
    make_file(fix.scratch.dir, "profiles/fake.yaml", profile);
    make_dir(fix.scratch.dir, "state");
    fix.caller = (struct caller){ .owner = "uid:1000",
                                  .actor = { .kind = ACTOR_ADM, .id = "uid:1000" },
                                  .verbs = VERBS_ALL };
    fix.config.limits.sandboxes_max = 100;
    fix.config.limits.events_keep = 100000;
    fix.config.limits.workspace_copies = 64;
    fix.config.retention.sandboxes = fix.config.retention.events = 86400 * NS_PER_S;
    fix.config.egress.most = EGRESS_REACH_PUBLIC;
    fix.config.ttl.max = 7 * 86400 * NS_PER_S;
    fix.config.workspaces.patience = 60 * NS_PER_S;
}

void plane_open(void)
{
    static char dir[sizeof fix.scratch.path + 16];
    static const char *dirs[] = { dir }; /* read again by a reload */
    struct control_setup s = { .loop = &fix.loop,
                               .work = &fix.work,
                               .config = &fix.config,
                               .profiles = { dirs, 1 },
                               .supervisor = { .headers = open_headers,
                                               .egress_worker = fix.egress_worker,
                                               .end_egress_worker = fix.end_egress_worker,
                                               .egress_places = fix.egress_places,
                                               .cancel = fix.cancel,
                                               .fetch_process = start_fetch },
                               .on_open = on_open };

    if (!fix.scratch.path[0])
        make_place();
    snprintf(dir, sizeof dir, "%s/profiles", fix.scratch.path);
    s.state = open_dir(fix.scratch.dir, "state");
    CHECK_OK(loop_init(&fix.loop, &e), e);
    CHECK_OK(thread_pool_init(&fix.work, &fix.loop, 3, 1000, &e), e);
    opened = false;
    CHECK_OK(control_open(&s, &fix.control, &e), e);
    WAIT_FOR(opened);
}

void plane_close(void)
{
    closed = false;
    control_close(fix.control, on_closed);
    WAIT_FOR(closed);
    loop_stop(&fix.loop); /* runs the pending deferred frees */
    CHECK_OK(loop_run(&fix.loop, &e), e);
    thread_pool_done(&fix.work);
    loop_done(&fix.loop);
}

static int created;

static void on_created(struct create_op *op, int r, const struct err *why)
{
    if (r < 0)
        FAIL("creating: %s", why->msg);
    created++;
}

struct sandbox *new_sandbox(void)
{
    struct create_request q = { .profile = "profile.fake" };
    struct create_op op = { .caller = &fix.caller, .request = &q, .done = on_created };
    struct sandbox *s;
    int before = created;

    control_create(fix.control, &op);
    WAIT_FOR(created > before);
    CHECK(op.record);
    s = find_sandbox(op.record->id);
    CHECK(s);
    arena_done(&op.arena);
    return s;
}

struct sandbox *find_sandbox(const char *id)
{
    struct sandbox *s;

    return control_find_now(fix.control, &fix.caller, str_from(id), &s) ? s : NULL;
}

const char *id_of(struct sandbox *s)
{
    return sandbox_view(s).record->id;
}

static bool destroyed;

static void on_destroyed(struct sandbox_op *op, int r, const struct err *why)
{
    if (r < 0)
        FAIL("destroying: %s", why->msg);
    destroyed = true;
}

void destroy(struct sandbox *s)
{
    struct sandbox_op op = { .done = on_destroyed };

    destroyed = false;
    sandbox_destroy(s, &fix.caller.actor, "test", DESTROY_NO_SYNC, &op);
    WAIT_FOR(destroyed);
}

static bool answered;

static void on_answer(struct store_query *q, int r, const struct err *why)
{
    if (r < 0)
        FAIL("asking: %s", why->msg);
    answered = true;
}

size_t count_events(const char *type)
{
    struct store_query q = { .kind = STORE_EVENTS, .text = str_from(type) };
    size_t n;

    arena_init(&q.arena, 64 << 20);
    answered = false;
    CHECK_OK(store_ask(control_store(fix.control), &q, on_answer, &e), e);
    WAIT_FOR(answered);
    n = q.n;
    arena_done(&q.arena);
    return n;
}
