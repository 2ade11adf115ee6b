/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon as a thing: its status, start and end, its log, its TCP address. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "cli/daemon.h"
#include "cli/daemon_process.h"
#include "cli/reload.h"
#include "cli/state_dir.h"
#include "cli/verbs/verbs.h"
#include "lib/proc/spawn.h"

enum { MEMBERS_MAX = 64, UNIT_MAX = 256 };

#define ANSWER_PATIENCE (5 * NS_PER_S)
#define END_PATIENCE    (30 * NS_PER_S)
#define DEFAULT_UNIT    "sandboxerd.service"

/* A daemon that listens where the request goes. */
struct found_daemon {
    struct api_call call;          /* GET /v1/daemon */
    struct daemon_process process; /* none over TCP */
    bool hangs;
};

static void found_daemon_done(struct found_daemon *f)
{
    api_call_done(&f->call);
    daemon_process_done(&f->process);
}

static int status_of_error(const struct err *e)
{
    return e->code == ERR_NOT_FOUND ? EXIT_MISSING
           : e->code == ERR_DENIED  ? EXIT_DENIED
           : e->code == ERR_INVALID ? EXIT_USAGE
           : e->code == ERR_TIMEOUT ? EXIT_BUSY
                                    : EXIT_TOOL_FAILED;
}

static int fail_daemon(const struct verb *v, const struct err *e)
{
    verb_failed(v, "%s", e->msg);
    return status_of_error(e);
}

static struct str started_by(const struct found_daemon *f)
{
    return show_string(f->call.answer, "started_by");
}

/* Asks the daemon about itself. A status; without an answer, `hangs` may be set instead. */
static int ask_daemon(struct found_daemon *f, const struct api_call *like)
{
    struct err e;

    api_call_init(&f->call, like->verb, like->common, "GET");
    api_call_path(&f->call, "/v1/daemon");
    f->call.start = CONTACT_ONLY;
    f->call.patience = ANSWER_PATIENCE;
    if (api_call_answers(&f->call, &e))
        return 0;
    f->hangs = e.code == ERR_TIMEOUT;
    if (f->hangs)
        return 0;
    if (f->call.head && f->call.head->status >= 400)
        return api_call_problem(&f->call);
    return fail_daemon(like->verb, &e);
}

/* Finds the daemon; a status: EXIT_MISSING without one. */
static int find_daemon(struct found_daemon *f, const struct api_call *like)
{
    struct daemon_address at;
    struct err e;

    *f = (struct found_daemon){ .process = DAEMON_PROCESS_NONE };
    api_call_init(&f->call, like->verb, like->common, "GET");
    if (place_find(like->common->server, &at, &e) < 0)
        return verb_misused(like->verb, "%s", e.msg);
    if (!at.tcp && daemon_process_find(&at, &f->process, &e) < 0)
        return fail_daemon(like->verb, &e);
    return ask_daemon(f, like);
}

/* The address of a daemon that is started and ended here. */
static int find_local_place(const struct api_call *c, struct daemon_address *ret)
{
    struct err e;

    if (place_find(c->common->server, ret, &e) < 0)
        return verb_misused(c->verb, "%s", e.msg);
    if (!ret->may_start)
        return verb_misused(c->verb,
                            "the daemon at %s was named (SANDBOXER_URL, --server), and only that "
                            "of this machine at "
                            "its usual place is started and ended from here; unset SANDBOXER_URL",
                            ret->tcp ? ret->authority : ret->path);
    return 0;
}

static int report_hang(const struct found_daemon *f)
{
    verb_failed(f->call.verb,
                "the daemon (process %d of user %u) does not answer within 5 s; 'sandboxer daemon "
                "stop --force' ends it, and sandboxes continue",
                (int)f->process.pid, f->process.uid);
    return EXIT_BUSY;
}

/* --- status --- */

static void show_starter(const struct json *v, int64_t now, struct buf *out)
{
    bool demand = v->type == JSON_STR && str_eq(v->s, STR("demand"));
    bool hand = v->type == JSON_STR && str_eq(v->s, STR("hand"));

    buf_add(out, str_from(demand ? "the command line, on demand" : hand ? "hand" : "systemd"));
}

static const struct column status_columns[] = {
    COLUMN("DAEMON", "version"),
    COLUMN("PROCESS", "supervisor_pid"),
    COLUMN("CONTROL PLANE", "pid"),
    COLUMN("STARTED", "started_at", .show = show_age),
    COLUMN("STARTED BY", "started_by", .show = show_starter),
    COLUMN("STATE", "state"),
    COLUMN("STORAGE", "storage.driver"),
    COLUMN("LISTENERS", "listeners"),
    COLUMN("LOG", "log"),
    COLUMN("SANDBOXES", "sandboxes"),
    COLUMN("CONNECTIONS", "connections"),
    COLUMN("ENDS UNUSED AFTER", "idle_exit_s", .show = show_seconds),
};
static const struct answer_kind kind_daemon = KIND("", "supervisor_pid", status_columns);

/* {"running":false}, for programs that ask regularly. */
static int print_not_running(const struct api_call *c, int status)
{
    struct json running = { .type = JSON_BOOL, .key = STR("running") };
    const struct json answer = { .type = JSON_OBJECT, .list = { &running, 1 } };

    if (status == EXIT_MISSING && common_format(c->common) != FORMAT_TEXT)
        (void)answer_record(c, &answer, &kind_daemon);
    return status;
}

/* The answer with "running" in front. */
static int print_running(const struct api_call *c, const struct json *of)
{
    struct json members[MEMBERS_MAX] = { { .type = JSON_BOOL, .b = true, .key = STR("running") } };
    struct json answer = { .type = JSON_OBJECT, .list = { members, 1 } };

    for (const struct json *m = json_first(of); m != json_end(of) && answer.list.n < MEMBERS_MAX;
         m++)
        members[answer.list.n++] = *m;
    return answer_record(c, &answer, &kind_daemon);
}

static int run_daemon_status(struct api_call *c, void *options, int argc, char **argv)
{
    AUTO(found_daemon_done) struct found_daemon f;
    int status = find_daemon(&f, c);

    if (status)
        return print_not_running(c, status);
    return f.hangs ? report_hang(&f) : print_running(&f.call, f.call.answer);
}

const struct verb verb_daemon_status = {
    .name = "daemon status",
    .summary = "show whether a daemon runs, since when, and where",
    .text = "A daemon that does not run is not started for this. The state directory, the\n"
            "storage and the listeners are those of the running daemon, whatever the\n"
            "configuration says meanwhile. For administrators: root, and the daemon's user.\n"
            "\n"
            "Exit status: 0 if it runs and answers; 3 if no daemon listens; 5 if it is another\n"
            "user's; 6 if it does not answer.\n"
            "\n"
            "  sandboxer daemon status\n"
            "  sandboxer daemon status -q      # the process\n",
    .run = run_daemon_status,
    .flags = VERB_ASKS,
};

/* --- systemd --- */

/* Calls systemctl for the daemon's unit and, to end it for good, the socket that would start it. */
static int run_systemctl(const struct found_daemon *f, const char *action)
{
    static char program[] = "systemctl", user_option[] = "--user";
    char unit[UNIT_MAX] = DEFAULT_UNIT, socket_unit[UNIT_MAX], word[16];
    char path[PATH_MAX], *argv[8] = { program };
    const struct verb *v = f->call.verb;
    pid_t supervisor = (pid_t)show_int(f->call.answer, "supervisor_pid", 0), pid;
    bool user = false;
    int n = 1, status;
    struct err e;

    (void)daemon_process_unit(supervisor, unit, sizeof unit, &user);
    snprintf(socket_unit, sizeof socket_unit, "%.*s.socket",
             (int)(strlen(unit) - strlen(".service")), unit);
    snprintf(word, sizeof word, "%s", action);
    if (user)
        argv[n++] = user_option;
    argv[n++] = word;
    if (strcmp(action, "stop") == 0)
        argv[n++] = socket_unit;
    argv[n++] = unit;
    if (!daemon_find_in_path(program, path, sizeof path))
        return verb_failed(v, "systemd started this daemon, and systemctl is not in PATH");
    if (spawn_start(&(struct spawn){ .path = path,
                                     .argv = argv,
                                     .envp = environ,
                                     .fds = (const int[]){ 0, 1, 2 },
                                     .n_fds = 3 },
                    &pid, &e) < 0 ||
        spawn_wait(pid, &status, &e) < 0)
        return fail_daemon(v, &e);
    if (status == 0)
        return 0;
    return verb_failed(v, "systemd started this daemon, and 'systemctl%s %s %s' failed",
                       user ? " --user" : "", action, unit);
}

static bool is_systemds(const struct found_daemon *f)
{
    return str_eq(started_by(f), STR("systemd"));
}

/* --- start, stop, restart --- */

/* Starts a daemon and waits until it answers. */
static int start_daemon(const struct api_call *c, const char *listen)
{
    AUTO(contact_done) struct contact contact = { .fd = -1 };
    struct err e = { 0 };
    int r = daemon_start_listening(listen, &e);

    if (r == 0) { /* another one was faster, and may serve in a moment */
        struct err other;

        if (contact_open(&contact, NULL, CONTACT_MAY_START, &other) >= 0)
            return 0;
    }
    return r > 0 ? 0 : verb_failed(c->verb, "%s", e.msg);
}

static int print_started(const struct api_call *c, const char *word)
{
    AUTO(found_daemon_done) struct found_daemon f;
    int status = find_daemon(&f, c);

    if (status)
        return status;
    if (f.hangs)
        return report_hang(&f);
    return answer_done(&f.call, f.call.answer, "%s (process %" PRId64 ", %s)", word,
                       show_int(f.call.answer, "supervisor_pid", 0), f.call.contact.place.path);
}

static int run_daemon_start(struct api_call *c, void *options, int argc, char **argv)
{
    AUTO(contact_done) struct contact contact = { .fd = -1 };
    struct daemon_address at;
    struct err e;
    int status = find_local_place(c, &at), r;

    if (status)
        return status;
    r = contact_open(&contact, NULL, CONTACT_ONLY, &e);
    if (r >= 0)
        return print_started(c, "a daemon runs already");
    if (r != -ERR_NOT_FOUND)
        return fail_daemon(c->verb, &e);
    status = start_daemon(c, NULL);
    return status ? status : print_started(c, "started");
}

const struct verb verb_daemon_start = {
    .name = "daemon start",
    .summary = "start the daemon, and wait until it answers",
    .text = "Other verbs do so by themselves. It ends when it has not been used for a while\n"
            "(idle_exit of the configuration). If it cannot start, its own reason is printed.\n"
            "\n"
            "  sandboxer daemon start\n",
    .run = run_daemon_start,
    .flags = VERB_ASKS,
};

struct stop_options {
    struct common common;
    bool force;
};

static const struct option_spec stop_options[] = {
    { "force", 'f', NULL, "kill a daemon that hangs; sandboxes continue",
      .at = offsetof(struct stop_options, force) },
};

/* Ends the process. A status. */
static int end_process(const struct found_daemon *f, bool force)
{
    struct err e;
    int r = daemon_process_signal(&f->process, force ? SIGKILL : SIGTERM, &e);

    if (r >= 0)
        r = daemon_process_await_end(&f->process, clock_mono() + END_PATIENCE, &e);
    return r < 0 ? fail_daemon(f->call.verb, &e) : 0;
}

/* Ends the daemon that listens. A status. */
static int end_daemon(struct found_daemon *f, bool force)
{
    if (f->hangs && !force)
        return report_hang(f);
    if (!f->hangs && is_systemds(f))
        return run_systemctl(f, "stop");
    if (f->process.pid == 1) /* systemd opened the socket, and the daemon that it started hangs */
        return verb_failed(f->call.verb, "systemd started this daemon: 'systemctl kill --signal "
                                         "KILL " DEFAULT_UNIT "' ends it");
    return end_process(f, force);
}

static int run_daemon_stop(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct stop_options *o = options_;
    AUTO(found_daemon_done) struct found_daemon f = { .process = DAEMON_PROCESS_NONE };
    struct daemon_address at;
    int status = find_local_place(c, &at);
    int64_t left;

    if (status)
        return status;
    status = find_daemon(&f, c);
    if (status)
        return status;
    left = show_int(f.call.answer, "sandboxes", 0);
    status = end_daemon(&f, o->force);
    if (status)
        return status;
    if (!left)
        return answer_done(c, NULL, "the daemon has ended");
    return answer_done(c, NULL, "the daemon has ended; %" PRId64 " sandbox%s without it", left,
                       left == 1 ? " continues" : "es continue");
}

const struct verb verb_daemon_stop = {
    .name = "daemon stop",
    .summary = "end the daemon; sandboxes continue",
    .text = "The next verb that needs a daemon starts one again, which finds the sandboxes;\n"
            "SANDBOXER_NO_DAEMON=1 prevents that. Deadlines of sandboxes are enforced again from\n"
            "then on. The daemon is the process that listens on the socket. One that systemd\n"
            "started is ended through systemctl, with its socket.\n"
            "\n"
            "Exit status: 3 if no daemon runs; 5 if it is another user's; 6 if it hangs.\n"
            "\n"
            "  sandboxer daemon stop\n"
            "  sandboxer daemon stop --force\n",
    OPTIONS(stop_options, struct stop_options),
    .run = run_daemon_stop,
    .flags = VERB_ASKS,
};

/* A daemon that a person started has options that only they know. */
static int check_restartable(const struct found_daemon *f)
{
    if (f->hangs || !str_eq(started_by(f), STR("hand")))
        return 0;
    verb_failed(f->call.verb,
                "this daemon (process %d) was started by hand, with options that are not known "
                "here: end it with 'sandboxer daemon stop' and start it as before",
                (int)f->process.pid);
    return EXIT_CONFLICT;
}

/* Ends the daemon and starts another one; `listen`: NULL for the address that this one was told. */
static int restart_daemon(struct found_daemon *f, const char *listen, bool force)
{
    int status = check_restartable(f);

    if (status)
        return status;
    if (!f->hangs && is_systemds(f))
        return run_systemctl(f, "restart");
    if (!listen)
        listen = show_string(f->call.answer, "listen_option").p;
    status = end_daemon(f, force);
    return status ? status : start_daemon(&f->call, listen);
}

static int run_daemon_restart(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct stop_options *o = options_;
    AUTO(found_daemon_done) struct found_daemon f = { .process = DAEMON_PROCESS_NONE };
    struct daemon_address at;
    struct err e;
    int status = find_local_place(c, &at);

    if (status)
        return status;
    if (daemon_check(&e) < 0) /* the one that runs is better than none */
        return verb_failed(c->verb, "the daemon was not ended, because none could start: %s",
                           e.msg);
    status = find_daemon(&f, c);
    if (status == EXIT_MISSING)
        status = start_daemon(c, NULL);
    else if (status == 0)
        status = restart_daemon(&f, NULL, o->force);
    return status ? status : print_started(c, "started again");
}

const struct verb verb_daemon_restart = {
    .name = "daemon restart",
    .summary = "end the daemon and start it again; sandboxes continue",
    .text = "Changes of the configuration take effect with it. The configuration is checked\n"
            "first: with an invalid one the daemon continues. Clients that follow a program or\n"
            "events are cut off; programs and sandboxes continue.\n"
            "\n"
            "  sandboxer daemon restart\n",
    OPTIONS(stop_options, struct stop_options),
    .run = run_daemon_restart,
    .flags = VERB_ASKS,
};

/* --- reload --- */

static int run_daemon_reload(struct api_call *c, void *options, int argc, char **argv)
{
    AUTO(found_daemon_done) struct found_daemon f;
    int status = find_daemon(&f, c);

    if (status)
        return status;
    if (f.hangs)
        return report_hang(&f);
    c->method = "POST";
    c->start = CONTACT_ONLY;
    api_call_path(c, "/v1/daemon/reload");
    status = api_call_run(c);
    if (status)
        return status;
    status = common_format(c->common) == FORMAT_TEXT ? reload_print(c, options, argv)
                                                     : answer_done(c, c->answer, "%s", "");
    return status ? status : reload_finish(c, argv);
}

const struct verb verb_daemon_reload = {
    .name = "daemon reload",
    .summary = "let the daemon read profiles, policy and certificate again",
    .text = "As SIGHUP does: profiles, the policy for tools (trust.bundle), the headers of the\n"
            "hub and the certificate of the domain are read again, and what changed is printed.\n"
            "The configuration itself is read at a start only ('daemon restart'). A file with a\n"
            "mistake is reported, the exit status is 1, and the old one stays in force.\n"
            "\n"
            "  sandboxer daemon reload\n",
    .run = run_daemon_reload,
    .flags = VERB_ASKS,
};

/* --- logs --- */

struct daemon_logs_options {
    struct common common;
    bool follow;
    const char *tail;
};

static const struct option_spec logs_options[] = {
    { "follow", 'f', NULL, "show new lines as they come",
      .at = offsetof(struct daemon_logs_options, follow) },
    { "tail", 'n', "N", "the last N lines (default: 100)", .kind = OPTION_COUNT,
      .at = offsetof(struct daemon_logs_options, tail), .most = 1000000 },
};

enum { LOG_TAIL = 100, LOG_PIECE = 64 << 10 };

/* The place in the file from which it has `lines` more lines; 0: fewer than that. */
static off_t find_log_tail(int fd, uint64_t lines)
{
    static char piece[LOG_PIECE];
    off_t end = lseek(fd, 0, SEEK_END);
    bool first = true;

    for (off_t at = end; at > 0;) {
        size_t n = at < LOG_PIECE ? (size_t)at : LOG_PIECE;
        ssize_t got = pread(fd, piece, n, at - (off_t)n);

        if (got != (ssize_t)n)
            return 0;
        for (; n > 0; n--, at--, first = false)
            if (piece[n - 1] == '\n' && !first && lines-- <= 1)
                return at;
    }
    return 0;
}

/* Copies the file from `at` to stdout: where it ends, or -1. */
static off_t copy_log_from(int fd, off_t at)
{
    static char piece[LOG_PIECE];
    ssize_t n;

    while ((n = pread(fd, piece, sizeof piece, at)) > 0) {
        if (fwrite(piece, 1, (size_t)n, stdout) != (size_t)n)
            return -1;
        at += n;
    }
    return n < 0 || fflush(stdout) != 0 ? -1 : at;
}

/* A file that is shorter than before was emptied, because its older part was moved away. */
static int follow_log(const struct verb *v, const char *path, int fd, off_t at)
{
    AUTO_CLOSE int watch = inotify_init1(IN_CLOEXEC);
    char events[4096];
    struct stat st;

    if (watch < 0 || inotify_add_watch(watch, path, IN_MODIFY) < 0)
        return verb_failed(v, "watching %s: %s", path, strerror(errno));
    for (;;) {
        if (fstat(fd, &st) == 0 && st.st_size < at)
            at = 0;
        at = copy_log_from(fd, at);
        if (at < 0)
            return verb_failed(v, "copying %s: %s", path, strerror(errno));
        if (st.st_nlink == 0)
            return 0; /* removed */
        if (read(watch, events, sizeof events) < 0 && errno != EINTR)
            return verb_failed(v, "watching %s: %s", path, strerror(errno));
    }
}

/* Where the running daemon logs, else where the last one did. A status. */
static int find_log(const struct api_call *c, char out[static PATH_MAX])
{
    AUTO(found_daemon_done) struct found_daemon f = { .process = DAEMON_PROCESS_NONE };
    char dir[PATH_MAX], unit[UNIT_MAX] = DEFAULT_UNIT;
    struct daemon_address at;
    bool user = false;
    struct err e;
    struct str log;

    if (place_find(c->common->server, &at, &e) < 0)
        return verb_misused(c->verb, "%s", e.msg);
    if (at.tcp)
        return verb_misused(c->verb,
                            "the daemon at %s is remote (SANDBOXER_URL, --server), and its "
                            "log is there",
                            at.authority);
    api_call_init(&f.call, c->verb, c->common, "GET");
    if (daemon_process_find(&at, &f.process, NULL) >= 0 && ask_daemon(&f, c) == 0 && !f.hangs) {
        log = show_string(f.call.answer, "log");
        if (log.n)
            return str_copy(log, out, PATH_MAX) ? 0 : EXIT_TOOL_FAILED;
        (void)daemon_process_unit((pid_t)show_int(f.call.answer, "supervisor_pid", 0), unit,
                                  sizeof unit, &user);
        if (is_systemds(&f))
            verb_failed(c->verb, "systemd has the log: journalctl%s -u %s", user ? " --user" : "",
                        unit);
        else
            verb_failed(c->verb,
                        "this daemon (process %d) logs to the stderr that it was started "
                        "with",
                        (int)f.process.pid);
        return EXIT_CONFLICT;
    }
    if (state_dir_path(dir, sizeof dir, &e) < 0)
        return fail_daemon(c->verb, &e);
    return snprintf(out, PATH_MAX, "%s/sandboxerd.log", dir) < PATH_MAX
               ? 0
               : verb_failed(c->verb, "the path of the log below %.80s… is longer than %d bytes",
                             dir, PATH_MAX - 1);
}

static int run_daemon_logs(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct daemon_logs_options *o = options_;
    AUTO_CLOSE int fd = -1;
    char path[PATH_MAX];
    uint64_t lines = LOG_TAIL;
    off_t at;
    int status = find_log(c, path);

    if (status)
        return status;
    if (o->tail) /* checked by its kind */
        (void)str_to_u64(str_from(o->tail), &lines);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        verb_failed(c->verb, "%s: %s (the log of a daemon that was started on demand)", path,
                    strerror(errno));
        return errno == ENOENT ? EXIT_MISSING : errno == EACCES ? EXIT_DENIED : EXIT_TOOL_FAILED;
    }
    at = copy_log_from(fd, lines ? find_log_tail(fd, lines) : lseek(fd, 0, SEEK_END));
    if (at < 0)
        return verb_failed(c->verb, "copying %s: %s", path, strerror(errno));
    return o->follow ? follow_log(c->verb, path, fd, at) : 0;
}

const struct verb verb_daemon_logs = {
    .name = "daemon logs",
    .summary = "show the log of a daemon that was started on demand",
    .text = "It is sandboxerd.log in the state directory, readable to the daemon's user only;\n"
            "what is beyond 8 MiB is moved to sandboxerd.log.1. The log of a daemon that systemd\n"
            "started is in the journal; the command for it is printed. docs/events.md lists the\n"
            "events in it.\n"
            "\n"
            "  sandboxer daemon logs -n 20 -f\n",
    OPTIONS(logs_options, struct daemon_logs_options),
    .run = run_daemon_logs,
    .flags = VERB_REMOTE,
};

/* --- listen --- */

static void print_listen_hints(const struct json *daemon)
{
    const struct json *list = show_at(daemon, "listeners");
    struct str url = STR("URL");

    for (const struct json *v = list ? json_first(list) : NULL; list && v != json_end(list); v++)
        if (str_starts(v->s, STR("http"))) {
            printf("listening on " STR_FMT "\n", STR_ARG(v->s));
            url = v->s;
        }
    printf("E2B clients:      key=$(sandboxer token create --e2b) && eval \"$key\"\n"
           "Daytona clients:  key=$(sandboxer token create --daytona) && eval \"$key\"\n"
           "this program:     token=$(sandboxer token create -q NAME) && "
           "export SANDBOXER_URL=" STR_FMT " SANDBOXER_TOKEN=$token\n",
           STR_ARG(url));
}

static int print_listening(const struct api_call *c)
{
    AUTO(found_daemon_done) struct found_daemon f;
    int status = find_daemon(&f, c);

    if (status)
        return status;
    if (f.hangs)
        return report_hang(&f);
    if (common_format(c->common) != FORMAT_TEXT || c->common->quiet)
        return print_running(&f.call, f.call.answer);
    print_listen_hints(f.call.answer);
    return answer_flush(c);
}

/* A daemon that cannot have the address is replaced by one as before. */
static int restart_listening(struct found_daemon *f, const char *address)
{
    const char *before = show_string(f->call.answer, "listen_option").p;
    struct err e;
    int status = restart_daemon(f, address, false);

    if (status != EXIT_TOOL_FAILED)
        return status;
    if (daemon_start_listening(before, &e) < 0)
        return verb_failed(f->call.verb, "and none started without it: %s", e.msg);
    return status;
}

/* Starts a daemon with the address; 0: one runs already, 1: started, or else a negative status. */
static int start_listening(const struct api_call *c, const char *address)
{
    AUTO(contact_done) struct contact contact = { .fd = -1 };
    int status;

    if (contact_open(&contact, NULL, CONTACT_ONLY, NULL) != -(int)ERR_NOT_FOUND)
        return 0;
    status = start_daemon(c, address);
    return status ? -status : 1;
}

/* Whether it has the address already, because its configuration does. */
static bool is_listening(const struct found_daemon *f, const char *address)
{
    const struct json *list = show_at(f->call.answer, "listeners");
    char url[128];

    snprintf(url, sizeof url, "http://%s", address);
    for (const struct json *v = list ? json_first(list) : NULL; list && v != json_end(list); v++)
        if (str_eq(v->s, str_from(url)))
            return true;
    return false;
}

/* The unit restarts the daemon as its configuration says, so that is where the address belongs. */
static int refuse_listening(const struct found_daemon *f, const char *address)
{
    char unit[UNIT_MAX] = DEFAULT_UNIT, path[PATH_MAX] = "sandboxer.yaml";
    const struct verb *v = f->call.verb;
    bool user = false;

    (void)daemon_process_unit((pid_t)show_int(f->call.answer, "supervisor_pid", 0), unit,
                              sizeof unit, &user);
    (void)daemon_config_path(path, sizeof path, NULL);
    verb_failed(v, "systemd started this daemon, and its configuration names the address:");
    cli_report("1. write this line into %s:  listen: %s", path, address);
    cli_report("2. then run:  systemctl%s restart %s", user ? " --user" : "", unit);
    return EXIT_USAGE;
}

/* Gives the daemon that runs the address. A status. */
static int move_listening(const struct api_call *c, const char *address)
{
    AUTO(found_daemon_done) struct found_daemon f;
    int status = find_daemon(&f, c);

    if (status || f.hangs)
        return status; /* print_listening() reports that it hangs */
    if (is_systemds(&f))
        return is_listening(&f, address) ? 0 : refuse_listening(&f, address);
    return restart_listening(&f, address);
}

static int run_daemon_listen(struct api_call *c, void *options, int argc, char **argv)
{
    const char *address = argv[0] ? argv[0] : "127.0.0.1:7700";
    struct daemon_address at;
    struct err e;
    int status = find_local_place(c, &at), started;

    if (status)
        return status;
    if (daemon_check_listening(address, &e) < 0) {
        verb_failed(c->verb, "%s", e.msg);
        return EXIT_USAGE;
    }
    started = start_listening(c, address);
    if (started < 0)
        return -started;
    status = started ? 0 : move_listening(c, address);
    return status ? status : print_listening(c);
}

const struct verb verb_daemon_listen = {
    .name = "daemon listen",
    ARGUMENTS("[ADDRESS:PORT]", 0, 1, COMPLETE_NOTHING),
    .summary = "let the daemon listen on TCP, for E2B, Daytona and other clients",
    .text =
        "Without an address on 127.0.0.1:7700. The daemon is started again with the address,\n"
        "because the separation of sandboxes from each other is stricter when others can\n"
        "reach it; sandboxes continue. The address is kept until the daemon is stopped; one that\n"
        "listens on TCP does not end by itself. Requests need tokens. An address that other\n"
        "machines reach is refused, unless the configuration allows it\n"
        "(listen_unencrypted) or serves TLS (domain.listen). A daemon that systemd started has\n"
        "the address from its configuration; the two steps are printed.\n"
        "\n"
        "  sandboxer daemon listen 127.0.0.1:7700\n",
    .run = run_daemon_listen,
    .flags = VERB_ASKS,
};
