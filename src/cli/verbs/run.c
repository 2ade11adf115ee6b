/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/own.h"
#include "cli/run/image_dir.h"
#include "cli/remote.h"
#include "cli/run/run_options.h"
#include "cli/run/session.h"
#include "cli/shell_words.h"
#include "cli/terminal.h"
#include "cli/run/untrusted.h"
#include "cli/verbs/verbs.h"
#include "lib/ipc/kernel.h"
#include "lib/proc/passwd.h"
#include "lib/proc/sys.h"

/* Where only one identity is mapped, a user name must be resolved before the launch: from the
 * image, never through a link out of it. On the host's system directories, the host's names are
 * used. */
static int choose_run_identity(struct session *s, const struct run_options *o, struct err *e)
{
    struct user u = o->box.user;
    struct passwd_entry found;
    AUTO_CLOSE int file = -1;

    if (u.name && s->plan.n_layers) {
        file = sys_openat2(s->fds[0], "etc/passwd", O_RDONLY | O_NONBLOCK, 0,
                           RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
        if (file < 0 || !passwd_find(file, str_from(u.name), 0, &found))
            return err_set(e, ERR_NOT_FOUND, "there is no user '%s' in the image's /etc/passwd",
                           u.name);
        u.uid = found.uid;
        u.gid = found.gid;
    } else {
        user_number(&u);
    }
    s->plan.uid = u.uid;
    s->plan.gid = u.gid;
    return 0;
}

static bool is_word_chosen(const char *word, const char *other, bool preset)
{
    return word ? strcmp(word, other) == 0 : preset;
}

/* Trusted programs run with the cheapest isolation, untrusted ones with the strongest. */
static uint32_t run_isolation_flags(const struct run_options *o)
{
    bool untrusted = o->untrusted.file;

    return (is_word_chosen(o->system, "apart", untrusted) ? PLAN_SYSTEM_APART : 0) |
           (is_word_chosen(o->side_channels, "guarded", untrusted) ? PLAN_GUARDED : 0);
}

static int fill_plan(struct session *s, const struct run_options *o, struct image_dir *image,
                     struct err *e)
{
    struct plan *p = &s->plan;
    int r = 0;

    p->flags |= (o->strict ? PLAN_STRICT : 0) | (o->writable ? PLAN_WRITABLE_SYSTEM : 0) |
                (network_is_requested(&o->network) ? PLAN_EGRESS : 0) | run_isolation_flags(o);
    p->memory = o->box.memory;
    /* Disk that programs do not use is memory that they can: a small memory limit gets no large
     * disk unless that was asked for. */
    p->disk = !(o->box.asked & LAUNCH_NO_DISK) && o->box.memory && o->box.memory < o->box.disk
                  ? o->box.memory
                  : o->box.disk;
    p->pids = (uint32_t)o->box.pids;
    p->cpu_milli = o->box.cpu_milli;
    p->caps = o->box.caps;
    p->kernel = o->kernel | (o->untrusted.file ? KERNEL_STRICT : 0);
    if (o->box.hostname)
        snprintf(p->hostname, sizeof p->hostname, "%s", o->box.hostname);
    if (o->image) {
        r = image_dir_open(image, o->image, o->squash_owners, e);
        if (r >= 0)
            r = session_add_layer(s, take_fd(&image->fd), e);
    }
    if (r >= 0)
        r = choose_run_identity(s, o, e);
    for (size_t i = 0; i < o->box.n_mounts && r >= 0; i++)
        r = err_wrap(e,
                     session_add_mount(s, o->box.mounts[i].source, o->box.mounts[i].target,
                                       o->box.mounts[i].writable, e),
                     "--mount %s", o->box.mounts[i].source);
    return r < 0 ? r : plan_check(p, sizeof *p, e);
}

static void fill_start(struct process_start *start, struct run_options *o, char **argv)
{
    *start = (struct process_start){ .what = START_PROGRAM,
                                     .flags = o->tty ? START_TTY : START_STDIN,
                                     .user = o->box.user_text,
                                     .timeout_ns = o->timeout_ns,
                                     .grace_ns = NS_PER_S,
                                     .cwd = o->box.workdir,
                                     .argv = (const char *const *)argv,
                                     .envp = o->env };
    if (o->tty)
        terminal_size(&start->rows, &start->cols);
}

static bool is_utf8_list(const char *const *list)
{
    size_t i = 0;

    while (list[i] && str_is_utf8(str_from(list[i])))
        i++;
    return !list[i];
}

/* The first option that was given and that a request to the daemon cannot carry; NULL: none. */
static const char *local_option(const struct run_options *o)
{
    const struct {
        bool given;
        const char *name;
    } all[] = {
        { o->writable, "--writable" },
        { o->system, "--system" },
        { o->side_channels, "--side-channels" },
        { o->strict, "--strict" },
        { o->kernel, "--kernel" },
        { o->network.resolvers.n, "--resolver" },
        { o->network.upstream, "--upstream" },
        { o->network.identify, "--programs" },
    };

    for (size_t i = 0; i < COUNT_OF(all); i++)
        if (all[i].given)
            return all[i].name;
    return NULL;
}

/* Whether one of the daemon's prepared sandboxes could serve the run. */
static bool is_plain_run(const struct run_options *o)
{
    return !local_option(o) && !o->box.n_mounts && !o->box.hostname && !o->box.caps &&
           !o->box.asked && !o->image;
}

static bool can_be_served(const struct run_options *o, char **argv)
{
    return is_plain_run(o) && o->n_env <= PROCESS_ENV_MAX &&
           is_utf8_list((const char *const *)argv) && is_utf8_list(o->env) &&
           !getenv("SANDBOXER_NO_DAEMON");
}

static int fill_request(struct run_request *ret, const struct run_options *o, char **argv,
                        struct arena *a, struct err *e)
{
    *ret = run_request_default;
    ret->image = o->image;
    if (remote_fill_request(&ret->process, argv, o->env, o->n_env, o->tty, a, e) < 0)
        return -(int)ERR_TOO_BIG;
    ret->process.user = o->box.user_text;
    ret->process.cwd = o->box.workdir;
    ret->process.timeout_ns = o->timeout_ns;
    ret->process.stdin_ = !o->tty;
    return 0;
}

static const struct network_options *requested_network(const struct run_options *o)
{
    return network_is_requested(&o->network) ? &o->network : NULL;
}

static bool run_served(const struct verb *v, const struct run_options *o, char **argv, int *ret)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(REMOTE_TEXT_MAX);
    struct run_request q;

    if (!can_be_served(o, argv) || fill_request(&q, o, argv, &a, NULL) < 0)
        return false;
    if (!q.process.user) /* not the user of the daemon's profile */
        q.process.user = "0";
    return remote_run(v, &q, NULL, requested_network(o), o->quiet, ret);
}

/* --- an image of the daemon's --- */

/* Neither an existing file nor written as a path. */
static bool is_reference(const char *image)
{
    struct stat st;

    return image && image[0] != '/' && image[0] != '.' && lstat(image, &st) < 0;
}

static size_t append_json_words(const struct json *list, const char **argv, size_t n, size_t max)
{
    for (const struct json *m = list ? json_first(list) : NULL; m && m != json_end(list); m++)
        if (m->type == JSON_STR && n + 1 < max)
            argv[n++] = m->s.p;
    return n;
}

/* The image's default command: its entry point with arguments. */
static int own_command(struct api_call *c, const struct verb *v, const char *image,
                       const char **argv, size_t max)
{
    static const struct common common;
    size_t n;
    int status;

    api_call_init(c, v, &common, "GET");
    c->start = CONTACT_ONLY;
    api_call_path(c, "/v1/images/inspect");
    api_call_query(c, "ref", image);
    status = api_call_run(c);
    if (status)
        return status;
    n = append_json_words(show_at(c->answer, "config.config.Entrypoint"), argv, 0, max);
    n = append_json_words(show_at(c->answer, "config.config.Cmd"), argv, n, max);
    argv[n] = NULL;
    if (n)
        return 0;
    return verb_failed(v, "%s has no default command: write one after '--'", image);
}

static int run_image(const struct verb *v, const struct run_options *o, char **argv)
{
    static const char *words[512];
    AUTO(arena_done) struct arena a = ARENA_INIT(REMOTE_TEXT_MAX);
    AUTO(api_call_done) struct api_call inspected = { 0 };
    struct run_request q;
    struct err e;
    const char *local = local_option(o);
    int status = 0;

    if (local)
        return verb_failed(v,
                           "%s cannot be used with the stored image %s; use a directory or an "
                           "archive, or leave it out",
                           local, o->image);
    if (!argv[0]) {
        status = own_command(&inspected, v, o->image, words, COUNT_OF(words));
        argv = (char **)(void *)words; /* the words are only read */
    }
    if (status)
        return status;
    if (fill_request(&q, o, argv, &a, &e) < 0)
        return verb_misused(v, "%s", e.msg);
    q.settings = box_options_settings(&o->box);
    if (remote_run(v, &q, &o->box, requested_network(o), o->quiet, &status))
        return status;
    return verb_failed(
        v, "%s is not a local file, and no daemon runs that could have an image of that name",
        o->image);
}

/* The home directory of the command's user, from the image. */
static const char *home_inside(int image, const struct user *u, struct passwd_entry *found)
{
    AUTO_CLOSE int file = sys_openat2(image, "etc/passwd", O_RDONLY | O_NONBLOCK, 0,
                                      RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);

    return file >= 0 && passwd_find(file, str_from(u->name), u->uid, found) ? found->home : "/root";
}

/* Packages are those of the image or, without one, of the system directories that it will see. */
static int complete_network(struct run_options *o, int image, struct err *e)
{
    struct passwd_entry user;
    AUTO_CLOSE int system = image >= 0 ? -1 : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = network_options_complete(&o->network, image >= 0 ? image : system,
                                     image >= 0 ? home_inside(image, &o->box.user, &user) : NULL,
                                     o->env, e);

    if (r > 0 && o->network.unknown[0] && !o->quiet)
        cli_report("note: --allow-packages knows no host for %s; --allow HOST adds one",
                   o->network.unknown);
    o->network.unknown[0] = 0;
    return r;
}

static int open_network(struct session *s, struct run_options *o, struct network *n, struct err *e)
{
    int r = complete_network(o, s->plan.n_layers ? s->fds[0] : -1, e);

    if (r <= 0)
        return r;
    s->network = n;
    s->plan.taken = network_taken(&o->network);
    return network_init(n, &o->network, e);
}

static int run_command(struct run_options *o, char **argv, struct untrusted *u)
{
    static struct network network = NETWORK_NONE;
    struct image_dir image AUTO(image_dir_done) = IMAGE_DIR_NONE;
    struct session s AUTO(session_done) = { .control = -1 };
    struct process_start start;
    struct err e;
    int r = session_init(&s, &e);

    s.quiet = o->quiet;
    s.asked_limits = o->box.asked;
    if (r >= 0)
        r = fill_plan(&s, o, &image, &e);
    if (r >= 0 && u)
        r = untrusted_join(u, &s, &e);
    if (r >= 0 && network_touched(&o->network))
        r = open_network(&s, o, &network, &e);
    if (r < 0) {
        cli_report("%s", e.msg);
        return EXIT_TOOL_FAILED;
    }
    fill_start(&start, o, argv);
    r = session_run(&s, &start);
    if (u && untrusted_end(u, &s, r, &e) < 0) {
        cli_report("%s", e.msg);
        return r ? r : EXIT_TOOL_FAILED;
    }
    return r;
}

/* Rejects options that would let data in or out beside the output. */
static int check_untrusted(const struct run_options *o, struct err *e)
{
    if (network_touched(&o->network))
        return err_set(e, ERR_INVALID, "--untrusted: such a run has no network");
    for (size_t i = 0; i < o->box.n_mounts; i++)
        if (o->box.mounts[i].writable)
            return err_set(e, ERR_INVALID,
                           "--untrusted: mounts are read-only; its output is brought out");
    return 0;
}

/* Never run by the daemon: scanned and collected data stay in this process. */
static int run_untrusted(struct run_options *o, char **arguments)
{
    static struct untrusted u = UNTRUSTED_INIT;
    struct err e;
    int r = check_untrusted(o, &e), status = EXIT_TOOL_FAILED;

    if (!o->box.workdir)
        o->box.workdir = UNTRUSTED_OUTPUT;
    if (r >= 0)
        r = untrusted_begin(&u, &o->untrusted, arguments, &e);
    if (r < 0)
        cli_report("%s", e.msg);
    else
        status = run_command(o, (char **)(void *)u.argv, &u); /* the words are only read */
    untrusted_done(&u);
    return status;
}

/* A daemon elsewhere was asked for, and a run would not be there: nothing is run here instead. */
static int check_here(struct err *e)
{
    struct daemon_address place;
    int r = place_find(NULL, &place, e);

    if (r < 0 || !place.tcp)
        return r;
    return err_set(e, ERR_UNSUPPORTED,
                   "SANDBOXER_URL names the daemon at %.100s, and 'run' works on this machine "
                   "only: use 'create' and 'exec' there, or unset SANDBOXER_URL to run here",
                   place.authority);
}

static int run_run(struct api_call *c, void *options, int argc, char **argv)
{
    struct run_options *o = options;
    const struct verb *v = c->verb;
    const char *peer = getenv("SANDBOXER_PEER");
    struct err e;
    int status;

    /* The daemon's policy decides about sandboxes of a peer session, so such a session cannot run
     * sandboxes without the daemon. */
    if (peer && peer[0])
        return verb_failed(
            v, "SANDBOXER_PEER is set, and sessions of clients that call tools have no runs of "
               "their own: use 'create' and 'exec', which the policy decides about");
    if (check_here(&e) < 0)
        return verb_misused(v, "%s", e.msg);
    run_options_fill_environment(o);
    if (o->untrusted.file)
        return run_untrusted(o, argv);
    if (untrusted_options_any(&o->untrusted))
        return verb_failed(v, "an option of --untrusted was given without --untrusted");
    if (is_reference(o->image))
        return run_image(v, o, argv);
    if (argc && !o->tty && shell_has_terminal() && shell_is_interactive(argv))
        cli_report("%s has no terminal and shows no prompt; for a session use: sandboxer run -t -- "
                   "%s",
                   argv[0], argv[0]);
    if (!argc && shell_has_terminal()) {
        o->tty = true;
        argv = shell_words;
    } else if (!argc) {
        return verb_failed(v,
                           "give a command to run: sandboxer run [OPTION…] -- COMMAND [ARGUMENT…]");
    }
    if (!o->image && network_touched(&o->network) && complete_network(o, -1, &e) < 0) {
        cli_report("%s", e.msg);
        return EXIT_TOOL_FAILED;
    }
    return run_served(v, o, argv, &status) ? status : run_command(o, argv, NULL);
}

const struct verb verb_run = {
    .name = "run",
    ARGUMENTS("[[--] COMMAND [ARGUMENT…]]", 0, ARGUMENTS_ANY, COMPLETE_NOTHING),
    .summary = "run a command in a new sandbox, and destroy the sandbox afterwards",
    .text = "The command sees its own file system, processes and network (loopback only), none\n"
            "of ours, and holds no capability. stdin, stdout and stderr are passed through.\n"
            "\n"
            "Without a command, on a terminal, it is a shell.\n"
            "\n"
            "With --allow or --policy it reaches what these name, by proxy variables or without,\n"
            "and nothing else; what was refused is said at the end. The names it asks for are\n"
            "not looked up unless they may be reached.\n"
            "\n"
            "With --untrusted a program of unknown origin is scanned first, then run with no\n"
            "network in an empty directory, /tmp/output; what it leaves there is looked at (no\n"
            "set-user-id bits, no links out, no devices), hashed and signed, and only then put\n"
            "into place, all or nothing. The manifest also lists all that it changed elsewhere\n"
            "in the sandbox. A command or an MCP server can take either look. 'sandboxer verify\n"
            "MANIFEST DIR' checks it later. A refused program ends with 125.\n"
            "\n"
            "Exit status: the command's own; 128+N if signal N ended it; 124 after a timeout;\n"
            "125 if sandboxer failed; 126 if the command cannot be executed, 127 if it is not\n"
            "there.\n"
            "\n"
            "  sandboxer run -- python3 -c 'print(40+2)'\n"
            "  sandboxer run --memory 64M --pids 32 --cpu 0.5 --timeout 2s -- ./job\n"
            "  sandboxer run --mount ./src:/work --workdir /work --user 1000 -- make\n"
            "  sandboxer run -t -- bash\n"
            "  sandboxer run --image rootfs.tar -- sh\n"
            "  sandboxer run --image registry.example.org/team/web:1.2\n"
            "  sandboxer run --allow api.example.com -- curl https://api.example.com/\n"
            "  sandboxer run --policy policy.yaml --egress-log log.jsonl -- ./agent\n"
            "  sandboxer run --allow-packages -- npm install x\n"
            "  sandboxer run --image rootfs.tar --allow-packages -- apt-get -o "
            "APT::Sandbox::User=root update\n"
            "  sandboxer run --timeout 1m --untrusted job.py --output result\n",
    OPTIONS(run_option_specs, struct run_options),
    .defaults = &(const struct run_options)RUN_OPTIONS_DEFAULT,
    .run = run_run,
    .flags = VERB_COMMAND,
};
