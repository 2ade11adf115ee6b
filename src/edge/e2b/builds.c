/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/e2b/builds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "edge/e2b/internal.h"
#include "edge/core/launch.h"
#include "edge/core/template.h"
#include "edge/core/guard.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/own.h"
#include "control/owner/owner_share.h"

enum { ARENA_BYTES = 4 << 20, LINE_BYTES = 4096, PIECE_BYTES = 64 << 10 };
#define BUILD_TTL_NS  (3600 * NS_PER_S)
#define BUILD_WAIT_NS (3600 * NS_PER_S)

const char *const build_state_names[] = { "waiting", "building", "ready", "error", NULL };

/* --- the list of builds --- */

static bool build_has_label(const struct json_map *all, const struct json_pair *l)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->p[i].key, l->key) == 0 && strcmp(all->p[i].value, l->value) == 0)
            return true;
    return false;
}

/* A build is visible to the same callers as a sandbox of the caller that began it. */
static bool is_build_visible(const struct call *c, const struct e2b_build *b)
{
    if (!c->caller.admin && strcmp(c->caller.owner, b->owner) != 0)
        return false;
    for (size_t i = 0; i < c->caller.labels.n; i++)
        if (!build_has_label(&b->labels, &c->caller.labels.p[i]))
            return false;
    return true;
}

struct e2b_build *build_find(const struct call *c, struct str template, struct str build)
{
    struct list *all = &e2b_state_of(c->api)->builds;
    struct e2b_build *found = NULL;

    LIST_EACH (struct e2b_build, b, all, link) {
        if (str_eq(template, str_from(b->template)) &&
            (!build.n || str_eq(build, str_from(b->id))) && is_build_visible(c, b))
            found = b;
    }
    return found;
}

struct e2b_build *build_alloc(void)
{
    struct e2b_build *b = new0(sizeof *b);

    arena_init(&b->arena, ARENA_BYTES);
    buf_init(&b->line, LINE_BYTES);
    return b;
}

void build_drop_file(struct build_file *f)
{
    drop_fd(&f->fd);
    quota_drop(&f->counted);
    f->whole = false;
    f->size = 0;
}

static void drop_build_files(struct e2b_build *b)
{
    for (size_t i = 0; i < b->n_files; i++)
        build_drop_file(&b->files[i]);
}

static void build_free(struct e2b_build *b)
{
    link_leave(&b->link);
    loop_timer_stop(&b->abandoned);
    drop_build_files(b);
    buf_done(&b->line);
    arena_done(&b->arena);
    free(b);
}

static bool is_build_finished(const struct e2b_build *b)
{
    return b->state >= BUILD_READY && !b->call;
}

/* Whether the build was begun by the caller's family of tokens. A caller without a family is
 * related to every build that it sees. */
static bool is_related(const struct call *c, const struct e2b_build *b)
{
    return !c->caller.family[0] || strcmp(b->family, c->caller.family) == 0;
}

static int refuse_build(const struct account *a, size_t own, size_t related, struct err *e)
{
    if (own < BUILDS_PER_OWNER)
        return err_set(e, ERR_QUOTA,
                       "this token's family already builds %zu templates (limit of a token family: "
                       "seven eighths of the owner's %d); wait until a build ends",
                       related, BUILDS_PER_OWNER);
    return err_set(
        e, ERR_QUOTA,
        "%s already builds %zu templates, the limit of one owner; wait until a build ends", a->name,
        own);
}

/* Makes room for one more build. A family's builds evict each other while they wait or are
 * finished; builds of other families are evicted only when they are finished. Callers with labels,
 * and each family of tokens, leave part of the owner's quota to the others. */
static int make_room_for_build(const struct call *c, struct err *e)
{
    size_t n = 0, own = 0, seen = 0, related = 0;
    const struct account a = account_of(c->api->control, c->caller.owner, c->caller.family);
    size_t most = a.exempt ? BUILDS_MAX : BUILDS_PER_OWNER;
    size_t part = a.part.n ? quota_token_part(most) : most;
    struct e2b_build *oldest = NULL, *over = NULL;

    LIST_EACH (struct e2b_build, b, &e2b_state_of(c->api)->builds, link) {
        const struct account other = account_of(c->api->control, b->owner, b->family);
        bool mine = account_is(&other, &a), shown = mine && is_build_visible(c, b);

        n++;
        own += mine;
        seen += shown;
        related += mine && is_related(c, b);
        if (!oldest && shown && is_related(c, b) &&
            (is_build_finished(b) || b->state == BUILD_WAITING))
            oldest = b;
        if (!over && is_build_finished(b))
            over = b;
    }
    if (own < most && related < part && seen < most - (c->caller.labels.n ? 1 : 0) &&
        n < BUILDS_MAX)
        return 0;
    if (n < BUILDS_MAX && !oldest)
        return refuse_build(&a, own, related, e);
    if (!oldest && !over)
        return err_set(e, ERR_BUSY,
                       "%d templates are being built, the limit of this daemon; try again later",
                       BUILDS_MAX);
    build_free(oldest ? oldest : over);
    return 0;
}

static void on_build_abandoned(struct loop_timer *t)
{
    struct e2b_build *b = container_of(t, struct e2b_build, abandoned);

    if (b->state != BUILD_WAITING)
        return;
    build_fail(b, "no files or steps were received for an hour; start a new build");
    drop_build_files(b);
}

void build_wait(struct api *a, struct e2b_build *b)
{
    loop_timer_stop(&b->abandoned);
    loop_timer_start(control_loop(a->control), &b->abandoned, clock_mono() + BUILD_WAIT_NS,
                     on_build_abandoned, NULL);
}

int build_new(struct call *c, const char *name, struct e2b_build **ret, struct err *e)
{
    const struct built *again = built_find(c, str_from(name));
    struct e2b_build *b;
    int r;

    if (e2b_state_of(c->api)->builds_closed)
        return err_set(e, ERR_BUSY, "the daemon is stopping");
    r = make_room_for_build(c, e);
    if (r < 0)
        return r;
    b = build_alloc();
    r = id_make("bld_", b->id, e);
    if (r >= 0 && again)
        snprintf(b->template, sizeof b->template, "%s", again->id);
    else if (r >= 0)
        r = id_make("tpl_", b->template, e);
    b->labels = c->caller.labels;
    if (r >= 0 && !json_map_copy(&b->labels, &b->arena))
        r = err_set(e, ERR_TOO_BIG,
                    "the labels of the token need more memory than the %zu bytes of a build",
                    b->arena.max);
    if (r < 0) {
        build_free(b);
        return r;
    }
    snprintf(b->owner, sizeof b->owner, "%s", c->caller.owner);
    snprintf(b->family, sizeof b->family, "%s", c->caller.family);
    snprintf(b->name, sizeof b->name, "%s", name);
    list_append(&e2b_state_of(c->api)->builds, &b->link);
    build_wait(c->api, b);
    *ret = b;
    return 0;
}

struct build_file *build_get_file(struct e2b_build *b, struct str hash)
{
    struct build_file *f;

    for (size_t i = 0; i < b->n_files; i++)
        if (str_eq(hash, str_from(b->files[i].hash)))
            return &b->files[i];
    if (b->n_files == BUILD_FILES_MAX || !hash.n || hash.n >= BUILD_HASH_MAX)
        return NULL;
    f = &b->files[b->n_files++];
    *f = (struct build_file){ .fd = -1 };
    str_copy(hash, f->hash, sizeof f->hash);
    return f;
}

void build_add_log(struct e2b_build *b, const char *level, struct str text)
{
    const char *copy = b->n_logs < BUILD_LOGS_MAX ? arena_dup(&b->arena, text) : NULL;

    if (copy)
        b->logs[b->n_logs++] = (struct build_log){ clock_wall(), level, copy };
}

__attribute__((format(printf, 2, 3))) static void log_build_info(struct e2b_build *b,
                                                                 const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    build_add_log(b, "info", str_from(text));
}

/* --- the end of a build --- */

/* Releases the resources of a build when none of its operations is under way. */
static void finish_build(struct e2b_build *b)
{
    struct call *c = take_ptr(b->call);

    watcher_stop(&b->watcher);
    process_unref(take_ptr(b->process));
    arena_done(&b->creating.arena);
    if (b->box && !b->closed) /* otherwise the daemon's next start destroys it: it is one-shot */
        sandbox_destroy(b->box, &c->caller.actor, "its template is built", DESTROY_NO_SYNC, NULL);
    if (b->box)
        sandbox_unref(take_ptr(b->box));
    drop_build_files(b);
    if (b->closed)
        build_free(b);
    else
        builds_save(c->api, NULL, NULL);
    call_unref(c);
}

static void name_failed_step(struct e2b_build *b)
{
    if (b->at == 0)
        snprintf(b->failed, sizeof b->failed, "base");
    else if (b->at > b->request.steps.n)
        snprintf(b->failed, sizeof b->failed, "finalize");
    else
        snprintf(b->failed, sizeof b->failed, "%u", (unsigned)b->at);
}

/* A truncated message may end within a character, which JSON cannot contain. */
static void replace_broken_utf8(char *text)
{
    for (size_t n; *text; text += n) {
        for (n = 1; n < 4 && text[n] && !str_is_utf8((struct str){ text, n });)
            n++;
        if (str_is_utf8((struct str){ text, n }))
            continue;
        *text = '?';
        n = 1;
    }
}

void build_fail(struct e2b_build *b, const char *why)
{
    snprintf(b->reason, sizeof b->reason, "%s", why);
    replace_broken_utf8(b->reason);
    build_add_log(b, "error", str_from(why));
    b->state = BUILD_ERROR;
}

static void fail_build_step(struct e2b_build *b, const char *why)
{
    name_failed_step(b);
    build_fail(b, why);
    finish_build(b);
}

/* --- the template --- */

static void on_build_snapshot_deleted(struct snapshot_delete_op *op, int r, const struct err *e)
{
    struct e2b_build *b = container_of(op, struct e2b_build, unsnap);

    /* on failure the owner can delete the snapshot */
    finish_build(b);
}

static void delete_build_snapshot(struct e2b_build *b, const struct snapshot *s)
{
    b->unsnap.done = on_build_snapshot_deleted;
    snapshot_delete(b->call->api->control, s, &b->unsnap);
}

static void fail_build_delete_snapshot(struct e2b_build *b, const struct snapshot *s,
                                       const char *why)
{
    name_failed_step(b);
    build_fail(b, why);
    delete_build_snapshot(b, s);
}

/* The template's previous snapshot has no owner now and is deleted; sandboxes made from it
 * continue. */
static void on_template_recorded(void *user, int r, const struct err *e)
{
    struct e2b_build *b = user;
    const struct call *c = b->call;
    const struct snapshot *s =
        snapshot_find(c->api->control, &c->caller, str_from(r < 0 ? b->taken : b->replaced));

    fault_point("build.recorded");
    if (r >= 0) {
        build_add_log(b, "info", STR("Build finished"));
        b->state = BUILD_READY;
    }
    if (r < 0 && s)
        fail_build_delete_snapshot(b, s, e->msg);
    else if (r < 0)
        fail_build_step(b, e->msg);
    else if (s)
        delete_build_snapshot(b, s);
    else
        finish_build(b);
}

static void on_build_snapshot_taken(struct snapshot_op *op, int r, const struct err *e)
{
    struct e2b_build *b = container_of(op, struct e2b_build, snapshot);
    struct call *c = b->call;
    const struct built *old;
    struct built new;

    if (r < 0) {
        fail_build_step(b, e->msg);
        return;
    }
    if (b->closed) {
        fail_build_delete_snapshot(b, op->snapshot, "the daemon is stopping");
        return;
    }
    snprintf(b->taken, sizeof b->taken, "%s", op->snapshot->record.id);
    old = built_find(c, str_from(b->template));
    snprintf(b->replaced, sizeof b->replaced, "%s", old ? old->snapshot : "");
    builds_save(c->api, NULL, NULL); /* stored before the template is */
    fault_point("build.snapshot");
    new = (struct built){ .id = b->template,
                          .build = b->id,
                          .name = b->name,
                          .snapshot = b->taken,
                          .user = b->user,
                          .workdir = b->workdir,
                          .start = b->request.start ? b->request.start : "",
                          .ready = b->request.ready ? b->request.ready : "",
                          .env = { b->env, b->n_env },
                          .created_ns = clock_wall() };
    built_put(c->api, b->owner, b->family, &new, old ? old->id : NULL, on_template_recorded, b);
}

static void on_build_saved(void *user, int r, const struct err *e)
{
    struct e2b_build *b = user;

    if (r < 0) {
        fail_build_step(b, e->msg);
    } else if (b->closed) {
        finish_build(b);
    } else {
        b->snapshot =
            (struct snapshot_op){ .caller = &b->call->caller, .done = on_build_snapshot_taken };
        sandbox_snapshot(b->box, &b->snapshot);
    }
}

/* --- one program --- */

static void start_next_step(struct e2b_build *b);

static const struct e2b_build_step *current_build_step(const struct e2b_build *b)
{
    return (const struct e2b_build_step *)b->request.steps.p + b->at - 1;
}

static void flush_build_line(struct e2b_build *b)
{
    if (b->line.n)
        build_add_log(b, "info", buf_str(&b->line));
    buf_clear(&b->line);
}

static bool on_build_output(struct watcher *w, int channel, struct str data)
{
    struct e2b_build *b = container_of(w, struct e2b_build, watcher);

    while (data.n) {
        size_t n = str_find(data, '\n');
        bool whole = n < data.n;

        if (buf_add(&b->line, (struct str){ data.p, n }) < 0)
            flush_build_line(b); /* a line that is too long is cut */
        if (whole)
            flush_build_line(b);
        data = (struct str){ data.p + n + whole, data.n - n - whole };
    }
    return true;
}

static void on_build_step_ended(struct watcher *w, const struct backend_end *end)
{
    struct e2b_build *b = container_of(w, struct e2b_build, watcher);
    bool good = end->how == BACKEND_EXITED && end->status == 0;
    char text[96];

    flush_build_line(b);
    process_unref(take_ptr(b->process));
    if (good) {
        start_next_step(b);
        return;
    }
    if (b->others && *b->others) {
        b->again(b, current_build_step(b), *b->others++);
        return;
    }
    snprintf(text, sizeof text,
             end->how == BACKEND_EXITED ? "the step failed with exit status %d"
                                        : "the step was killed (%d)",
             end->status);
    fail_build_step(b, text);
}

static void on_build_watcher_behind(struct watcher *w)
{
    fail_build_step(container_of(w, struct e2b_build, watcher),
                    "the step's output was written faster than it could be read");
}

/* Writes the uploaded files of a COPY step to its stdin, then closes it. */
static void feed_build_step(struct e2b_build *b)
{
    char data[PIECE_BYTES];

    while (b->feed && b->fed < b->feed->size) {
        ssize_t n = pread(b->feed->fd, data, sizeof data, (off_t)b->fed);

        if (n > 0)
            n = process_stdin(b->process, (struct str){ data, (size_t)n }, NULL);
        if (n <= 0) /* full: on_build_stdin_room() continues; ended: on_build_step_ended() */
            return;
        b->fed += (uint64_t)n;
    }
    b->feed = NULL;
    (void)process_close_stdin(b->process, NULL); /* its end is reported by on_build_step_ended() */
}

static void on_build_stdin_room(struct watcher *w)
{
    struct e2b_build *b = container_of(w, struct e2b_build, watcher);

    if (b->feed)
        feed_build_step(b);
}

static const struct watcher_events watcher_events = { .output = on_build_output,
                                                      .ended = on_build_step_ended,
                                                      .fell_behind = on_build_watcher_behind,
                                                      .room = on_build_stdin_room };

static void on_build_step_started(struct process_op *op, int r, const struct err *e)
{
    struct e2b_build *b = container_of(op, struct e2b_build, starting);

    if (r >= 0)
        b->process = take_ptr(op->process);
    if (b->closed) {
        finish_build(b);
    } else if (r < 0) {
        fail_build_step(b, e->msg);
    } else {
        b->watcher.events = &watcher_events;
        process_watch(b->process, &b->watcher, false);
        feed_build_step(b);
    }
}

static void run_build_script(struct e2b_build *b, const char *user, const char *cwd,
                             const char *script, const char *const *args, size_t n)
{
    b->argv[0] = "/bin/sh";
    b->argv[1] = "-c";
    b->argv[2] = script;
    b->argv[3] = "build";
    for (size_t i = 0; i < n; i++)
        b->argv[4 + i] = args[i];
    b->fed = 0;
    b->program = (struct process_request){ .argv = { b->argv, 4 + n },
                                           .env = { b->env, b->n_env },
                                           .cwd = cwd,
                                           .user = user,
                                           .stdin_ = true,
                                           .background = true,
                                           .rows = 24,
                                           .cols = 80 };
    b->starting = (struct process_op){ .request = &b->program,
                                       .programs = guard_starts_programs(b->call),
                                       .client = call_client(b->call),
                                       .done = on_build_step_started };
    process_start(b->box, &b->call->caller.actor, &b->starting);
}

/* --- the steps --- */

/* Runs a RUN step in a login shell, as clients' commands: bash, or sh in images without it. */
static const char run_command[] =
    "command -v bash >/dev/null && exec bash -l -c \"$1\"; exec sh -l -c \"$1\"";

static const char make_workdir[] =
    "[ -z \"$3\" ] || exec 2>/dev/null\n"
    "[ -d \"$1\" ] && exit; mkdir -p \"$1\" && { chown \"$2:\" \"$1\" 2>/dev/null || chmod 0777 "
    "\"$1\"; }";

/* COPY as in a Dockerfile: the contents of a directory, or the files that a pattern matches. */
static const char copy_files[] =
    "[ -z \"$4\" ] || exec 2>/dev/null\n"
    "set -e; t=$(mktemp -d); trap 'rm -rf \"$t\"' EXIT\n"
    "cat >\"$t/a\"; mkdir \"$t/d\"; cd \"$t/d\"\n"
    "tar -xzf ../a 2>/dev/null || tar -xf ../a; cd \"$OLDPWD\"\n"
    "src=$1 dst=$2 mode=$3\n"
    "case $dst in /*) ;; *) dst=$PWD/$dst ;; esac\n"
    "cd \"$t/d\"; [ -z \"$mode\" ] || chmod -R \"$mode\" \"./$src\"\n"
    "if [ -d \"$src\" ]; then mkdir -p \"$dst\"; cp -a \"$src/.\" \"$dst\"; exit; fi\n"
    "IFS=; set -- $src\n"
    "if [ $# = 1 ] && [ \"${dst%/}\" = \"$dst\" ]; then mkdir -p \"$(dirname \"$dst\")\"; else "
    "mkdir "
    "-p \"$dst\"; fi\n"
    "cp -a \"$@\" \"$dst\"";

static const char *build_step_arg(const struct e2b_build_step *s, size_t i)
{
    return i < s->args.n ? s->args.p[i] : "";
}

static void step_run(struct e2b_build *b, const struct e2b_build_step *s)
{
    const char *const args[] = { build_step_arg(s, 0) };

    run_build_script(b, s->args.n > 1 && s->args.p[1][0] ? s->args.p[1] : b->user, b->workdir,
                     run_command, args, 1);
}

/* root in a sandbox cannot write to other users' directories, so a step that fails as one user is
 * tried as the next one: root, then `user`. */
static void try_as(struct e2b_build *b, const struct e2b_build_step *s, const char *user,
                   void (*as)(struct e2b_build *b, const struct e2b_build_step *s,
                              const char *user))
{
    static const char *const all[] = { "root", "user", NULL }, *const root[] = { "root", NULL };

    b->others = strcmp(user, "root") == 0 ? all + 1 : strcmp(user, "user") == 0 ? root : all;
    b->again = as;
    as(b, s, user);
}

/* A script's argument that suppresses error output unless this user is the last one to be tried. */
static const char *build_quiet_flag(const struct e2b_build *b)
{
    return *b->others ? "quiet" : "";
}

static void workdir_as(struct e2b_build *b, const struct e2b_build_step *s, const char *user)
{
    const char *const args[] = { b->workdir, b->user, build_quiet_flag(b) };

    run_build_script(b, user, "/", make_workdir, args, 3);
}

static void step_workdir(struct e2b_build *b, const struct e2b_build_step *s)
{
    const char *path = e2b_path(b->call, b->user, str_from(build_step_arg(s, 0)));

    if (!path) {
        fail_build_step(b, "WORKDIR: the path is longer than 4095 bytes");
        return;
    }
    b->workdir = path;
    try_as(b, s, "root", workdir_as);
}

static void step_user(struct e2b_build *b, const struct e2b_build_step *s)
{
    b->user = build_step_arg(s, 0);
    start_next_step(b);
}

static void set_variable(struct e2b_build *b, const char *key, const char *value)
{
    size_t i = 0;

    while (i < b->n_env && strcmp(b->env[i].key, key) != 0)
        i++;
    b->env[i] = (struct json_pair){ key, value };
    b->n_env += i == b->n_env;
}

static void step_env(struct e2b_build *b, const struct e2b_build_step *s)
{
    for (size_t i = 0; i + 1 < s->args.n; i += 2) {
        if (b->n_env == REQUEST_ENV_MAX || !s->args.p[i][0] || strchr(s->args.p[i], '=')) {
            fail_build_step(b, b->n_env == REQUEST_ENV_MAX
                                   ? "ENV: the template has more variables than a request may have"
                                   : "ENV: the name of a variable is empty or contains '='");
            return;
        }
        set_variable(b, s->args.p[i], s->args.p[i + 1]);
    }
    start_next_step(b);
}

/* Tries the named owner first, so that the files belong to them. */
static void copy_as(struct e2b_build *b, const struct e2b_build_step *s, const char *user)
{
    const char *const args[] = { build_step_arg(s, 0), build_step_arg(s, 1), build_step_arg(s, 3),
                                 build_quiet_flag(b) };

    b->feed = build_get_file(b, str_from(s->hash));
    run_build_script(b, user, b->workdir, copy_files, args, 4);
}

static void step_copy(struct e2b_build *b, const struct e2b_build_step *s)
{
    const struct build_file *f = s->hash ? build_get_file(b, str_from(s->hash)) : NULL;

    if (!f || !f->whole)
        fail_build_step(b, "COPY: the files of this step were not uploaded");
    else
        try_as(b, s, build_step_arg(s, 2)[0] ? build_step_arg(s, 2) : b->user, copy_as);
}

static const struct {
    const char *type;
    size_t args; /* minimum */
    void (*run)(struct e2b_build *b, const struct e2b_build_step *s);
} kinds[] = {
    { "RUN", 1, step_run },   { "COPY", 2, step_copy },       { "ENV", 0, step_env },
    { "USER", 1, step_user }, { "WORKDIR", 1, step_workdir },
};

static void start_next_step(struct e2b_build *b)
{
    const struct e2b_build_step *s;
    char text[80];

    if (b->closed) {
        finish_build(b);
        return;
    }
    if (b->at++ == b->request.steps.n) {
        build_add_log(b, "info", STR("Taking a snapshot"));
        /* stored before the snapshot is taken, so that the next daemon run can attribute a snapshot
         * without a template to the build's sandbox */
        builds_save(b->call->api, on_build_saved, b);
        return;
    }
    s = current_build_step(b);
    b->others = NULL;
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (strcmp(kinds[i].type, s->type) == 0 && s->args.n >= kinds[i].args) {
            log_build_info(b, "Step %zu of %zu: %s %.300s", b->at, b->request.steps.n, s->type,
                           build_step_arg(s, 0));
            kinds[i].run(b, s);
            return;
        }
    snprintf(text, sizeof text, "unknown step '%.32s', or too few arguments", s->type);
    fail_build_step(b, text);
}

/* --- the sandbox of a build --- */

static void on_build_sandbox_created(struct create_op *op, int r, const struct err *e)
{
    struct e2b_build *b = container_of(op, struct e2b_build, creating);

    if (r < 0 || !op->record ||
        !control_find_now(b->call->api->control, &b->call->caller, str_from(op->record->id),
                          &b->box)) {
        fail_build_step(b, r < 0 ? e->msg : "the sandbox of the build was destroyed");
        return;
    }
    snprintf(b->box_id, sizeof b->box_id, "%s", op->record->id);
    if (b->closed)
        finish_build(b);
    else if (b->create.image)
        run_build_script(b, "root", "/", launch_make_user, NULL, 0);
    else
        start_next_step(b);
}

/* E2B's own base image corresponds to profile.base. */
static bool is_base_image(const char *image)
{
    return strncmp(image, "e2bdev/base", 11) == 0 && (!image[11] || image[11] == ':');
}

int build_fill_base(struct call *c, const struct build_request *q, struct create_request *ret,
                    struct err *e)
{
    *ret = (struct create_request){ .ttl_ns = BUILD_TTL_NS };
    if (q->from_image && !is_base_image(q->from_image)) {
        ret->profile = TEMPLATE_IMAGE_PROFILE;
        ret->image = q->from_image;
        return 0;
    }
    return template_fill_request(c, q->from_template ? q->from_template : "base", ret, e);
}

static int choose_base(struct e2b_build *b, struct err *e)
{
    struct build_request *q = &b->request;
    const struct built *from;

    if (q->from_image && is_base_image(q->from_image))
        q->from_image = NULL;
    if (!q->from_image && !q->from_template)
        q->from_template = "base";
    from = q->from_image ? NULL : built_find(b->call, str_from(q->from_template));
    for (size_t i = 0; from && i < from->env.n; i++)
        set_variable(b, arena_dup(&b->call->own, str_from(from->env.p[i].key)),
                     arena_dup(&b->call->own, str_from(from->env.p[i].value)));
    if (from && from->user[0])
        b->user = arena_dup(&b->call->own, str_from(from->user));
    if (from && from->workdir[0])
        b->workdir = arena_dup(&b->call->own, str_from(from->workdir));
    return build_fill_base(b->call, q, &b->create, e);
}

void build_start(struct e2b_build *b, struct call *c, const struct build_request *q)
{
    struct err e;

    b->call = c;
    b->request = *q;
    b->user = "user";
    b->workdir = "/home/user";
    b->state = BUILD_BUILDING;
    loop_timer_stop(&b->abandoned);
    if (choose_base(b, &e) < 0) {
        fail_build_step(b, e.msg);
        return;
    }
    log_build_info(b, "Building from %.300s",
                   b->request.from_image ? b->request.from_image : b->request.from_template);
    b->creating = (struct create_op){ .caller = &c->caller,
                                      .request = &b->create,
                                      .one_shot = true,
                                      .done = on_build_sandbox_created };
    control_create(c->api->control, &b->creating);
}

/* Operations under way end by themselves and then find the build closed. */
void builds_close(struct api *a)
{
    e2b_state_of(a)->builds_closed = true;
    for (struct link *m; (m = list_take(&e2b_state_of(a)->builds));) {
        struct e2b_build *b = container_of(m, struct e2b_build, link);

        b->closed = true;
        if (!b->call) {
            build_free(b);
        } else if (b->watcher.process) {
            watcher_stop(&b->watcher);
            finish_build(b);
        }
    }
}
