/* SPDX-License-Identifier: Apache-2.0 */
/* Reports features and problems of this machine: each check is a row. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/units.h"
#include "cli/body.h"
#include "cli/daemon.h"
#include "cli/state_dir.h"
#include "cli/verbs/verbs.h"
#include "lib/gate/gate.h"
#include "lib/proc/caps.h"
#include "lib/proc/spawn.h"
#include "lib/proc/sys.h"
#include "engine/runtime/cgroup.h"
#include "engine/runtime/side_channels.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif

enum { TEXT = 256, DOCUMENT = 64 << 10, LANDLOCK_VERSION = 1 };
enum { LANDLOCK_IOCTL = 5, LANDLOCK_SIGNALS = 6 }; /* since these versions */
enum { OLDEST_MAJOR = 5, OLDEST_MINOR = 12 };

#define DAEMON_PATIENCE (5 * NS_PER_S)
#define LITTLE_SPACE    (UINT64_C(1) << 30)
#define NO_SPACE        (UINT64_C(100) << 20)

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };

struct doctor_finding {
    enum verdict verdict;
    char what[TEXT]; /* was found */
    char todo[TEXT]; /* about it; "" where nothing is */
};

static void set_finding(struct doctor_finding *f, enum verdict verdict, const char *todo,
                        const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void set_finding(struct doctor_finding *f, enum verdict verdict, const char *todo,
                        const char *fmt, ...)
{
    va_list ap;

    f->verdict = verdict;
    snprintf(f->todo, sizeof f->todo, "%s", todo);
    va_start(ap, fmt);
    vsnprintf(f->what, sizeof f->what, fmt, ap);
    va_end(ap);
}

#define set_ok(f, ...) set_finding(f, VERDICT_OK, "", __VA_ARGS__)

/* The start of a small file, without its line end; "" if it cannot be read. */
static void read_first_line(const char *path, char out[static TEXT])
{
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? 0 : read(file, out, TEXT - 1);

    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

static void check_kernel(const struct api_call *like, struct doctor_finding *f)
{
    struct utsname name;
    unsigned long major, minor;
    char *end;

    uname(&name);
    major = strtoul(name.release, &end, 10);
    minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    if (major < OLDEST_MAJOR || (major == OLDEST_MAJOR && minor < OLDEST_MINOR))
        set_finding(f, VERDICT_FAIL, "boot Linux 5.12 or newer; tested on 6.1", "Linux %s",
                    name.release);
    else
        set_ok(f, "Linux %s", name.release);
}

/* Whether a child process can unshare these namespaces. */
static bool can_unshare(int flags)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(unshare(flags) == 0 ? 0 : 1);
    return pid > 0 && spawn_wait(pid, &status, NULL) >= 0 && status == 0;
}

static void check_user_namespaces(const struct api_call *like, struct doctor_finding *f)
{
    char most[TEXT], clone[TEXT], apparmor[TEXT];

    read_first_line("/proc/sys/user/max_user_namespaces", most);
    read_first_line("/proc/sys/kernel/unprivileged_userns_clone", clone);
    read_first_line("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", apparmor);
    if (strcmp(most, "0") == 0)
        set_finding(f, VERDICT_FAIL, "sysctl user.max_user_namespaces=15000",
                    "forbidden by a limit of 0");
    else if (can_unshare(CLONE_NEWUSER))
        set_ok(f, "can be made (at most %s)", most);
    else if (strcmp(clone, "0") == 0)
        set_finding(f, VERDICT_FAIL, "sysctl kernel.unprivileged_userns_clone=1",
                    "forbidden to plain users");
    else if (strcmp(apparmor, "1") == 0)
        set_finding(f, VERDICT_FAIL,
                    "load the profile that sandboxer brings (docs/install.md, AppArmor); or "
                    "allow it to all programs: sysctl "
                    "kernel.apparmor_restrict_unprivileged_userns=0",
                    "forbidden by AppArmor");
    else
        set_finding(f, VERDICT_FAIL, "look for a seccomp filter or a container around this machine",
                    "cannot be made here");
}

static void check_landlock(const struct api_call *like, struct doctor_finding *f)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION);

    if (version >= LANDLOCK_SIGNALS)
        set_ok(f, "version %ld: device nodes, ioctl on devices, signals and sockets to the outside",
               version);
    else if (version > 0)
        set_ok(f, "version %ld: device nodes%s; Linux 6.12 fences signals as well", version,
               version >= LANDLOCK_IOCTL ? ", ioctl on devices" : "");
    else
        set_finding(f, VERDICT_WARN, "add landlock to the kernel's lsm= parameter",
                    "not there: one layer of defence less");
}

/* Memory used by the machine code of BPF programs, seccomp filters included; 0 if it cannot be read
 * (only root may). Lines of vmallocinfo: "0xFROM-0xTO BYTES CALLER+…". */
static unsigned long long bpf_code_bytes(void)
{
    FILE *file = fopen("/proc/vmallocinfo", "re");
    unsigned long long total = 0;
    char line[512];

    while (file && fgets(line, sizeof line, file))
        if (strstr(line, " bpf_prog_pack") || strstr(line, " bpf_jit"))
            total += strtoull(line + strcspn(line, " "), NULL, 10);
    if (file)
        fclose(file);
    return total;
}

static void check_seccomp(const struct api_call *like, struct doctor_finding *f)
{
    unsigned long long most, used = bpf_code_bytes();
    char text[TEXT];

    read_first_line("/proc/sys/net/core/bpf_jit_limit", text);
    most = strtoull(text, NULL, 10);
    if (prctl(PR_GET_SECCOMP) < 0 && errno == EINVAL)
        set_finding(f, VERDICT_FAIL, "boot a kernel with CONFIG_SECCOMP_FILTER", "not there");
    else if (!most)
        set_ok(f, "there");
    else
        set_finding(
            f, used > most / 4 * 3 ? VERDICT_WARN : VERDICT_OK,
            used > most / 4 * 3
                ? "raise the sysctl net.core.bpf_jit_limit, or find the program that loads filters"
                : "",
            "there; machine code of filters: %lluM of %lluM (net.core.bpf_jit_limit)", used >> 20,
            most >> 20);
}

/* The group we are in, below a hierarchy. Line "0::/path" for v2. */
static bool own_group_writable(void)
{
    AUTO_FREE char *line = NULL;
    FILE *file = fopen("/proc/self/cgroup", "re");
    char path[4096];
    size_t cap = 0;
    bool writable = false;

    while (file && getline(&line, &cap, file) > 0)
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = '\0';
            writable = snprintf(path, sizeof path, "/sys/fs/cgroup%s/cgroup.procs", line + 3) <
                           (int)sizeof path &&
                       access(path, W_OK) == 0;
        }
    if (file)
        fclose(file);
    return writable;
}

static void check_cgroups(const struct api_call *like, struct doctor_finding *f)
{
    char controllers[TEXT];
    bool v2, v1 = access("/sys/fs/cgroup/memory", F_OK) == 0;

    read_first_line("/sys/fs/cgroup/cgroup.controllers", controllers);
    v2 = strstr(controllers, "memory") && strstr(controllers, "pids");
    if (!v2 && !v1)
        set_finding(f, VERDICT_WARN, "mount cgroup2 on /sys/fs/cgroup",
                    "no memory or process limits");
    else if (geteuid() == 0)
        set_ok(f, "version %d: sandboxes and their owners are limited%s", v2 ? 2 : 1,
               v2 && strstr(controllers, "io") ? "" : ", but not in io");
    else if (v2 && own_group_writable())
        set_ok(f, "version 2, delegated: limits of sandboxes and of owners are enforced");
    else
        set_finding(f, VERDICT_WARN, "systemd-run --user --scope -p Delegate=yes …, or run as root",
                    "not delegated to this user: memory and cpu limits are not enforced");
}

static void check_out_of_memory(const struct api_call *like, struct doctor_finding *f)
{
    if (caps_permitted() & CAP_BIT(CAP_SYS_RESOURCE))
        set_ok(f, "programs are killed first; they cannot change that");
    else
        set_ok(f, "programs are killed first, unless they lower their score to 0: this user lacks "
                  "CAP_SYS_RESOURCE");
}

static void check_programs(const struct api_call *like, struct doctor_finding *f)
{
    static const char *const ours[] = { "sandboxer-launch", "sandboxer-init" };
    static const char *const daemons[] = { "sandboxer-egress", "sandboxer-layers",
                                           "sandboxer-fetch" };
    char path[4096];
    struct err e;

    set_ok(f, "all there");
    for (size_t i = 0; i < COUNT_OF(ours); i++)
        if (spawn_find(ours[i], path, sizeof path, &e) < 0)
            set_finding(f, VERDICT_FAIL, "install the package again", "%.*s", TEXT - 1, e.msg);
    if (f->verdict == VERDICT_OK && daemon_find(path, sizeof path, &e) < 0)
        set_finding(f, VERDICT_WARN,
                    "install the package again; 'run' and 'canary' work without it",
                    "sandboxerd is not there");
    for (size_t i = 0; f->verdict == VERDICT_OK && i < COUNT_OF(daemons); i++)
        if (spawn_find(daemons[i], path, sizeof path, &e) < 0)
            set_finding(f, VERDICT_WARN, "install the package again; the daemon needs it", "%.*s",
                        TEXT - 1, e.msg);
}

static void check_state_directory(const struct api_call *like, struct doctor_finding *f)
{
    AUTO_CLOSE int dir = -1;
    struct statvfs space;
    char path[4096], shown[24];
    uint64_t left;
    struct err e;

    if (state_dir_path(path, sizeof path, &e) >= 0 && access(path, F_OK) < 0 && errno == ENOENT) {
        set_ok(f, "%.150s does not exist yet", path);
        return;
    }
    if (state_dir_path(path, sizeof path, &e) < 0 || state_dir_open(&dir, &e) < 0) {
        set_finding(f, VERDICT_FAIL,
                    "change its owner to this user (chown), or set SANDBOXER_STATE", "%.*s",
                    TEXT - 1, e.msg);
        return;
    }
    left = fstatvfs(dir, &space) < 0 ? 0 : (uint64_t)space.f_bavail * space.f_frsize;
    units_show_bytes(left >> 20 << 20, shown);
    if (left < LITTLE_SPACE)
        set_finding(f, left < NO_SPACE ? VERDICT_FAIL : VERDICT_WARN, "make room there",
                    "%.150s: only %s free", path, shown);
    else
        set_ok(f, "%.150s: %s free", path, shown);
}

static void prepare_daemon_call(const struct api_call *like, struct api_call *c, const char *path)
{
    api_call_init(c, like->verb, like->common, "GET");
    buf_add(&c->target, str_from(path));
    c->start = CONTACT_ONLY;
    c->patience = DAEMON_PATIENCE;
}

static void check_daemon(const struct api_call *like, struct doctor_finding *f)
{
    AUTO(api_call_done) struct api_call c;
    struct str version;
    struct err e = { 0 };

    prepare_daemon_call(like, &c, "/version");
    if (api_call_answers(&c, &e)) {
        version = show_string(c.answer, "version");
        if (str_eq(version, str_from(SANDBOXER_VERSION)))
            set_ok(f, "version " STR_FMT " runs", STR_ARG(version));
        else
            set_finding(f, VERDICT_WARN, "restart the daemon", "runs in version %.*s, this is %s",
                        version.n < 40 ? (int)version.n : 40, version.p ? version.p : "",
                        SANDBOXER_VERSION);
    } else if (e.code == ERR_NOT_FOUND && !c.contact.place.tcp) {
        if (daemon_check(&e) < 0)
            set_finding(f, VERDICT_FAIL, "mend that, or name another place or configuration",
                        "does not run, and cannot start: %.*s", TEXT - 50, e.msg);
        else
            set_ok(f, "does not run; it is started when it is needed");
    } else {
        set_finding(f, VERDICT_FAIL, "'sandboxer help --man' lists the addresses that are tried",
                    "%.*s", TEXT - 1, e.msg);
    }
}

/* The reason why a restricted endpoint gave no answer. */
static const char *why_silent(const struct api_call *c)
{
    if (!c->head)
        return c->contact.place.tcp ? "does not answer" : "does not run";
    if (c->head->status == 401)
        return "needs a token (SANDBOXER_TOKEN)";
    return c->head->status == 403 ? "visible to administrators only" : "answers with an error";
}

static void check_profiles(const struct api_call *like, struct doctor_finding *f)
{
    AUTO(api_call_done) struct api_call c;
    static const struct answer_kind kind = { .rows = "profiles" };
    const struct json *rows;
    unsigned n = 0, good = 0;

    prepare_daemon_call(like, &c, "/v1/profiles");
    if (!api_call_answers(&c, NULL)) {
        set_ok(f, "not looked at: the daemon %s", why_silent(&c));
        return;
    }
    rows = answer_rows(c.answer, &kind);
    for (const struct json *row = json_first(rows); row != json_end(rows); row++, n++)
        good += show_true(row, "available");
    if (good)
        set_ok(f,
               good == n ? "%u can be used here"
                         : "%u can be used here, %u are for backends that this build lacks",
               good, n - good);
    else
        set_finding(f, VERDICT_WARN, "'sandboxer profiles list --all' shows the reasons",
                    "none of %u can be used here", n);
}

/* Where sandboxes write to is the daemon's choice. */
static void check_storage(const struct api_call *like, struct doctor_finding *f)
{
    AUTO(api_call_done) struct api_call c;
    struct str driver, why;
    int64_t share;

    prepare_daemon_call(like, &c, "/v1/inspect/host");
    if (!api_call_answers(&c, NULL)) {
        set_ok(f, "not looked at: the daemon %s", why_silent(&c));
        return;
    }
    driver = show_string(c.answer, "storage_driver");
    why = show_string(c.answer, "storage_why");
    share = show_int(c.answer, "storage_owner_bytes", 0);
    if (show_at(c.answer, "storage_limited") && !show_true(c.answer, "storage_limited"))
        set_finding(f, VERDICT_WARN, "see storage.driver in docs/snapshots.md",
                    STR_FMT ": " STR_FMT, STR_ARG(driver), STR_ARG(why));
    else if (str_eq(driver, STR("memory")))
        set_ok(f, STR_FMT ": " STR_FMT, STR_ARG(driver), STR_ARG(why));
    else
        set_ok(f, STR_FMT ": " STR_FMT "; %lld MiB for each owner", STR_ARG(driver), STR_ARG(why),
               (long long)(share >> 20));
}

/* Adds ", name" to a list of names. */
static void list_name(char list[static TEXT], const char *name)
{
    size_t n = strlen(list);

    snprintf(list + n, TEXT - n, "%s%s", n ? ", " : "", name);
}

static void check_side_channels(const struct api_call *like, struct doctor_finding *f)
{
    char closed[TEXT] = "", open[TEXT] = "";

    for (size_t i = 0; i < side_channel_count; i++)
        switch (side_channels[i].probe()) {
        case SIDE_CHANNEL_CLOSED:
            list_name(closed, side_channels[i].name);
            break;
        case SIDE_CHANNEL_NONE:
            break;
        default:
            list_name(open, side_channels[i].name);
        }
    if (open[0])
        set_finding(
            f, VERDICT_WARN,
            "newer kernel or microcode, mitigations= of the kernel's command line; or a machine "
            "per tenant",
            "can be closed: %.90s; cannot: %.90s", closed, open);
    else
        set_ok(f, "can be closed: %.200s", closed);
}

/* The cgroup BPF filter with which root's daemon keeps egress workers from loopback and metadata
 * services. */
static void check_gate(const struct api_call *like, struct doctor_finding *f)
{
    struct cgroup_host host;
    bool v2;
    struct err e;

    if (geteuid() != 0) {
        set_finding(
            f, VERDICT_WARN, "run the daemon as root",
            "not there: only root can load BPF programs; egress workers check by themselves");
        return;
    }
    cgroup_host_open(&host, "/sys/fs/cgroup", NULL);
    v2 = host.unified >= 0;
    cgroup_host_done(&host);
    if (!v2)
        set_finding(
            f, VERDICT_WARN, "mount cgroup2 on /sys/fs/cgroup/unified",
            "not there: no cgroup v2 that can be written; egress workers check by themselves");
    else if (gate_probe(&e) < 0)
        set_finding(f, VERDICT_WARN,
                    "boot a kernel with CONFIG_CGROUP_BPF; keep CAP_BPF and CAP_NET_ADMIN",
                    "not there: %.150s", e.msg);
    else
        set_ok(f, "egress workers connect to public and granted addresses alone");
}

static const struct doctor_check {
    const char *name;
    void (*run)(const struct api_call *like, struct doctor_finding *f);
} checks[] = {
    { "kernel", check_kernel },     { "user namespaces", check_user_namespaces },
    { "landlock", check_landlock }, { "seccomp", check_seccomp },
    { "cgroups", check_cgroups },   { "out of memory", check_out_of_memory },
    { "programs", check_programs }, { "state", check_state_directory },
    { "daemon", check_daemon },     { "profiles", check_profiles },
    { "storage", check_storage },   { "side channels", check_side_channels },
    { "egress gate", check_gate },
};

static const struct column columns[] = {
    COLUMN("", "state", .state = true),
    COLUMN("CHECK", "check"),
    COLUMN("FOUND", "found"),
    COLUMN("WHAT TO DO", "todo"),
};
static const struct answer_kind kind = KIND("checks", "check", columns);

/* Runs them all; the number of failures. */
static int run_doctor_checks(const struct api_call *like, struct json_writer *w)
{
    static const char *const verdicts[] = { "ok", "warn", "fail" };
    int failures = 0;

    json_begin_object(w);
    json_field_begin_array(w, "checks");
    for (size_t i = 0; i < COUNT_OF(checks); i++) {
        struct doctor_finding f = { .verdict = VERDICT_FAIL };

        checks[i].run(like, &f);
        failures += f.verdict == VERDICT_FAIL;
        json_begin_object(w);
        body_text(w, "check", checks[i].name);
        body_text(w, "state", verdicts[f.verdict]);
        json_field_text(w, "found", f.what);
        body_text(w, "todo", f.todo[0] ? f.todo : NULL);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
    return failures;
}

static int run_doctor(struct api_call *c, void *options, int argc, char **argv)
{
    AUTO(buf_done) struct buf text = BUF_INIT(DOCUMENT);
    struct json_writer w;
    struct err e;
    int status, failures;

    json_writer_init(&w, &text, JSON_COMPACT);
    failures = run_doctor_checks(c, &w);
    if (json_writer_finish(&w, &e) < 0 || api_call_read_json(c, buf_str(&text), &c->answer, &e) < 0)
        return api_call_failed(c, &e);
    status = answer_list(c, c->answer, &kind);
    return status ? status : failures ? EXIT_REPORTED : 0;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .summary = "check this machine's features, and suggest fixes for missing ones",
    .text = "Starts nothing and changes nothing. Exit status 1 if something does not work.\n"
            "\n"
            "  sandboxer doctor\n"
            "  sandboxer doctor -o json | jq '.checks[] | select(.state != \"ok\")'\n",
    .run = run_doctor,
    .flags = VERB_ASKS,
};
