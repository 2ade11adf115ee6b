#include "api/e2b/builds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/e2b/inside.h"
#include "api/e2b/launch.h"
#include "api/e2b/template.h"
#include "api/guard.h"
#include "base/clock.h"
#include "base/hook.h"
#include "control/owner_share.h"

enum { ARENA_BYTES = 4 << 20, LINE_BYTES = 4096, PIECE_BYTES = 64 << 10 };
#define BUILD_TTL_NS  (3600 * NS_PER_S)
#define BUILD_WAIT_NS (3600 * NS_PER_S)

const char *const build_state_names[] = { "waiting", "building", "ready", "error", NULL };

/* --- the list --- */

static bool has_label(const struct json_map *all, const struct json_pair *l)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->p[i].key, l->key) == 0 && strcmp(all->p[i].value, l->value) == 0)
            return true;
    return false;
}

/* As a sandbox of whoever began it would be. */
static bool is_seen(const struct call *c, const struct build *b)
{
    if (!c->caller.admin && strcmp(c->caller.owner, b->owner) != 0)
        return false;
    for (size_t i = 0; i < c->caller.labels.n; i++)
        if (!has_label(&b->labels, &c->caller.labels.p[i]))
            return false;
    return true;
}

struct build *build_find(const struct call *c, struct str template, struct str build)
{
    struct list *all = &c->api->e2b_builds;
    struct build *found = NULL;

    for (struct link *m = list_first(all); m; m = list_after(all, m)) {
        struct build *b = container_of(m, struct build, link);

        if (str_eq(template, str_from(b->template)) &&
            (!build.n || str_eq(build, str_from(b->id))) && is_seen(c, b))
            found = b;
    }
    return found;
}

struct build *build_alloc(void)
{
    struct build *b = calloc(1, sizeof *b);

    if (!b)
        abort();
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

static void drop_files(struct build *b)
{
    for (size_t i = 0; i < b->n_files; i++)
        build_drop_file(&b->files[i]);
}

static void build_free(struct build *b)
{
    link_leave(&b->link);
    loop_timer_stop(&b->abandoned);
    drop_files(b);
    buf_done(&b->line);
    arena_done(&b->arena);
    free(b);
}

static bool is_over(const struct build *b)
{
    return b->state >= BUILD_READY && !b->call;
}

static bool may_go(const struct build *b)
{
    return is_over(b) || b->state == BUILD_WAITING;
}

/* Of the caller's family of tokens; a caller without one has all that it sees. */
static bool is_related(const struct call *c, const struct build *b)
{
    return !c->caller.family[0] || strcmp(b->family, c->caller.family) == 0;
}

static bool is_build_of(const struct call *c, const struct account *a, const struct build *b)
{
    struct account other = account_of(c->api->control, b->owner, b->family);

    return account_is(&other, a);
}

static int refuse_build(const struct account *a, size_t own, size_t related, struct err *e)
{
    if (own < BUILDS_PER_OWNER)
        return err_set(e, ERR_QUOTA,
                       "this token's family builds %zu templates (a token's part: seven eighths of "
                       "the %d that one owner may build at once); wait until one is built",
                       related, BUILDS_PER_OWNER);
    return err_set(e, ERR_QUOTA,
                   "%s builds %zu templates, as many as one owner may at once; wait until one is "
                   "built",
                   a->name, own);
}

/* Room for one more. A family's own builds make room for each other; of others only those that are
 * over do. One label of an owner leaves room for the others, and so does one family. */
static int make_room(const struct call *c, struct err *e)
{
    size_t n = 0, own = 0, seen = 0, related = 0;
    const struct account a = account_of(c->api->control, c->caller.owner, c->caller.family);
    size_t most = a.exempt ? BUILDS_MAX : BUILDS_PER_OWNER;
    size_t part = a.part.n ? quota_token_part(most) : most;
    struct build *oldest = NULL, *over = NULL;

    for (struct link *m = list_first(&c->api->e2b_builds); m;
         m = list_after(&c->api->e2b_builds, m)) {
        struct build *b = container_of(m, struct build, link);

        bool mine = is_build_of(c, &a, b), shown = mine && is_seen(c, b);

        n++;
        own += mine;
        seen += shown;
        related += mine && is_related(c, b);
        if (!oldest && shown && is_related(c, b) && may_go(b))
            oldest = b;
        if (!over && is_over(b))
            over = b;
    }
    if (own < most && related < part && seen < most - (c->caller.labels.n ? 1 : 0) &&
        n < BUILDS_MAX)
        return 0;
    if (n < BUILDS_MAX && !oldest)
        return refuse_build(&a, own, related, e);
    if (!oldest && !over)
        return err_set(e, ERR_BUSY, "%d templates are being built, as many as may be", BUILDS_MAX);
    build_free(oldest ? oldest : over);
    return 0;
}

static void on_abandoned(struct loop_timer *t)
{
    struct build *b = container_of(t, struct build, abandoned);

    if (b->state != BUILD_WAITING)
        return;
    build_fail(b, "nothing came for an hour: build it again");
    drop_files(b);
}

void build_wait(struct api *a, struct build *b)
{
    loop_timer_stop(&b->abandoned);
    loop_timer_start(control_loop(a->control), &b->abandoned, clock_mono() + BUILD_WAIT_NS,
                     on_abandoned, NULL);
}

int build_new(struct call *c, const char *name, struct build **ret, struct err *e)
{
    const struct built *again = built_find(c, str_from(name));
    struct build *b;
    int r;

    if (c->api->e2b_builds_closed)
        return err_set(e, ERR_BUSY, "the daemon is ending");
    r = make_room(c, e);
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
        r = err_set(e, ERR_TOO_BIG, "the token has too many labels");
    if (r < 0) {
        build_free(b);
        return r;
    }
    snprintf(b->owner, sizeof b->owner, "%s", c->caller.owner);
    snprintf(b->family, sizeof b->family, "%s", c->caller.family);
    snprintf(b->name, sizeof b->name, "%s", name);
    list_append(&c->api->e2b_builds, &b->link);
    build_wait(c->api, b);
    *ret = b;
    return 0;
}

struct build_file *build_file(struct build *b, struct str hash)
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

void build_log(struct build *b, const char *level, struct str text)
{
    const char *copy = b->n_logs < BUILD_LOGS_MAX ? arena_dup(&b->arena, text) : NULL;

    if (copy)
        b->logs[b->n_logs++] = (struct build_log){ clock_wall(), level, copy };
}

__attribute__((format(printf, 2, 3))) static void tell(struct build *b, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    build_log(b, "info", str_from(text));
}

/* --- its end --- */

/* Nothing of it is under way any more. */
static void finish(struct build *b)
{
    struct call *c = take_ptr(b->call);

    watcher_stop(&b->watcher);
    process_unref(take_ptr(b->process));
    arena_done(&b->creating.arena);
    if (b->box && !b->closed) /* else the next start does: it is for one use */
        sandbox_destroy(b->box, &c->caller.actor, "its template is built", DESTROY_NO_SYNC, NULL);
    if (b->box)
        sandbox_unref(take_ptr(b->box));
    drop_files(b);
    if (b->closed)
        build_free(b);
    else
        builds_keep(c->api, NULL, NULL);
    call_unref(c);
}

static void name_step(struct build *b)
{
    if (b->at == 0)
        snprintf(b->failed, sizeof b->failed, "base");
    else if (b->at > b->request.steps.n)
        snprintf(b->failed, sizeof b->failed, "finalize");
    else
        snprintf(b->failed, sizeof b->failed, "%u", (unsigned)b->at);
}

/* A message may have been cut within a character, which no JSON holds. */
static void mend(char *text)
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

void build_fail(struct build *b, const char *why)
{
    snprintf(b->reason, sizeof b->reason, "%s", why);
    mend(b->reason);
    build_log(b, "error", str_from(why));
    b->state = BUILD_ERROR;
}

static void fail(struct build *b, const char *why)
{
    name_step(b);
    build_fail(b, why);
    finish(b);
}

/* --- the template --- */

static void unsnapped(struct unsnap_op *op, int r, const struct err *e)
{
    struct build *b = container_of(op, struct build, unsnap);

    (void)r;
    (void)e; /* it is nobody's, and can be deleted */
    finish(b);
}

static void drop_snapshot(struct build *b, const struct snapshot *s)
{
    b->unsnap.done = unsnapped;
    snapshot_delete(b->call->api->control, s, &b->unsnap);
}

static void give_up(struct build *b, const struct snapshot *s, const char *why)
{
    name_step(b);
    build_fail(b, why);
    drop_snapshot(b, s);
}

/* What it was before is nobody's any more; sandboxes made from it go on. */
static void recorded(void *user, int r, const struct err *e)
{
    struct build *b = user;
    const struct call *c = b->call;
    const struct snapshot *s =
        snapshot_find(c->api->control, &c->caller, str_from(r < 0 ? b->taken : b->replaced));

    hook_point("build.recorded");
    if (r >= 0) {
        build_log(b, "info", STR("Build finished"));
        b->state = BUILD_READY;
    }
    if (r < 0 && s)
        give_up(b, s, e->msg);
    else if (r < 0)
        fail(b, e->msg);
    else if (s)
        drop_snapshot(b, s);
    else
        finish(b);
}

static void snapped(struct snapshot_op *op, int r, const struct err *e)
{
    struct build *b = container_of(op, struct build, snapshot);
    struct call *c = b->call;
    const struct built *old;
    struct built new;

    if (r < 0) {
        fail(b, e->msg);
        return;
    }
    if (b->closed) {
        give_up(b, op->snapshot, "the daemon is ending");
        return;
    }
    snprintf(b->taken, sizeof b->taken, "%s", op->snapshot->record.id);
    old = built_find(c, str_from(b->template));
    snprintf(b->replaced, sizeof b->replaced, "%s", old ? old->snapshot : "");
    builds_keep(c->api, NULL, NULL); /* on disk before the template is */
    hook_point("build.snapshot");
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
    built_put(c->api, b->owner, b->family, &new, old ? old->id : NULL, recorded, b);
}

static void box_kept(void *user, int r, const struct err *e)
{
    struct build *b = user;

    if (r < 0) {
        fail(b, e->msg);
    } else if (b->closed) {
        finish(b);
    } else {
        b->snapshot = (struct snapshot_op){ .caller = &b->call->caller, .done = snapped };
        sandbox_snapshot(b->box, &b->snapshot);
    }
}

/* Whose snapshot it is must be known to whoever finds it after our end. */
static void take_snapshot(struct build *b)
{
    build_log(b, "info", STR("Taking a snapshot"));
    builds_keep(b->call->api, box_kept, b);
}

/* --- one program --- */

static void next_step(struct build *b);

static const struct build_step *step(const struct build *b)
{
    return (const struct build_step *)b->request.steps.p + b->at - 1;
}

static void flush_line(struct build *b)
{
    if (b->line.n)
        build_log(b, "info", buf_str(&b->line));
    buf_clear(&b->line);
}

static bool on_output(struct watcher *w, int channel, struct str data)
{
    struct build *b = container_of(w, struct build, watcher);

    (void)channel;
    while (data.n) {
        size_t n = str_find(data, '\n');
        bool whole = n < data.n;

        if (buf_add(&b->line, (struct str){ data.p, n }) < 0)
            flush_line(b); /* the rest of a line that is too long */
        if (whole)
            flush_line(b);
        data = (struct str){ data.p + n + whole, data.n - n - whole };
    }
    return true;
}

static void on_ended(struct watcher *w, const struct ext_end *end)
{
    struct build *b = container_of(w, struct build, watcher);
    bool good = end->how == EXT_EXITED && end->status == 0;
    char text[96];

    flush_line(b);
    process_unref(take_ptr(b->process));
    if (good) {
        next_step(b);
        return;
    }
    if (b->others && *b->others) {
        b->again(b, step(b), *b->others++);
        return;
    }
    snprintf(text, sizeof text,
             end->how == EXT_EXITED ? "the step failed with exit status %d"
                                    : "the step was ended (%d)",
             end->status);
    fail(b, text);
}

static void on_behind(struct watcher *w)
{
    fail(container_of(w, struct build, watcher), "the step's output could not be followed");
}

/* What was brought for it; then its input ends. */
static void feed(struct build *b)
{
    char data[PIECE_BYTES];

    while (b->feed && b->fed < b->feed->size) {
        ssize_t n = pread(b->feed->fd, data, sizeof data, (off_t)b->fed);

        if (n > 0)
            n = process_stdin(b->process, (struct str){ data, (size_t)n }, NULL);
        if (n <= 0) /* full: `room` comes; or over, which is told */
            return;
        b->fed += (uint64_t)n;
    }
    b->feed = NULL;
    (void)process_close_stdin(b->process, NULL); /* if it is over, that is told */
}

static void on_room(struct watcher *w)
{
    struct build *b = container_of(w, struct build, watcher);

    if (b->feed)
        feed(b);
}

static const struct watcher_events watcher_events = {
    .output = on_output, .ended = on_ended, .fell_behind = on_behind, .room = on_room
};

static void started(struct process_op *op, int r, const struct err *e)
{
    struct build *b = container_of(op, struct build, starting);

    if (r >= 0)
        b->process = take_ptr(op->process);
    if (b->closed) {
        finish(b);
    } else if (r < 0) {
        fail(b, e->msg);
    } else {
        b->watcher.events = &watcher_events;
        process_watch(b->process, &b->watcher, false);
        feed(b);
    }
}

static void run(struct build *b, const char *user, const char *cwd, size_t argc)
{
    b->fed = 0;
    b->program = (struct process_request){ .argv = { b->argv, argc },
                                           .env = { b->env, b->n_env },
                                           .cwd = cwd,
                                           .user = user,
                                           .stdin_ = true,
                                           .background = true,
                                           .rows = 24,
                                           .cols = 80 };
    b->starting = (struct process_op){ .request = &b->program, .done = started };
    b->starting.programs = guard_starts_programs(b->call);
    process_start(b->box, &b->call->caller.actor, &b->starting);
}

static void run_script(struct build *b, const char *user, const char *cwd, const char *script,
                       const char *const *args, size_t n)
{
    static const char *const head[] = { "/bin/sh", "-c" };

    b->argv[0] = head[0];
    b->argv[1] = head[1];
    b->argv[2] = script;
    b->argv[3] = "build";
    for (size_t i = 0; i < n; i++)
        b->argv[4 + i] = args[i];
    run(b, user, cwd, 4 + n);
}

/* --- the steps --- */

/* A login shell, as commands of clients get one; images without bash have another. */
static const char run_command[] =
    "command -v bash >/dev/null && exec bash -l -c \"$1\"; exec sh -l -c \"$1\"";

static const char make_workdir[] =
    "[ -z \"$3\" ] || exec 2>/dev/null\n"
    "[ -d \"$1\" ] && exit; mkdir -p \"$1\" && { chown \"$2:\" \"$1\" 2>/dev/null || chmod 0777 "
    "\"$1\"; }";

/* As COPY of a Dockerfile: what is in a directory; or files, of which a pattern may name several.
 */
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

static const char *arg(const struct build_step *s, size_t i)
{
    return i < s->args.n ? s->args.p[i] : "";
}

static void step_run(struct build *b, const struct build_step *s)
{
    const char *const args[] = { arg(s, 0) };

    run_script(b, s->args.n > 1 && s->args.p[1][0] ? s->args.p[1] : b->user, b->workdir,
               run_command, args, 1);
}

/* A sandbox's root has no right to what is others': where one may not write, another may. */
static void try_as(struct build *b, const struct build_step *s, const char *user,
                   void (*as)(struct build *b, const struct build_step *s, const char *user))
{
    static const char *const all[] = { "root", "user", NULL }, *const root[] = { "root", NULL };

    b->others = strcmp(user, "root") == 0 ? all + 1 : strcmp(user, "user") == 0 ? root : all;
    b->again = as;
    as(b, s, user);
}

/* For a script: nothing is said of a failure that is not the last. */
static const char *quiet(const struct build *b)
{
    return *b->others ? "quiet" : "";
}

static void workdir_as(struct build *b, const struct build_step *s, const char *user)
{
    const char *const args[] = { b->workdir, b->user, quiet(b) };

    (void)s;
    run_script(b, user, "/", make_workdir, args, 3);
}

static void step_workdir(struct build *b, const struct build_step *s)
{
    const char *path = e2b_path(b->call, b->user, str_from(arg(s, 0)));

    if (!path) {
        fail(b, "the path is longer than 4095 bytes");
        return;
    }
    b->workdir = path;
    try_as(b, s, "root", workdir_as);
}

static void step_user(struct build *b, const struct build_step *s)
{
    b->user = arg(s, 0);
    next_step(b);
}

static void set_variable(struct build *b, const char *key, const char *value)
{
    size_t i = 0;

    while (i < b->n_env && strcmp(b->env[i].key, key) != 0)
        i++;
    b->env[i] = (struct json_pair){ key, value };
    b->n_env += i == b->n_env;
}

static void step_env(struct build *b, const struct build_step *s)
{
    for (size_t i = 0; i + 1 < s->args.n; i += 2) {
        if (b->n_env == REQUEST_ENV_MAX || !s->args.p[i][0] || strchr(s->args.p[i], '=')) {
            fail(b, "there are too many variables, or one whose name is none");
            return;
        }
        set_variable(b, s->args.p[i], s->args.p[i + 1]);
    }
    next_step(b);
}

/* As its owner first, so that the files are theirs. */
static void copy_as(struct build *b, const struct build_step *s, const char *user)
{
    const char *const args[] = { arg(s, 0), arg(s, 1), arg(s, 3), quiet(b) };

    b->feed = build_file(b, str_from(s->hash));
    run_script(b, user, b->workdir, copy_files, args, 4);
}

static void step_copy(struct build *b, const struct build_step *s)
{
    const struct build_file *f = s->hash ? build_file(b, str_from(s->hash)) : NULL;

    if (!f || !f->whole)
        fail(b, "the files of this step were not uploaded");
    else
        try_as(b, s, arg(s, 2)[0] ? arg(s, 2) : b->user, copy_as);
}

static const struct {
    const char *type;
    size_t args; /* at least */
    void (*run)(struct build *b, const struct build_step *s);
} kinds[] = {
    { "RUN", 1, step_run },   { "COPY", 2, step_copy },       { "ENV", 0, step_env },
    { "USER", 1, step_user }, { "WORKDIR", 1, step_workdir },
};

static void next_step(struct build *b)
{
    const struct build_step *s;
    char text[80];

    if (b->closed) {
        finish(b);
        return;
    }
    if (b->at++ == b->request.steps.n) {
        take_snapshot(b);
        return;
    }
    s = step(b);
    b->others = NULL;
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (strcmp(kinds[i].type, s->type) == 0 && s->args.n >= kinds[i].args) {
            tell(b, "Step %zu of %zu: %s %.300s", b->at, b->request.steps.n, s->type, arg(s, 0));
            kinds[i].run(b, s);
            return;
        }
    snprintf(text, sizeof text, "%.32s is no step, or has too few arguments", s->type);
    fail(b, text);
}

/* --- its sandbox --- */

static void begin_steps(struct build *b)
{
    if (b->create.image)
        run_script(b, "root", "/", launch_make_user, NULL, 0);
    else
        next_step(b);
}

static void created(struct create_op *op, int r, const struct err *e)
{
    struct build *b = container_of(op, struct build, creating);

    if (r < 0) {
        fail(b, e->msg);
        return;
    }
    if (!op->record || !control_find_now(b->call->api->control, &b->call->caller,
                                         str_from(op->record->id), &b->box)) {
        fail(b, "the sandbox of the build is gone");
        return;
    }
    snprintf(b->box_id, sizeof b->box_id, "%s", op->record->id);
    if (b->closed)
        finish(b);
    else
        begin_steps(b);
}

/* E2B's own image is what our profile stands for. */
static bool is_base(const char *image)
{
    return strncmp(image, "e2bdev/base", 11) == 0 && (!image[11] || image[11] == ':');
}

static int choose_base(struct build *b, struct err *e)
{
    struct build_request *q = &b->request;
    const struct built *from;

    if (q->from_image && !is_base(q->from_image)) {
        b->create.profile = E2B_IMAGE_PROFILE;
        b->create.image = q->from_image;
        return 0;
    }
    q->from_image = NULL;
    if (!q->from_template)
        q->from_template = "base";
    from = built_find(b->call, str_from(q->from_template));
    for (size_t i = 0; from && i < from->env.n; i++)
        set_variable(b, arena_dup(&b->call->own, str_from(from->env.p[i].key)),
                     arena_dup(&b->call->own, str_from(from->env.p[i].value)));
    if (from && from->user[0])
        b->user = arena_dup(&b->call->own, str_from(from->user));
    if (from && from->workdir[0])
        b->workdir = arena_dup(&b->call->own, str_from(from->workdir));
    return e2b_template_fill(b->call, q->from_template, &b->create, e);
}

int build_base(struct call *c, const struct build_request *q, struct create_request *ret,
               struct err *e)
{
    *ret = (struct create_request){ .ttl_ns = BUILD_TTL_NS };
    if (q->from_image && !is_base(q->from_image)) {
        ret->profile = E2B_IMAGE_PROFILE;
        ret->image = q->from_image;
        return 0;
    }
    return e2b_template_fill(c, q->from_template ? q->from_template : "base", ret, e);
}

void build_start(struct build *b, struct call *c, const struct build_request *q)
{
    struct err e;

    b->call = c;
    b->request = *q;
    b->user = "user";
    b->workdir = "/home/user";
    b->state = BUILD_BUILDING;
    loop_timer_stop(&b->abandoned);
    b->create = (struct create_request){ .ttl_ns = BUILD_TTL_NS };
    if (choose_base(b, &e) < 0) {
        fail(b, e.msg);
        return;
    }
    tell(b, "Building from %.300s",
         b->request.from_image ? b->request.from_image : b->request.from_template);
    b->creating = (struct create_op){
        .caller = &c->caller, .request = &b->create, .one_shot = true, .done = created
    };
    control_create(c->api->control, &b->creating);
}

/* What is under way ends by itself, and finds it closed. */
void builds_close(struct api *a)
{
    a->e2b_builds_closed = true;
    for (struct link *m; (m = list_take(&a->e2b_builds));) {
        struct build *b = container_of(m, struct build, link);

        b->closed = true;
        if (!b->call) {
            build_free(b);
        } else if (b->watcher.process) {
            watcher_stop(&b->watcher);
            finish(b);
        }
    }
}
