/* SPDX-License-Identifier: Apache-2.0 */
/* What the caller's world leaks into a new process: descriptors, environment, arguments,
 * signals. */
#include "attacks/attack.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum verdict descriptors(const void *with)
{
    char target[128] = "";
    char path[64];
    ssize_t n;

    for (size_t i = 0; i < birth.n_fds; i++) {
        if (birth.fds[i] == (int)i && i < 3)
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", birth.fds[i]);
        n = readlink(path, target, sizeof target - 1);
        return escaped("descriptor %d was open: %s", birth.fds[i], n > 0 ? target : "?");
    }
    return birth.n_fds == 3 ? held("0, 1 and 2") : escaped("only %zu descriptors", birth.n_fds);
}

/* "INO,INO,INO" of the caller's own stdin, stdout and stderr: ours must be other pipes. */
static enum verdict callers_stdio(const void *with)
{
    const char *facts = fact("ESCAPE_STDIO");
    char list[128], *rest = list, *item;
    struct stat st;

    if (!facts)
        return not_applicable("ESCAPE_STDIO is not set");
    snprintf(list, sizeof list, "%s", facts);
    for (int fd = 0; (item = strsep(&rest, ",")); fd++)
        if (fstat(fd, &st) == 0 && st.st_ino == strtoull(item, NULL, 10))
            return escaped("descriptor %d is the caller's own", fd);
    return held("all three are other files");
}

/* A directory among the descriptors is a way out of any root. */
static enum verdict directory_descriptor(const void *with)
{
    struct stat st;

    for (size_t i = 0; i < birth.n_fds; i++)
        if (fstat(birth.fds[i], &st) == 0 && S_ISDIR(st.st_mode))
            return escaped("descriptor %d is a directory", birth.fds[i]);
    return held("none");
}

/* ---- secrets ---- */

static bool contains(const char *text, size_t n, const char *secret)
{
    return memmem(text, n, secret, strlen(secret)) != NULL;
}

/* The fact holds the secret reversed, or our own environment would contain it. */
static bool secret_get(char *out, size_t size)
{
    const char *reversed = fact("ESCAPE_SECRET");
    size_t n = reversed ? strlen(reversed) : 0;

    if (n == 0 || n >= size)
        return false;
    for (size_t i = 0; i < n; i++)
        out[i] = reversed[n - 1 - i];
    out[n] = '\0';
    return true;
}

/* `with` is environ or cmdline: of everyone we can see, ourselves included. */
static enum verdict secret_of_anyone(const void *with)
{
    static char text[262144];
    char secret[128], path[300];
    bool found = false;
    struct dirent *d;
    int read_ = 0;
    DIR *dir;

    if (!secret_get(secret, sizeof secret))
        return not_applicable("ESCAPE_SECRET is not set");
    dir = opendir("/proc");
    while (dir && !found && (d = readdir(dir))) {
        ssize_t n;

        if (!isdigit((unsigned char)d->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%s/%s", d->d_name, (const char *)with);
        n = slurp(path, text, sizeof text);
        read_ += n >= 0;
        found = n > 0 && contains(text, (size_t)n, secret);
    }
    if (dir)
        closedir(dir);
    if (found)
        return escaped("the caller's secret is in %s", path);
    return read_ > 0 ? held("not in %d of them", read_) : escaped("could not read even our own");
}

/* Pid 1 may be hidden from a listing and still be there to read. */
static enum verdict secret_of_hidden(const void *with)
{
    static char text[262144];
    char secret[128], path[64];

    if (!secret_get(secret, sizeof secret))
        return not_applicable("ESCAPE_SECRET is not set");
    for (int pid = 1; pid < 1000; pid++) {
        ssize_t n;

        snprintf(path, sizeof path, "/proc/%d/%s", pid, (const char *)with);
        n = slurp(path, text, sizeof text);
        if (n > 0 && contains(text, (size_t)n, secret))
            return escaped("the caller's secret is in %s", path);
    }
    return held("in none of pids 1 to 999");
}

static enum verdict own_environment(const void *with)
{
    return getenv("SECRET_CANARY") ? escaped("SECRET_CANARY is set")
                                   : held("SECRET_CANARY is not set");
}

/* ---- inherited state ---- */

static enum verdict blocked_signals(const void *with)
{
    sigset_t set;

    sigprocmask(SIG_SETMASK, NULL, &set);
    for (int sig = 1; sig < 32; sig++)
        if (sigismember(&set, sig) == 1)
            return escaped("signal %d is blocked", sig);
    return held("none");
}

static enum verdict ignored_signals(const void *with)
{
    struct sigaction sa;

    for (int sig = 1; sig < 32; sig++)
        if (sigaction(sig, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN)
            return escaped("signal %d is ignored", sig);
    return held("none");
}

static enum verdict working_directory(const void *with)
{
    char cwd[4096];

    if (!getcwd(cwd, sizeof cwd))
        return escaped("%s", strerror(errno));
    return cwd[0] == '/' ? held("%.100s", cwd) : escaped("outside the root: %.100s", cwd);
}

/* The mount table may name sources below the mounted file system, never the sandbox's own
 * machinery. */
static enum verdict mount_table(const void *with)
{
    static char text[262144];
    static const char *const telling[] = { "upperdir=/", "workdir=/", "/.local/share/sandboxer",
                                           "/var/lib/sandboxer", "/run/sandboxer" };

    if (slurp("/proc/self/mountinfo", text, sizeof text) < 0)
        return held("%s", strerror(errno));
    for (size_t i = 0; i < COUNT(telling); i++) {
        const char *at = strstr(text, telling[i]);

        if (at && strncmp(at, "upperdir=/ ", 11) != 0)
            return escaped("it says %.80s", at);
    }
    return held("no path of the host's state");
}

static const struct attack attacks[] = {
    { "leaks: descriptors", descriptors, NULL, SEEN },
    { "leaks: the caller's own stdio", callers_stdio, NULL, SEEN },
    { "leaks: a directory among the descriptors", directory_descriptor, NULL, SEEN },
    { "leaks: the caller's environment", own_environment, NULL, SEEN },
    { "leaks: a secret in any environ", secret_of_anyone, "environ", SEEN },
    { "leaks: a secret in any cmdline", secret_of_anyone, "cmdline", SEEN },
    { "leaks: a secret in a hidden environ", secret_of_hidden, "environ", SEEN },
    { "leaks: a secret in a hidden cmdline", secret_of_hidden, "cmdline", SEEN },
    { "leaks: blocked signals", blocked_signals, NULL, SEEN },
    { "leaks: ignored signals", ignored_signals, NULL, SEEN },
    { "leaks: working directory", working_directory, NULL, UNSEEN }, /* so everywhere */
    { "leaks: mount table", mount_table, NULL, UNSEEN }, /* an overlay of our own only */
};

const struct attack_group attacks_leaks = GROUP(attacks);
