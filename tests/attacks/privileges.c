/* SPDX-License-Identifier: Apache-2.0 */
/* Privileges: those the process has, and those it may get through ids, capabilities or
 * namespaces. */
#include "attacks/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* ---- what /proc/self/status says ---- */

struct field {
    const char *name, *want;
};

static bool status_field(const char *name, char *out, size_t size)
{
    static char text[8192];
    const char *at = text;
    size_t n = strlen(name);

    if (slurp("/proc/self/status", text, sizeof text) <= 0)
        return false;
    for (; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, name, n) == 0 && at[n] == ':') {
            at += n + 1 + strspn(at + n + 1, "\t ");
            snprintf(out, size, "%.*s", (int)strcspn(at, "\n"), at);
            return true;
        }
    }
    return false;
}

static enum verdict status_is(const void *with)
{
    const struct field *f = with;
    char got[256];

    if (!status_field(f->name, got, sizeof got))
        return escaped("/proc/self/status has no %s", f->name);
    return strcmp(got, f->want) == 0 ? held("%s", got)
                                     : escaped("%s is %s, not %s", f->name, got, f->want);
}

static enum verdict no_groups(const void *with)
{
    gid_t groups[64];
    int n = getgroups(64, groups);

    for (int i = 0; i < n; i++)
        if (groups[i] != getegid())
            return escaped("supplementary group %u", groups[i]);
    return held("none");
}

/* ---- ids and capabilities ---- */

static enum verdict capset_all(const void *with)
{
    struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct all[2] = { { 1u << CAP_SYS_ADMIN, 1u << CAP_SYS_ADMIN, 0 },
                                             { 0 } };

    return refused(syscall(SYS_capset, &h, all), "capset of SYS_ADMIN");
}

static enum verdict ambient(const void *with)
{
    for (unsigned long cap = 0; cap <= CAP_LAST_CAP; cap++)
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) == 0)
            return escaped("capability %lu became ambient", cap);
    return errno == EPERM || errno == EINVAL ? held("%s", strerror(errno))
                                             : escaped("%s", strerror(errno));
}

static enum verdict secure_bits(const void *with)
{
    return refused(prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS, 0, 0, 0), "PR_SET_SECUREBITS");
}

static enum verdict drop_bounding(const void *with)
{
    return refused(prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0), "PR_CAPBSET_DROP");
}

static enum verdict unset_no_new_privs(const void *with)
{
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return escaped("no_new_privs is not set");
    return prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 ? escaped("cleared")
                                                       : held("%s", strerror(errno));
}

/* Any id but our own; EINVAL: the namespace has no such id. */
static enum verdict other_id(const void *with)
{
    uid_t id = *(const uid_t *)with;

    if (id == geteuid())
        return not_applicable("that is who we are");
    if (setresuid(id, id, id) == 0)
        return escaped("became user %u", id);
    if (errno != EPERM && errno != EINVAL)
        return escaped("setresuid(%u): %s", id, strerror(errno));
    if (setresgid(id, id, id) == 0)
        return escaped("became group %u", id);
    return held("%s", strerror(errno));
}

static enum verdict set_groups(const void *with)
{
    gid_t group = 0;

    return refused(setgroups(1, &group), "setgroups");
}

static enum verdict write_map(const void *with)
{
    int fd = open(with, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return held("%s", strerror(errno));
    return refused(write(fd, "0 0 1\n", 6), "%s", (const char *)with);
}

static enum verdict whole_id_range(const void *with)
{
    char text[256];
    unsigned inside, outside, n;

    if (slurp(with, text, sizeof text) <= 0)
        return escaped("%s: %s", (const char *)with, strerror(errno));
    if (sscanf(text, "%u %u %u", &inside, &outside, &n) != 3)
        return escaped("%s is '%s'", (const char *)with, text);
    return n > 65536 ? escaped("the initial user namespace") : held("%u ids from %u", n, outside);
}

/* ---- namespaces ---- */

struct namespace
{
    const char *name;
    int flag;
};

static enum verdict unshare_one(const void *with)
{
    const struct namespace *ns = with;

    return refused(unshare(ns->flag), "unshare(%s)", ns->name);
}

static enum verdict clone_one(const void *with)
{
    const struct namespace *ns = with;
    long pid = syscall(SYS_clone, (long)ns->flag | SIGCHLD, 0, 0, 0, 0);

    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return refused(pid, "clone(%s)", ns->name);
}

static enum verdict setns_one(const void *with)
{
    const struct namespace *ns = with;
    char path[64];
    int fd;

    snprintf(path, sizeof path, "/proc/self/ns/%s", ns->name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return held("%s: %s", path, strerror(errno));
    return refused(setns(fd, 0), "setns(%s)", ns->name);
}

/* Everything at once by a pidfd: even into where we are it must be refused. */
static enum verdict setns_pidfd(const void *with)
{
    int pidfd = (int)syscall(SYS_pidfd_open, *(const int *)with ? *(const int *)with : getpid(), 0);

    if (pidfd < 0)
        return held("pidfd_open: %s", strerror(errno));
    return refused(setns(pidfd, CLONE_NEWUTS), "setns of a pidfd");
}

/* "ESCAPE_NS_net=4026531840" and so on: the host's. */
static enum verdict another_namespace(const void *with)
{
    const struct namespace *ns = with;
    char path[64], name[64];
    const char *host;
    struct stat st;

    snprintf(name, sizeof name, "ESCAPE_NS_%s", ns->name);
    snprintf(path, sizeof path, "/proc/self/ns/%s", ns->name);
    host = fact(name);
    if (!host)
        return not_applicable("%s is not set", name);
    if (stat(path, &st) < 0)
        return escaped("%s: %s", path, strerror(errno));
    return st.st_ino == strtoull(host, NULL, 10) ? escaped("it is the host's")
                                                 : held("it is another");
}

static enum verdict another_hostname(const void *with)
{
    const char *host = fact("ESCAPE_HOSTNAME");
    char name[256] = "";

    if (!host)
        return not_applicable("ESCAPE_HOSTNAME is not set");
    if (gethostname(name, sizeof name - 1) < 0)
        return escaped("%s", strerror(errno));
    return strcmp(name, host) == 0 ? escaped("it is the host's") : held("%s", name);
}

/* ---- limits ---- */

static enum verdict no_core_files(const void *with)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_CORE, &limit) < 0)
        return escaped("%s", strerror(errno));
    return limit.rlim_max > 1 ? escaped("RLIMIT_CORE is %llu", (unsigned long long)limit.rlim_max)
                              : held("%llu", (unsigned long long)limit.rlim_max);
}

static enum verdict raise_limit(const void *with)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return escaped("%s", strerror(errno));
    limit.rlim_max++;
    return refused(setrlimit(RLIMIT_NOFILE, &limit), "raising a hard limit");
}

/* ---- control groups ---- */

static enum verdict cgroup_paths(const void *with)
{
    static char text[8192];
    char *rest = text, *line;

    if (slurp("/proc/self/cgroup", text, sizeof text) < 0)
        return held("/proc/self/cgroup: %s", strerror(errno));
    while ((line = strsep(&rest, "\n"))) {
        const char *path = strrchr(line, ':');

        if (path && strcmp(path + 1, "/") != 0)
            return escaped("in %s", line);
    }
    return held("at the top of its own");
}

static enum verdict cgroup_writes(const void *with)
{
    static const char *const files[] = {
        "/sys/fs/cgroup/cgroup.procs",         "/sys/fs/cgroup/memory/tasks",
        "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/unified/cgroup.procs",
        "/sys/fs/cgroup/pids/tasks",           "/sys/fs/cgroup/devices/devices.allow",
    };

    for (size_t i = 0; i < COUNT(files); i++)
        if (open(files[i], O_WRONLY | O_CLOEXEC) >= 0)
            return escaped("%s opens for writing", files[i]);
    return held("%s", strerror(errno));
}

#define STATUS(field_, want_)                                                                      \
    {                                                                                              \
        "privileges: " field_ " is " want_, status_is, &(const struct field){ field_, want_ },     \
            SEEN                                                                                   \
    }
#define NONE "0000000000000000"
#define NAMESPACE(name, flag)                                                                      \
    { "privileges: unshare " name, unshare_one, &(const struct namespace){ name, flag }, SEEN },   \
        { "privileges: clone with a new " name, clone_one,                                         \
          &(const struct namespace){ name, flag }, SEEN },                                         \
    {                                                                                              \
        "privileges: setns " name, setns_one, &(const struct namespace){ name, flag },             \
            (flag) == CLONE_NEWUSER ? UNSEEN : SEEN                                                \
    }

/* A rehearsal has its own mount, pid and uts namespaces already. */
#define HOST_NS(name, seen)                                                                        \
    {                                                                                              \
        "privileges: the " name " namespace is not the host's", another_namespace,                 \
            &(const struct namespace){ name, 0 }, seen                                             \
    }

static const uid_t root = 0, nobody = 65534, first = 1, user = 1000, far = 100000;
static const int self = 0, init = 1;

static const struct attack attacks[] = {
    STATUS("CapEff", NONE),
    STATUS("CapPrm", NONE),
    STATUS("CapBnd", NONE),
    STATUS("CapInh", NONE),
    STATUS("CapAmb", NONE),
    STATUS("NoNewPrivs", "1"),
    STATUS("Seccomp", "2"),
    { "privileges: no supplementary groups", no_groups, NULL, SEEN },
    { "privileges: capset", capset_all, NULL, SEEN },
    { "privileges: ambient capabilities", ambient, NULL, SEEN },
    { "privileges: secure bits", secure_bits, NULL, SEEN },
    { "privileges: dropping from the bounding set", drop_bounding, NULL, SEEN },
    { "privileges: clearing no_new_privs", unset_no_new_privs, NULL, UNSEEN }, /* nobody can */
    { "privileges: become user 0", other_id, &root, UNSEEN }, /* the rehearsal is 0 */
    { "privileges: become user 1", other_id, &first, SEEN },
    { "privileges: become user 1000", other_id, &user, SEEN },
    { "privileges: become nobody", other_id, &nobody, SEEN },
    { "privileges: become user 100000", other_id, &far, SEEN },
    { "privileges: setgroups", set_groups, NULL, SEEN },
    { "privileges: another uid_map", write_map, "/proc/self/uid_map", UNSEEN }, /* written once */
    { "privileges: another gid_map", write_map, "/proc/self/gid_map", UNSEEN },
    { "privileges: uid_map is a small range", whole_id_range, "/proc/self/uid_map", SEEN },
    { "privileges: gid_map is a small range", whole_id_range, "/proc/self/gid_map", SEEN },
    NAMESPACE("mnt", CLONE_NEWNS),
    NAMESPACE("uts", CLONE_NEWUTS),
    NAMESPACE("ipc", CLONE_NEWIPC),
    NAMESPACE("user", CLONE_NEWUSER),
    NAMESPACE("pid", CLONE_NEWPID),
    NAMESPACE("net", CLONE_NEWNET),
    NAMESPACE("cgroup", CLONE_NEWCGROUP),
    { "privileges: unshare time", unshare_one, &(const struct namespace){ "time", CLONE_NEWTIME },
      SEEN },
    { "privileges: unshare user and mnt", unshare_one,
      &(const struct namespace){ "user and mnt", CLONE_NEWUSER | CLONE_NEWNS }, SEEN },
    { "privileges: setns by pidfd of ourselves", setns_pidfd, &self, SEEN },
    { "privileges: setns by pidfd of PID 1", setns_pidfd, &init, SEEN },
    HOST_NS("user", SEEN),
    HOST_NS("mnt", UNSEEN),
    HOST_NS("pid", UNSEEN),
    HOST_NS("net", SEEN),
    HOST_NS("ipc", SEEN),
    HOST_NS("uts", UNSEEN),
    HOST_NS("cgroup", SEEN),
    { "privileges: the host's name", another_hostname, NULL, UNSEEN },
    { "privileges: core files", no_core_files, NULL, UNSEEN }, /* as the caller's limit is */
    { "privileges: raising a hard limit", raise_limit, NULL, UNSEEN },         /* needs RESOURCE */
    { "privileges: place in the control groups", cgroup_paths, NULL, UNSEEN }, /* may be the top */
    { "privileges: control group files for writing", cgroup_writes, NULL, SEEN },
};

const struct attack_group attacks_privileges = GROUP(attacks);
