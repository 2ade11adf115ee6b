/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded into sshd, and only there, inside a sandbox: makes it serve one user, the one it runs as,
 * without the privileges and accounts that a sandbox lacks.
 *
 * An sshd that runs as root wants a user `sshd`, a directory to lock its unprivileged half into,
 * and the right to change groups; an sshd of any user looks it up in /etc/passwd and /etc/shadow.
 * A sandbox may lack all of that: images without accounts, or with locked ones, and a plain user's
 * sandbox with a single identity. The sandbox is the boundary, not sshd, so it does without.
 *
 * Its programs begin as those of an exec do: in the directory and with the variables that sshd was
 * started with. Nothing here outlives the execve() of a session's program. */
#include "lib/ssh/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <shadow.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PRIVILEGE_USER "sshd" /* whom the unprivileged half would become */

enum { NOT_ROOT = 65534, VARIABLES_MAX = 4096 };

static struct {
    bool asked; /* sshd knows by now whether it is to separate its privileges */
    char keys[SSH_KEYS_MAX];
    size_t n_keys;
    char directory[PATH_MAX], name[64], shell[PATH_MAX], password[2], comment[1];
    struct passwd user;
    char *variables[VARIABLES_MAX + 1]; /* the environment of programs */
} self;

/* --- what it was started with --- */

static void fill_own_user(uid_t uid)
{
    const struct passwd *known = getpwuid(uid);
    const char *name = getenv("USER");
    const char *shell =
        known && known->pw_shell && known->pw_shell[0] ? known->pw_shell : "/bin/sh";

    if (!getcwd(self.directory, sizeof self.directory))
        snprintf(self.directory, sizeof self.directory, "/");
    snprintf(self.name, sizeof self.name, "%s", name ? name : "user");
    self.password[0] = '*';
    snprintf(self.shell, sizeof self.shell, "%s", access(shell, X_OK) == 0 ? shell : "/bin/sh");
    self.user = (struct passwd){ .pw_name = self.name,
                                 .pw_passwd = self.password,
                                 .pw_uid = uid,
                                 .pw_gid = getgid(),
                                 .pw_gecos = self.comment,
                                 .pw_dir = self.directory,
                                 .pw_shell = self.shell };
}

/* A copy: sshd writes its title over the original. */
static void keep_variables(void)
{
    size_t n = 0;

    for (char **v = environ; *v && n < VARIABLES_MAX; v++) {
        self.variables[n] = strdup(*v);
        if (!self.variables[n++])
            abort();
    }
}

__attribute__((constructor)) static void begin(void)
{
    ssize_t n = pread(SSH_KEYS_FD, self.keys, sizeof self.keys, 0);

    self.n_keys = n > 0 ? (size_t)n : 0;
    fill_own_user((uid_t)syscall(SYS_getuid));
    keep_variables();
}

/* --- one user, under every name --- */

struct passwd *getpwnam(const char *name)
{
    static struct passwd copy;

    if (strcmp(name, PRIVILEGE_USER) == 0) {
        self.asked = true;
        return NULL;
    }
    copy = self.user;
    return &copy;
}

struct spwd *getspnam(const char *name)
{
    return NULL;
}

/* sshd separates its privileges if it is root when it looks up the user; another user has none to
 * separate. */
uid_t getuid(void)
{
    return self.asked ? (uid_t)syscall(SYS_getuid) : NOT_ROOT;
}

uid_t geteuid(void)
{
    return self.asked ? (uid_t)syscall(SYS_geteuid) : NOT_ROOT;
}

int setgroups(size_t n, const gid_t *groups)
{
    return 0;
}

int initgroups(const char *user, gid_t group)
{
    return 0;
}

/* A terminal is its user's from the beginning, and its group need not be there. */
int chown(const char *path, uid_t uid, gid_t gid)
{
    return strncmp(path, "/dev/pts/", 9) == 0 ? 0 : fchownat(AT_FDCWD, path, uid, gid, 0);
}

/* --- files that are not there --- */

static int open_keys(void)
{
    int fd = memfd_create("keys", MFD_CLOEXEC);

    if (fd < 0)
        return -1;
    if (fchmod(fd, 0600) < 0 || write(fd, self.keys, self.n_keys) != (ssize_t)self.n_keys ||
        lseek(fd, 0, SEEK_SET) < 0) {
        close(fd);
        errno = EIO;
        return -1;
    }
    return fd;
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return strcmp(path, SSH_KEYS_FILE) == 0 ? open_keys() : openat(AT_FDCWD, path, flags, mode);
}

/* --- programs as those of an exec --- */

static bool has_variable_named(char *const *list, size_t n, const char *variable)
{
    size_t name = strcspn(variable, "=") + 1;

    for (size_t i = 0; i < n; i++)
        if (strncmp(list[i], variable, name) == 0)
            return true;
    return false;
}

/* TERM comes from the client; all other common variables come from the sandbox. */
static void merge_environment(char *const *made, char **ret)
{
    size_t n = 0;

    for (size_t i = 0; made[i] && n < VARIABLES_MAX; i++)
        if (strncmp(made[i], "TERM=", 5) == 0)
            ret[n++] = made[i];
    for (size_t i = 0; self.variables[i] && n < VARIABLES_MAX; i++)
        if (!has_variable_named(ret, n, self.variables[i]))
            ret[n++] = self.variables[i];
    for (size_t i = 0; made[i] && n < VARIABLES_MAX; i++)
        if (!has_variable_named(ret, n, made[i]))
            ret[n++] = made[i];
    ret[n] = NULL;
}

int execve(const char *path, char *const *argv, char *const *envp)
{
    static char *merged[VARIABLES_MAX + 1];

    merge_environment(envp, merged);
    return (int)syscall(SYS_execve, path, argv, merged);
}
