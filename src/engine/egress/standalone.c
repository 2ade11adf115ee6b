/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/standalone.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/own.h"
#include "engine/egress/audit.h"
#include "engine/egress/fence.h"
#include "engine/egress/own_addresses.h"
#include "lib/loop/signal.h"
#include "domain/policy/egress_file.h"

enum { BACKLOG = 512 };

/* A file that is opened again, by its name in a directory that is held open: the fence allows
 * nothing else. */
struct watched_file {
    int dir;          /* -1: not open */
    const char *name; /* points into path; NULL: no file */
    char path[PATH_MAX];
};

struct standalone {
    const struct egress_options *options;
    struct egress_state egress;
    struct own_addresses own;
    struct egress_box *box;
    uint64_t generation;
    struct watched_file policy, audit;
    struct loop_signal hup, term, interrupt;
};

static int watched_file_open(struct watched_file *p, const char *path, struct err *e)
{
    char copy[PATH_MAX];

    if (!path)
        return 0;
    if (!str_copy(str_from(path), p->path, sizeof p->path))
        return err_set(e, ERR_INVALID, "%.64s…: the path has more than %zu bytes", path,
                       sizeof p->path - 1);
    memcpy(copy, p->path, sizeof copy);
    p->dir = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->dir < 0)
        return err_sys(e, "opening the directory of %s", path);
    p->name = basename(p->path);
    return 0;
}

/* ---- the policy ---- */

static int read_policy(struct standalone *s, struct egress_snapshot **ret, struct err *e)
{
    AUTO(arena_done) struct arena arena = ARENA_INIT(EGRESS_MEMORY_MAX);
    struct egress_policy policy;
    int r = egress_policy_read_file(s->policy.dir, s->policy.name, 0, &arena, &policy, e);

    if (r >= 0) {
        *ret = egress_compile(&policy, s->generation + 1, e);
        r = *ret ? 0 : -(int)(e->code ? e->code : ERR_BUG);
    }
    return err_wrap(e, r, "%s", s->options->policy);
}

static void apply_policy_snapshot(struct standalone *s, struct egress_snapshot *new)
{
    s->generation++;
    egress_box_set_policy(s->box, new);
    LOG(INFO, "egress.policy.applied", LOG_I("generation", (int64_t)s->generation));
}

static void read_policy_again(struct standalone *s)
{
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *new = NULL;
    struct err e;

    if (read_policy(s, &new, &e) >= 0) {
        apply_policy_snapshot(s, new);
        return;
    }
    LOG(ERROR, "egress.policy.failed", LOG_S("error", e.msg),
        LOG_S("then", s->options->retain ? "retain" : "fail_closed"));
    if (!s->options->retain) {
        egress_box_set_policy(s->box, NULL);
        egress_box_note_flaw(s->box, e.msg);
    }
}

/* ---- the audit record ---- */

static bool is_file(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* Does not block: a pipe in the place of the file may have no reader. */
static int open_record(int dir, const char *path)
{
    return openat(dir, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
                  0600);
}

/* Only regular files can be rotated; pipes and terminals stay open. */
static int open_audit_log(struct standalone *s, int *ret, struct err *e)
{
    const char *path = s->options->audit;
    AUTO_CLOSE int fd = -1;
    int r = 0;

    if (!path)
        return 0;
    /* Opens a file description of its own for standard output if possible: other programs that
     * share it do not expect it to become non-blocking (audit.h). */
    if (strcmp(path, "-") != 0)
        fd = open_record(AT_FDCWD, path);
    else if (!is_file(STDOUT_FILENO))
        fd = open("/proc/self/fd/1", O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 && strcmp(path, "-") == 0)
        fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd < 0 && errno == ENXIO)
        return err_set(e, ERR_INVALID, "opening %s: the pipe has no reader; start the reader first",
                       path);
    if (fd < 0)
        return err_sys(e, "opening %s", path);
    if (strcmp(path, "-") != 0 && is_file(fd))
        r = watched_file_open(&s->audit, path, e);
    if (r >= 0)
        *ret = take_fd(&fd);
    return r;
}

/* Keeps writing to the old file if the new one cannot be opened. */
static void open_audit_again(struct standalone *s)
{
    AUTO_CLOSE int fd = open_record(s->audit.dir, s->audit.name);
    struct err e;

    if (fd >= 0 && is_file(fd)) {
        audit_set_fd(s->box->audit, take_fd(&fd));
        return;
    }
    if (fd >= 0)
        (void)err_set(&e, ERR_INVALID, "%s is no longer a regular file", s->options->audit);
    else
        (void)err_sys(&e, "opening %s", s->options->audit);
    LOG(ERROR, "egress.audit_failed", LOG_S("error", e.msg));
}

/* Reopens the record first, so that events about the policy go to the new file. */
static void on_standalone_hup(struct loop_signal *sig, const struct signalfd_siginfo *info)
{
    struct standalone *s = container_of(sig, struct standalone, hup);

    if (s->audit.name)
        open_audit_again(s);
    if (s->policy.name)
        read_policy_again(s);
}

/* ---- what is open ---- */

static int open_standalone_box(struct standalone *s, struct err *e)
{
    AUTO(listeners_done) struct listeners listeners;
    const struct egress_options *o = s->options;
    struct sockaddr_storage sa;
    socklen_t n = address_to_sockaddr(&o->listen, o->port, &sa);
    AUTO_CLOSE int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    AUTO_CLOSE int audit = -1;
    char text[ADDRESS_TEXT_MAX];
    int r, yes = 1;

    listeners_init(&listeners);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0)
        return err_sys(e, "opening a listener");
    if (bind(fd, (const struct sockaddr *)&sa, n) < 0 || listen(fd, BACKLOG) < 0)
        return err_sys(e, "listening on %s port %u", address_text(&o->listen, text).p, o->port);
    listeners.fd[o->listen.v6 ? LISTENER_PROXY6 : LISTENER_PROXY4] = take_fd(&fd);
    r = open_audit_log(s, &audit, e);
    return r < 0
               ? r
               : egress_box_new(&s->egress, "standalone", &listeners, take_fd(&audit), &s->box, e);
}

static void on_standalone_end(struct loop_signal *sig, const struct signalfd_siginfo *info)
{
    loop_stop(sig->loop);
}

/* Reads the policy before it listens, so that no client meets a proxy without a policy. */
static int start_serving(struct standalone *s, struct err *e)
{
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *first = NULL;
    struct fence fence;
    int r = watched_file_open(&s->policy, s->options->policy, e);

    if (r >= 0 && s->policy.name)
        r = read_policy(s, &first, e);
    if (r >= 0)
        r = open_standalone_box(s, e);
    if (r >= 0 && first)
        apply_policy_snapshot(s, first);
    fence = (struct fence){ .readable = s->policy.dir, .appendable = s->audit.dir };
    return r < 0 ? r : fence_enter(&fence, e);
}

static int start_standalone(struct standalone *s, struct loop *l, struct err *e)
{
    char text[ADDRESS_TEXT_MAX];
    int r = options_apply(s->options, l, &s->egress, e);

    if (r >= 0)
        r = own_addresses_start(&s->own, l, e);
    s->egress.own = &s->own;
    signal(SIGPIPE, SIG_IGN);
    if (r >= 0)
        r = loop_signal_start(l, &s->hup, SIGHUP, on_standalone_hup, e);
    if (r >= 0)
        r = loop_signal_start(l, &s->term, SIGTERM, on_standalone_end, e);
    if (r >= 0)
        r = loop_signal_start(l, &s->interrupt, SIGINT, on_standalone_end, e);
    if (r >= 0)
        r = start_serving(s, e);
    if (r >= 0)
        LOG(INFO, "egress.ready", LOG_STR("address", address_text(&s->options->listen, text)),
            LOG_I("port", s->options->port));
    return r;
}

int standalone_run(const struct egress_options *o, struct err *e)
{
    static struct standalone s;
    AUTO(loop_done) struct loop l = { 0 };
    int r = loop_init(&l, e);

    s.options = o;
    s.policy.dir = s.audit.dir = -1;
    if (r >= 0)
        r = start_standalone(&s, &l, e);
    if (r >= 0)
        r = loop_run(&l, e);
    egress_box_free(take_ptr(s.box));
    own_addresses_done(&s.own);
    dns_resolver_done(&s.egress.resolver);
    loop_signal_stop(&s.hup);
    loop_signal_stop(&s.term);
    loop_signal_stop(&s.interrupt);
    drop_fd(&s.policy.dir);
    drop_fd(&s.audit.dir);
    while (l.open_ && loop_run_once(&l, 0, NULL) > 0) /* lets pending writes complete */
        ;
    return r;
}
