#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/units.h"
#include "cli/image_dir.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "proc/caps.h"
#include "proc/passwd.h"
#include "proc/sys.h"
#include "runtime/user.h"

enum { VARIABLES_MAX = 1024, DEFAULT_PIDS = 1024 };

#define DEFAULT_MEMORY (UINT64_C(4) << 30)
#define DEFAULT_DISK   (UINT64_C(1) << 30)

struct run_options {
    const char *image;
    bool squash_owners, strict, tty, quiet, writable;
    const char *workdir, *hostname;
    struct user user;
    uint64_t memory, disk, pids, caps;
    uint32_t cpu_milli;
    unsigned asked; /* enum launch_unenforced: limits that were written, not defaults */
    int64_t timeout_ns;
    const char *mounts[PLAN_MOUNTS_MAX];
    size_t n_mounts;
    const char *env[VARIABLES_MAX + 16];
    size_t n_env;
    struct network_options network;
};

static int set_image(void *to, const char *value, struct err *e)
{
    struct run_options *o = to;

    o->image = value;
    return value[0] ? 0 : err_set(e, ERR_INVALID, "--image: give a directory or a tar archive");
}

static int set_mount(void *to, const char *value, struct err *e)
{
    struct run_options *o = to;

    if (o->n_mounts == PLAN_MOUNTS_MAX)
        return err_set(e, ERR_TOO_BIG, "--mount: more than %d mounts", PLAN_MOUNTS_MAX);
    o->mounts[o->n_mounts++] = value;
    return 0;
}

static const char **find_variable(struct run_options *o, const char *name, size_t n)
{
    size_t i = 0;

    while (i < o->n_env && (strncmp(o->env[i], name, n) != 0 || o->env[i][n] != '='))
        i++;
    return &o->env[i];
}

/* NAME=VALUE; the last one of a name counts. */
static void put_variable(struct run_options *o, const char *text)
{
    const char **at = find_variable(o, text, strcspn(text, "="));

    if (at == &o->env[o->n_env])
        o->n_env++;
    *at = text;
}

static int set_env(void *to, const char *value, struct err *e)
{
    struct run_options *o = to;
    static char passed[16][4096];
    static size_t n_passed;
    const char *equals = strchr(value, '='), *ours;

    if (equals == value || !value[0])
        return err_set(e, ERR_INVALID, "--env: '%s' has no name; write NAME=VALUE or NAME", value);
    if (o->n_env == VARIABLES_MAX || (!equals && n_passed == COUNT_OF(passed)))
        return err_set(e, ERR_TOO_BIG, "--env: too many variables");
    if (!equals) {
        ours = getenv(value);
        if (!ours)
            return 0;
        if (snprintf(passed[n_passed], sizeof passed[0], "%s=%s", value, ours) >=
            (int)sizeof passed[0])
            return err_set(e, ERR_TOO_BIG, "--env %s: its value is too long; write NAME=VALUE",
                           value);
        value = passed[n_passed++];
    }
    put_variable(o, value);
    return 0;
}

static int set_workdir(void *to, const char *value, struct err *e)
{
    struct run_options *o = to;

    if (value[0] != '/')
        return err_set(e, ERR_INVALID, "--workdir: '%s' is not an absolute path", value);
    o->workdir = value;
    return 0;
}

static int set_user(void *to, const char *value, struct err *e)
{
    return err_wrap(e, user_parse(value, &((struct run_options *)to)->user, e), "--user");
}

static int set_hostname(void *to, const char *value, struct err *e)
{
    struct run_options *o = to;

    if (!value[0] || strlen(value) >= sizeof((struct plan *)0)->hostname)
        return err_set(e, ERR_INVALID, "--hostname: '%s' is empty or too long", value);
    o->hostname = value;
    return 0;
}

static int set_memory(void *to, const char *value, struct err *e)
{
    ((struct run_options *)to)->asked |= LAUNCH_NO_MEMORY;
    return units_bytes(str_from(value), "--memory", &((struct run_options *)to)->memory, e);
}

static int set_disk(void *to, const char *value, struct err *e)
{
    return units_bytes(str_from(value), "--disk", &((struct run_options *)to)->disk, e);
}

static int set_pids(void *to, const char *value, struct err *e)
{
    ((struct run_options *)to)->asked |= LAUNCH_NO_PIDS;
    return units_count(str_from(value), "--pids", 2, PLAN_PIDS_MAX,
                       &((struct run_options *)to)->pids, e);
}

static int set_cpu(void *to, const char *value, struct err *e)
{
    ((struct run_options *)to)->asked |= LAUNCH_NO_CPU;
    return units_milli(str_from(value), "--cpu", &((struct run_options *)to)->cpu_milli, e);
}

static int set_timeout(void *to, const char *value, struct err *e)
{
    return units_duration(str_from(value), "--timeout", &((struct run_options *)to)->timeout_ns, e);
}

static int set_cap(void *to, const char *value, struct err *e)
{
    int cap;

    if (!caps_from_name(str_from(value), &cap) || !(plan_grantable_caps() & CAP_BIT(cap)))
        return err_set(
            e, ERR_INVALID,
            "--cap: '%s' cannot be granted; CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETUID, "
            "SETGID and KILL can",
            value);
    ((struct run_options *)to)->caps |= CAP_BIT(cap);
    return 0;
}

#define FLAG(name)                                                                                 \
    static int set_##name(void *to, const char *value, struct err *e)                              \
    {                                                                                              \
        (void)value;                                                                               \
        (void)e;                                                                                   \
        ((struct run_options *)to)->name = true;                                                   \
        return 0;                                                                                  \
    }
FLAG(squash_owners)
FLAG(strict)
FLAG(tty)
FLAG(quiet)
FLAG(writable)

#define AT(member) .at = offsetof(struct run_options, member)

static const struct option_spec options[] = {
    { "image", 0, "PATH",
      "root file system: a directory or a tar archive (default: the host's\n"
      "                             system directories, read-only)",
      .set = set_image, .complete = COMPLETE_FILE },
    { "squash-owners", 0, NULL, "all files of an archive belong to the sandbox's root",
      .set = set_squash_owners },
    { "writable", 0, NULL, "system directories take writes, kept in the sandbox",
      .set = set_writable },
    { "mount", 0, "SRC:DST[:rw]", "show a file or directory inside, read-only unless :rw",
      .set = set_mount },
    { "env", 'e', "NAME[=VALUE]", "set a variable, or pass on ours", .set = set_env },
    { "workdir", 'w', "DIR", "working directory (default: the user's home)", .set = set_workdir },
    { "user", 'u', "USER", "UID, UID:GID or a name inside (default: 0, without capabilities)",
      .set = set_user },
    { "hostname", 0, "NAME", "hostname inside (default: sandbox)", .set = set_hostname },
    { "memory", 'm', "SIZE", "memory limit (default: 4G, where it can be enforced)",
      .set = set_memory },
    { "pids", 0, "N", "process limit (default: 1024)", .set = set_pids },
    { "cpu", 0, "N.N", "processors it may use (default: all)", .set = set_cpu },
    { "disk", 0, "SIZE", "what it may write outside of mounts (default: 1G, in memory)",
      .set = set_disk },
    { "timeout", 0, "DURATION", "end it after 2s, 5m, 1h30m: SIGTERM, a second later SIGKILL",
      .set = set_timeout },
    { "cap", 0, "NAME", "let programs hold a capability inside (CHOWN, SETUID, …)",
      .set = set_cap },
    { "allow", 0, "HOST[:PORT]",
      "let it reach this host, and nothing else (default port: 443); can be\n"
      "                             repeated: api.example.com, '*.example.com:80,443'",
      .kind = OPTION_LIST, AT(network.allow) },
    { "allow-packages", 0, NULL,
      "let it reach the hosts that its package managers are configured for or\n"
      "                             were built to use",
      .kind = OPTION_FLAG, AT(network.packages) },
    { "policy", 0, "FILE", "let it reach what this egress policy allows ('egress check FILE')",
      .kind = OPTION_TEXT, AT(network.policy), .complete = COMPLETE_FILE },
    { "egress-log", 0, "FILE", "append an event for every decision, as lines of JSON",
      .kind = OPTION_TEXT, AT(network.log), .complete = COMPLETE_FILE },
    { "resolver", 0, "ADDR[:PORT]", "DNS server for what it may reach (default: the host's)",
      .kind = OPTION_LIST, AT(network.resolvers) },
    { "upstream", 0, "URL", "go out through http://ADDR:PORT or socks5://ADDR:PORT",
      .kind = OPTION_TEXT, AT(network.upstream) },
    { "strict", 0, NULL, "fail if a limit cannot be enforced here", .set = set_strict },
    { "tty", 't', NULL, "run in a terminal of its own", .set = set_tty },
    { "quiet", 'q', NULL, "no notes on stderr", .set = set_quiet },
};

/* SRC:DST, SRC:DST:ro or SRC:DST:rw. SRC may hold colons if DST and mode are given behind it. */
static int add_mount(struct session *s, const char *text, struct err *e)
{
    struct str rest = str_from(text);
    bool writable = str_ends(rest, STR(":rw"));
    char source[4096], target[PLAN_TARGET_MAX];
    size_t colon;

    if (writable || str_ends(rest, STR(":ro")))
        rest.n -= 3;
    for (colon = rest.n; colon > 0 && rest.p[colon - 1] != ':'; colon--)
        ;
    if (colon < 2 || !str_copy((struct str){ rest.p, colon - 1 }, source, sizeof source) ||
        !str_copy((struct str){ rest.p + colon, rest.n - colon }, target, sizeof target))
        return err_set(e, ERR_INVALID,
                       "--mount: '%s' is not SOURCE:TARGET, SOURCE:TARGET:ro or "
                       "SOURCE:TARGET:rw",
                       text);
    return err_wrap(e, session_add_mount(s, source, target, writable, e), "--mount %s", text);
}

/* Where there may be one identity only, a name must be known before it gets its number: from the
 * image, never through a link out of it. On the host's system directories the names are ours. */
static int choose_identity(struct session *s, const struct run_options *o, struct err *e)
{
    struct user u = o->user;
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

static int fill_plan(struct session *s, const struct run_options *o, struct image_dir *image,
                     struct err *e)
{
    struct plan *p = &s->plan;
    int r = 0;

    p->flags |= (o->strict ? PLAN_STRICT : 0) | (o->writable ? PLAN_WRITABLE_SYSTEM : 0) |
                (network_wanted(&o->network) ? PLAN_EGRESS : 0);
    p->memory = o->memory;
    p->disk = o->disk;
    p->pids = (uint32_t)o->pids;
    p->cpu_milli = o->cpu_milli;
    p->caps = o->caps;
    if (o->hostname)
        snprintf(p->hostname, sizeof p->hostname, "%s", o->hostname);
    if (o->image) {
        r = image_dir_open(image, o->image, o->squash_owners, e);
        if (r >= 0)
            r = session_add_layer(s, take_fd(&image->fd), e);
    }
    if (r >= 0)
        r = choose_identity(s, o, e);
    for (size_t i = 0; i < o->n_mounts && r >= 0; i++)
        r = add_mount(s, o->mounts[i], e);
    return r < 0 ? r : plan_check(p, sizeof *p, e);
}

/* Programs that know proxies use ours, and can show why something was refused. */
static void add_proxy(struct run_options *o)
{
    static const char *const variables[] = {
        "HTTP_PROXY=" LISTENERS_PROXY_URL,  "http_proxy=" LISTENERS_PROXY_URL,
        "HTTPS_PROXY=" LISTENERS_PROXY_URL, "https_proxy=" LISTENERS_PROXY_URL,
        "ALL_PROXY=" LISTENERS_PROXY_URL,   "all_proxy=" LISTENERS_PROXY_URL,
        "NO_PROXY=" LISTENERS_NO_PROXY,     "no_proxy=" LISTENERS_NO_PROXY,
    };

    for (size_t i = 0; i < COUNT_OF(variables); i++)
        if (!*find_variable(o, variables[i], strcspn(variables[i], "=")))
            put_variable(o, variables[i]);
}

static void fill_environment(struct run_options *o)
{
    const char *term = getenv("TERM");
    static char term_variable[128];

    if (!*find_variable(o, "LANG", 4))
        put_variable(o, "LANG=C.UTF-8");
    if (o->tty && term &&
        snprintf(term_variable, sizeof term_variable, "TERM=%s", term) < (int)sizeof term_variable)
        put_variable(o, term_variable);
    if (network_wanted(&o->network))
        add_proxy(o);
}

static void fill_start(struct supervisor_start *start, struct run_options *o, char **argv)
{
    *start = (struct supervisor_start){ .what = CONTROL_PROGRAM,
                                        .flags = o->tty ? CONTROL_TTY : CONTROL_STDIN,
                                        .uid = o->user.uid,
                                        .gid = o->user.gid,
                                        .user = o->user.name,
                                        .timeout_ns = o->timeout_ns,
                                        .grace_ns = NS_PER_S,
                                        .cwd = o->workdir,
                                        .argv = (const char *const *)argv,
                                        .envp = o->env };
    if (o->tty)
        terminal_size(&start->rows, &start->cols);
}

static bool is_text(const char *const *list)
{
    size_t i = 0;

    while (list[i] && str_is_utf8(str_from(list[i])))
        i++;
    return !list[i];
}

/* Nothing was asked for that a prepared sandbox does not have, and a request can carry all of it.
 */
static bool can_be_served(const struct run_options *o, char **argv)
{
    return !network_wanted(&o->network) && !o->image && !o->writable && !o->strict &&
           !o->hostname && !o->caps && !o->asked && !o->n_mounts && o->disk == DEFAULT_DISK &&
           o->n_env <= OPTION_LIST_MAX && is_text((const char *const *)argv) && is_text(o->env) &&
           !getenv("SANDBOXER_NO_DAEMON");
}

static bool run_served(const struct verb *v, const struct run_options *o, char **argv, int *ret)
{
    static struct option_list env;
    char user[32], timeout[32];
    struct remote_start s = { .argv = argv,
                              .env = &env,
                              .user = o->user.name ? o->user.name : user,
                              .workdir = o->workdir,
                              .timeout = o->timeout_ns ? timeout : NULL,
                              .stdin_ = !o->tty,
                              .tty = o->tty,
                              .quiet = o->quiet };

    if (!can_be_served(o, argv))
        return false;
    snprintf(user, sizeof user, "%u:%u", o->user.uid, o->user.gid);
    snprintf(timeout, sizeof timeout, "%lldms", (long long)(o->timeout_ns / NS_PER_MS));
    for (env.n = 0; env.n < o->n_env; env.n++)
        env.p[env.n] = o->env[env.n];
    return remote_run(v, &s, ret);
}

/* Packages are those of the image or, without one, of the system directories that it will see. */
static int open_network(struct session *s, struct run_options *o, struct network *n, struct err *e)
{
    bool image = s->plan.n_layers > 0;
    AUTO_CLOSE int system = image ? -1 : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = network_options_complete(&o->network, image ? s->fds[0] : system, image, o->env, e);

    if (r <= 0)
        return r;
    if (o->network.unknown[0] && !o->quiet)
        say("note: --allow-packages knows no host for %s; --allow HOST adds one",
            o->network.unknown);
    s->network = n;
    return network_init(n, &o->network, e);
}

static int run_command(struct run_options *o, char **argv)
{
    static struct network network = NETWORK_NONE;
    struct image_dir image AUTO(image_dir_done) = IMAGE_DIR_NONE;
    struct session s AUTO(session_done) = { .control = -1 };
    struct supervisor_start start;
    struct err e;
    int r = session_init(&s, &e);

    s.quiet = o->quiet;
    s.asked_limits = o->asked;
    if (r >= 0)
        r = fill_plan(&s, o, &image, &e);
    if (r >= 0 && network_touched(&o->network))
        r = open_network(&s, o, &network, &e);
    if (r < 0) {
        say("%s", e.msg);
        return EXIT_OURS;
    }
    fill_start(&start, o, argv);
    return session_run(&s, &start);
}

static int run(const struct verb *v, int argc, char **argv)
{
    static struct run_options o = { .memory = DEFAULT_MEMORY,
                                    .disk = DEFAULT_DISK,
                                    .pids = DEFAULT_PIDS };
    int first = verb_options(v, argc, argv, &o), status;

    if (first <= 0)
        return first < 0 ? EXIT_OURS : 0;
    if (first >= argc) {
        say("run: give a command to run: sandboxer run [OPTION…] -- COMMAND [ARGUMENT…]");
        return EXIT_OURS;
    }
    fill_environment(&o);
    if (run_served(v, &o, argv + first, &status))
        return status;
    return run_command(&o, argv + first);
}

const struct verb verb_run = {
    .name = "run",
    .arguments = "[--] COMMAND [ARGUMENT…]",
    .summary = "run a command in a new sandbox and take it down again",
    .text =
        "The command sees its own file system, processes and network (loopback only), none of\n"
        "ours, and holds no capability. stdin, stdout and stderr are passed through.\n"
        "\n"
        "With --allow or --policy it reaches what these name, by proxy variables or without, and\n"
        "nothing else; what was refused is said at the end. The names it asks for are not\n"
        "looked up unless they may be reached.\n"
        "\n"
        "Exit status: the command's own; 128+N if signal N ended it; 124 after a timeout; 125 if\n"
        "sandboxer failed; 126 if the command cannot be executed, 127 if it is not there.\n"
        "\n"
        "  sandboxer run -- python3 -c 'print(40+2)'\n"
        "  sandboxer run --memory 64M --pids 32 --cpu 0.5 --timeout 2s -- ./job\n"
        "  sandboxer run --mount ./src:/work --workdir /work --user 1000 -- make\n"
        "  sandboxer run -t -- bash\n"
        "  sandboxer run --image rootfs.tar -- sh\n"
        "  sandboxer run --allow api.example.com -- curl https://api.example.com/\n"
        "  sandboxer run --policy policy.yaml --egress-log log.jsonl -- ./agent\n"
        "  sandboxer run --allow-packages -- npm install x\n"
        "  sandboxer run --image rootfs.tar --allow-packages -- apt-get -o APT::Sandbox::User=root "
        "update\n",
    .options = options,
    .n_options = COUNT_OF(options),
    .run = run,
    .flags = VERB_COMMAND,
};
