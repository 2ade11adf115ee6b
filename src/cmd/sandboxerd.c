/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon: reads its configuration, opens what needs the rights it was started with, then splits
 * into the monitor, which keeps them, and the control plane, which gives them up. */
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/agent_recipes.h"
#include "daemon/certificate.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/own.h"
#include "domain/config/annotate.h"
#include "daemon/client.h"
#include "daemon/listen.h"
#include "daemon/log_file.h"
#include "daemon/nosuid.h"
#include "daemon/options.h"
#include "daemon/privilege.h"
#include "daemon/secrets_key.h"
#include "daemon/serve.h"
#include "daemon/start_check.h"
#include "daemon/state.h"
#include "daemon/share_keeper.h"
#include "daemon/volume.h"
#include "daemon/volume_grow.h"
#include "daemon/monitor.h"
#include "lib/gate/gate.h"
#include "lib/ipc/channel.h"
#include "lib/proc/caps.h"
#include "lib/proc/oom.h"
#include "domain/profile/dirs.h"
#include "engine/runtime/cgroup.h"
#include "engine/runtime/plan.h"
#include "engine/storage/driver.h"

enum { EXIT_BUSY = 75, OWNER_PART = 4 /* of the disk, unless configured */ };

struct daemon {
    struct daemon_options options;
    bool background; /* the parent process waits for a report, and prints it */
    struct arena arena;
    struct config config;
    struct certificate certificate;
    struct identity_choice who;
    struct doors doors;
    int state;
    int storage;
    int grants; /* workspaces that clients granted: the monitor's */
    struct client_doors unix_doors;
    struct volume volume;
    struct volume_growth growth;
    struct nosuid nosuid;
    struct driver_choice driver;
    uint64_t share; /* bytes of the storage that the boxes of one owner may use */
    struct share_keeper share_keeper;
    struct companion companions[2];
    uid_t owner;
    const char *roots[PLAN_ROOTS_MAX + 1];
    char tag[CGROUP_TAG_MAX];
    char store[PATH_MAX];
    struct launcher_options launcher;
    struct json_strs profiles;
    struct keyring *keys;
    struct gate gate; /* the monitor's */
};

static int report_start_failure(const struct daemon *d, int r, const struct err *e)
{
    if (!d->background)
        fprintf(stderr, "sandboxerd: %s\n", e->msg);
    serve_report(d->options.ready_fd, e->msg);
    return r == -(int)ERR_BUSY ? EXIT_BUSY : 1;
}

static int load_config(struct daemon *d, struct err *e)
{
    int r = config_load(d->options.config, &d->config, &d->arena, e);

    d->config.listen_unencrypted |= d->options.listen_unencrypted;
    if (r >= 0 && d->options.listen) {
        d->config.listen = d->options.listen;
        r = config_address_read(str_from(d->options.listen), &d->config.address, e);
        if (r >= 0)
            r = config_listen_check(&d->config, &d->config.address, e);
        err_wrap(e, r, "--listen");
        if (r >= 0)
            r = err_wrap(e, config_self_approval_check(&d->config, e), "trust.self_approval");
    }
    return r;
}

static int print_config(const struct daemon *d)
{
    struct buf text AUTO(buf_done) = BUF_INIT(1 << 20);
    struct err e;
    int r = start_check(&d->config, &e);

    if (r >= 0)
        r = config_write(&d->config, CONFIG_YAML, &text, &e);
    if (r < 0) {
        report_start_failure(d, r, &e);
        return 1;
    }
    fwrite(text.p, 1, text.n, stdout);
    return 0;
}

/* --show-config and --default-config: neither needs a daemon that could start. */
static int print_config_text(struct daemon *d)
{
    struct buf yaml AUTO(buf_done) = BUF_INIT(1 << 20), text AUTO(buf_done) = BUF_INIT(2 << 20);
    struct err e;
    int r = 0;

    if (d->options.default_config) {
        r = config_write_defaults(&text, &d->arena, &e);
    } else {
        r = config_write(&d->config, CONFIG_YAML, &yaml, &e);
        if (r >= 0)
            r = config_annotate(d->options.config, buf_str(&yaml), &text, &d->arena, &e);
    }
    if (r < 0)
        return report_start_failure(d, r, &e);
    fwrite(text.p, 1, text.n, stdout);
    return 0;
}

/* --agents: needs neither a configuration nor a daemon that could start. */
static int print_agents(const struct daemon *d)
{
    struct buf text AUTO(buf_done) = BUF_INIT(AGENT_RECIPES_BYTES);
    struct err e;
    int r = agent_recipes_write(&text, &e);

    if (r < 0)
        return report_start_failure(d, r, &e);
    fwrite(text.p, 1, text.n, stdout);
    return 0;
}

/* Roots below which requests to root's daemon may name directories, with the rights of the
 * requesting user: only those that the operator configures, because every default directory belongs
 * to root. The sandboxer command passes descriptors and needs no root. A plain user's daemon has
 * that user's rights and is limited to roots only if some are configured. */
static int set_launcher(struct daemon *d, struct err *e)
{
    const struct json_strs *roots = &d->config.workspaces.roots;

    if (roots->n > PLAN_ROOTS_MAX)
        return err_set(e, ERR_TOO_BIG, "workspaces.roots: more than %d", PLAN_ROOTS_MAX);
    for (size_t i = 0; i < roots->n; i++)
        d->roots[i] = roots->p[i];
    d->launcher = (struct launcher_options){
        .untrusted = d->owner != d->who.uid,
        .roots = d->roots,
        .n_roots = roots->n,
        .store = d->store,
        .tag = d->tag,
    };
    if (snprintf(d->store, sizeof d->store, "%s/storage", d->config.state) >= (int)sizeof d->store)
        return err_set(e, ERR_TOO_BIG, "state: the path has more than %zu bytes",
                       sizeof d->store - sizeof "/storage");
    return 0;
}

/* Sandboxes of this state directory, and of no other one on the machine. Groups do not outlive the
 * machine, nor need this name. */
static int set_tag(struct daemon *d, struct err *e)
{
    struct stat st;

    if (fstat(d->state, &st) < 0)
        return err_sys(e, "checking the state directory");
    snprintf(d->tag, sizeof d->tag, "%llx.%llx", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    return cgroup_tag_valid(d->tag) ? 0 : err_set(e, ERR_BUG, "the tag '%s'", d->tag);
}

static struct volume_room volume_room_of(const struct daemon *d)
{
    return (struct volume_room){ .size = d->config.storage.size,
                                 .free_min = d->config.images.free_min };
}

/* For "auto", where the file system of the state directory supports only the memory driver. Layers
 * that are stored there already must stay visible: then the driver remains memory. */
static int try_volume(struct daemon *d, const char **ret_name, struct err *why)
{
    const struct volume_room room = volume_room_of(d);
    struct driver_choice c;
    struct statfs fs;
    int r = driver_choose("auto", d->storage, &c, why);

    if (r < 0 || c.driver->on_disk || geteuid() != 0)
        return r;
    if (fstatfs(d->storage, &fs) < 0 ||
        ((uint32_t)fs.f_type != EXT4_SUPER_MAGIC && (uint32_t)fs.f_type != XFS_SUPER_MAGIC))
        return err_set(why, ERR_UNSUPPORTED, "a btrfs in a file is for ext4 and xfs");
    r = volume_open(&d->volume, d->config.state, &room, why);
    if (r >= 0)
        *ret_name = "btrfs";
    return r;
}

/* Opens the volume if one exists or is configured. `why`: why "auto" did without it. */
static int choose_volume(struct daemon *d, const char **name, struct err *why, struct err *e)
{
    const struct volume_room room = volume_room_of(d);
    bool is_auto = strcmp(*name, "auto") == 0, exists = volume_exists(d->config.state);
    int r;

    why->msg[0] = '\0';
    if (strcmp(*name, "btrfs") == 0 || (exists && geteuid() == 0)) {
        r = volume_open(&d->volume, d->config.state, &room, e);
        if (r >= 0 && is_auto && d->volume.state)
            *name = "btrfs";
        return r;
    }
    r = is_auto ? try_volume(d, name, why) : 0;
    return r == -(int)ERR_BUSY ? err_set(e, ERR_BUSY, "%s", why->msg) : 0;
}

static void explain_auto(struct daemon *d, const struct err *why)
{
    struct driver_choice *c = &d->driver;

    char limits[sizeof c->why];

    snprintf(limits, sizeof limits, "%s", strstr(c->why, "; ") ? strstr(c->why, "; ") : "");
    if (d->volume.state)
        snprintf(c->why, sizeof c->why, "a btrfs in a file of the state directory%.140s", limits);
    else if (why->msg[0])
        snprintf(c->why, sizeof c->why, "no btrfs in a file: %.170s", why->msg);
}

static int choose_driver(struct daemon *d, struct err *e)
{
    const char *name = config_drivers[d->config.storage.driver];
    const struct volume_room room = volume_room_of(d);
    bool is_auto = strcmp(name, "auto") == 0;
    struct driver_choice *c = &d->driver;
    struct err why;
    int r = choose_volume(d, &name, &why, e);

    if (r >= 0)
        r = nosuid_mount(&d->nosuid, d->config.state, e);
    if (r >= 0 &&
        (d->volume.state || d->nosuid.state)) { /* the mounted file system, not the directory
                                                   below */
        drop_fd(&d->storage);
        r = state_open_own_part(d->config.state, "storage", &d->storage, e);
    }
    if (r >= 0)
        r = driver_choose(name, d->storage, c, e);
    if (r < 0)
        return r;
    if (is_auto)
        explain_auto(d, &why);
    d->share = d->config.limits.owner.disk
                   ? d->config.limits.owner.disk
                   : volume_capacity(&d->volume, d->storage, &room) / OWNER_PART;
    d->launcher.driver = c->driver->name;
    d->launcher.limited = c->driver->on_disk && c->limited;
    if (c->limited)
        LOG(INFO, "storage.driver", LOG_S("driver", c->driver->name), LOG_S("why", c->why));
    else
        LOG(WARN, "storage.driver", LOG_S("driver", c->driver->name), LOG_S("why", c->why));
    return 0;
}

static int open_daemon(struct daemon *d, struct err *e)
{
    /* Resolved with the rights and the environment of the starting user. */
    int r = dirs_list(d->config.profiles.dirs, &d->arena, &d->profiles, e);

    if (r >= 0)
        r = start_check(&d->config, e);
    if (r >= 0)
        r = privilege_choose(d->config.user, &d->who, e);
    if (r >= 0)
        r = set_launcher(d, e);
    if (r >= 0)
        r = state_open(d->config.state, &d->who, &d->state, e);
    if (r >= 0)
        r = state_open_own_part(d->config.state, "storage", &d->storage, e);
    if (r >= 0)
        r = state_open_own_part(d->config.state, "grants", &d->grants, e);
    if (r >= 0)
        r = choose_driver(d, e);
    if (r >= 0)
        r = set_tag(d, e);
    if (r >= 0)
        r = doors_open(&d->config, &d->doors, e);
    d->config.inherited_open = d->doors.inherited_open;
    if (r >= 0) /* again, with inherited sockets */
        r = err_wrap(e, config_self_approval_check(&d->config, e), "trust.self_approval");
    if (r >= 0)
        r = certificate_load(&d->config, &d->certificate, e);
    if (r >= 0)
        r = secrets_key_load(&d->config, &d->who, &d->keys, e);
    return r;
}

/* Takes back what outlives a process: mounts, and the socket. */
static void close_daemon(struct daemon *d)
{
    for (size_t i = 0; i < COUNT_OF(d->companions); i++)
        companion_stop(&d->companions[i]);
    drop_fd(&d->storage);
    nosuid_unmount(&d->nosuid);
    volume_done(&d->volume);
    doors_remove(&d->doors);
}

static int abandon_start(struct daemon *d, int r, const struct err *e)
{
    close_daemon(d);
    return report_start_failure(d, r, e);
}

/* A socket that was inherited, or one for notifications, is systemd's. */
static enum daemon_starter find_starter(const struct daemon *d)
{
    if (d->options.on_demand)
        return STARTED_ON_DEMAND;
    return getenv("NOTIFY_SOCKET") || !d->doors.path[0] ? STARTED_BY_SYSTEMD : STARTED_BY_HAND;
}

/* The control plane's process. */
static int control_plane(struct daemon *d, int monitor, pid_t parent)
{
    char log[PATH_MAX];
    const struct serve_setup setup = {
        .config = &d->config,
        .chain = buf_str(&d->certificate.chain),
        .key = buf_str(&d->certificate.key),
        .doors = &d->doors,
        .state = d->state,
        .monitor = monitor,
        .ready_fd = d->options.ready_fd,
        .owner = d->owner,
        .launcher = d->launcher,
        .profiles = d->profiles,
        .keys = d->keys,
        .starter = find_starter(d),
        .listen_option = d->options.listen,
        .log = log_file_is_stderr(d->config.state) &&
                       log_file_path(d->config.state, false, log, sizeof log)
                   ? log
                   : NULL,
        .storage = { .driver = d->driver.driver->name,
                     .why = d->driver.why,
                     .on_disk = d->driver.driver->on_disk,
                     .limited = d->driver.limited,
                     .free_min = d->volume.state ? VOLUME_FREE_MIN : d->config.images.free_min,
                     .owner_bytes = d->share }
    };
    struct err e;
    int r = privilege_drop(&d->who, &e);

    /* After the change of user, which forgets it; and if the monitor was faster, it is too late. */
    if (r >= 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        r = err_sys(&e, "binding the control plane to the monitor's life");
    if (r < 0)
        return report_start_failure(d, r, &e);
    if (getppid() != parent)
        return 1;
    return serve_run(&setup);
}

/* Without it, egress workers run all the same: they check destinations by themselves. */
static void open_gate(struct daemon *d)
{
    struct cgroup_host host;
    struct err e;
    int r;

    if (geteuid() == 0) {
        cgroup_host_open(&host, "/sys/fs/cgroup", NULL);
        r = gate_open(&d->gate, host.unified, d->tag, &e);
        cgroup_host_done(&host);
    } else {
        r = err_set(&e, ERR_UNSUPPORTED, "the daemon does not run as root");
    }
    if (r < 0)
        LOG(WARN, "egress.unfiltered", LOG_S("reason", e.msg));
    else
        LOG(INFO, "egress.filtered", LOG_S("groups", d->gate.prefix));
}

/* The control plane may serve before the monitor listens to signals: they wait for it, in both
 * processes, and end neither by default. */
static void hold_signals(void)
{
    sigset_t held;

    sigemptyset(&held);
    sigaddset(&held, SIGTERM);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGHUP);
    sigprocmask(SIG_BLOCK, &held, NULL);
}

/* Without the first, a volume is as large as it is; without the second, only the limit of each sandbox
 * holds. */
static void start_companions(struct daemon *d)
{
    bool shared = d->launcher.limited && d->driver.driver->charge;

    d->growth = (struct volume_growth){ &d->volume, d->storage, volume_room_of(d) };
    d->companions[0] = (struct companion){ .fork = volume_grow_fork,
                                           .owner = &d->growth,
                                           .failed_event = "storage.not_grown",
                                           .ended_event = "storage.grower_ended" };
    d->share_keeper = (struct share_keeper){ d->storage, shared ? d->share : 0 };
    d->companions[1] = (struct companion){ .fork = share_keeper_fork,
                                           .owner = &d->share_keeper,
                                           .failed_event = "storage.not_shared",
                                           .ended_event = "storage.share_keeper_ended" };
    for (size_t i = 0; i < COUNT_OF(d->companions); i++)
        companion_start(&d->companions[i]);
}

static int split_monitor(struct daemon *d)
{
    pid_t self = getpid(), child;
    struct monitor_options options;
    struct err e;
    int pair[2], r = ipc_pair(pair, &e);

    if (r < 0)
        return abandon_start(d, r, &e);
    hold_signals();
    child = fork();
    if (child < 0) {
        r = err_sys(&e, "starting the control plane");
        return abandon_start(d, r, &e);
    }
    if (child == 0) {
        close(pair[1]);
        drop_fd(&d->storage); /* the control plane must not have the rights that it gives */
        close(d->grants);
        exit(control_plane(d, pair[0], self));
    }
    fault_point("daemon.split");
    close(pair[0]);
    certificate_done(&d->certificate);
    keyring_free(d->keys);
    for (size_t i = 0; i < d->doors.n; i++)
        client_doors_add(&d->unix_doors, d->doors.fd[i]);
    doors_close_fds(&d->doors);
    close(d->state);
    if (d->options.ready_fd >= 0)
        close(d->options.ready_fd);
    options = (struct monitor_options){
        .launcher = d->launcher,
        .headers_file = d->config.hub.headers_file,
        .domain = &d->config,
        .worker = { .who = privilege_choose_program("sandboxer-egress", PRIVILEGE_EGRESS_UID),
                    .resolvers = d->config.egress.resolvers,
                    .upstream = d->config.egress.upstream },
        .gate = &d->gate,
        .fetch = privilege_choose_program("sandboxer-fetch", PRIVILEGE_FETCH_UID),
        .storage = d->storage,
        .grants = d->grants,
        .doors = d->unix_doors,
        .companions = d->companions,
        .n_companions = COUNT_OF(d->companions),
        .log_state = log_file_is_stderr(d->config.state) ? d->config.state : NULL,
    };
    open_gate(d);
    r = privilege_limit(&e);
    if (r < 0) {
        kill(child, SIGKILL);
        gate_close(&d->gate);
        return abandon_start(d, r, &e);
    }
    start_companions(d);
    r = monitor_run(pair[1], child, &options);
    gate_close(&d->gate);
    close_daemon(d); /* the control plane may not have the right to */
    return r;
}

/* Waits for the daemon's report: a line break, or the reason why it cannot serve. */
static int await_background_daemon(int fd, pid_t child)
{
    char text[512];
    ssize_t n = read(fd, text, sizeof text - 1);
    int status;

    if (n > 0 && text[0] == '\n')
        return 0;
    if (n > 0)
        fprintf(stderr, "sandboxerd: %.*s\n", (int)n, text);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Moves to the background once the daemon serves. True in the process that continues. */
static bool start_background_daemon(struct daemon *d, int *ret_status)
{
    int ready[2], null;
    pid_t child;

    if (pipe2(ready, O_CLOEXEC) < 0 || (child = fork()) < 0) {
        perror("sandboxerd: going to the background");
        *ret_status = 1;
        return false;
    }
    if (child > 0) {
        close(ready[1]);
        *ret_status = await_background_daemon(ready[0], child);
        return false;
    }
    close(ready[0]);
    d->options.ready_fd = ready[1];
    d->background = true;
    setsid();
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    return chdir("/") == 0;
}

/* Makes the kernel's out-of-memory killer prefer other processes. Needs the capability with which
 * launchers raise the floor again: workloads would inherit ours. */
static void guard_memory(void)
{
    struct err e;

    if (!(caps_permitted() & CAP_BIT(CAP_SYS_RESOURCE)))
        LOG(INFO, "daemon.oom_score_unchanged",
            LOG_S("reason", "CAP_SYS_RESOURCE is missing; start the daemon with it"));
    else if (oom_set(OOM_DAEMON, &e) < 0)
        LOG(WARN, "daemon.oom_score_unchanged", LOG_S("reason", e.msg));
}

int main(int argc, char **argv)
{
    static struct daemon d = { .arena = { .max = 1 << 20 },
                               .state = -1,
                               .storage = -1,
                               .grants = -1,
                               .volume = { .lock = -1 },
                               .nosuid = { .lock = -1 },
                               .doors = { .lock = -1, .tls = -1 },
                               .gate = GATE_CLOSED };
    struct err e;
    int status, r;

    if (!daemon_options_read(argc, argv, &d.options, &status))
        return status;
    d.owner = geteuid();
    if (d.options.ready_fd >= 0)
        fcntl(d.options.ready_fd, F_SETFD, FD_CLOEXEC);
    if (d.options.default_config)
        return print_config_text(&d);
    if (d.options.agents)
        return print_agents(&d);
    r = load_config(&d, &e);
    if (r < 0)
        return report_start_failure(&d, r, &e);
    if (d.options.show_config)
        return print_config_text(&d);
    if (d.options.check_config)
        return print_config(&d);
    log_setup(d.config.log.level, d.config.log.format);
    if (!d.options.foreground && d.options.ready_fd < 0 && !start_background_daemon(&d, &status))
        return status;
    r = open_daemon(&d, &e);
    if (r >= 0 && d.background)
        r = log_file_open(d.config.state, &e); /* nothing of the caller's is held open */
    if (r < 0)
        return abandon_start(&d, r, &e);
    guard_memory();
    return split_monitor(&d);
}
