/* SPDX-License-Identifier: Apache-2.0 */
/* Runs every attack, prints TAP, exits 1 if one of them got through. Arguments select attacks by a
 * part of their name; --list shows them, with `-` before those that a rehearsal cannot show. */
#include "attacks/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ATTACK_SECONDS = 20, FDS_SCANNED = 65536 };

static const struct attack_group *const groups[] = {
    &attacks_leaks,      &attacks_files,   &attacks_mounts, &attacks_processes,
    &attacks_privileges, &attacks_sockets, &attacks_calls,  &attacks_shared,
};

struct birth birth;
static char answer_[ANSWER_LENGTH];

enum verdict answer(enum verdict v, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(answer_, sizeof answer_, fmt, ap);
    va_end(ap);
    return v;
}

static bool is_refusal(int error)
{
    static const int refusals[] = { EPERM, EACCES, EROFS, ENOSYS, ENOENT, ESRCH };

    for (size_t i = 0; i < COUNT(refusals); i++)
        if (refusals[i] == error)
            return true;
    return false;
}

enum verdict refused(long r, const char *fmt, ...)
{
    int error = r < 0 ? errno : 0;
    char what[200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (error && is_refusal(error))
        return held("%s: %s", what, strerror(error));
    if (error)
        return escaped("%s was let through, then: %s", what, strerror(error));
    return escaped("%s worked", what);
}

const char *fact(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

bool rehearsing(void)
{
    return fact("ESCAPE_REHEARSAL") != NULL;
}

ssize_t slurp(const char *path, char *out, size_t size)
{
    size_t n = 0;
    ssize_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    out[0] = '\0';
    if (fd < 0)
        return -1;
    while (n + 1 < size && (got = read(fd, out + n, size - n - 1)) > 0)
        n += (size_t)got;
    out[n] = '\0';
    close(fd);
    return got < 0 ? -1 : (ssize_t)n;
}

static void note_birth(void)
{
    for (int fd = 0; fd < FDS_SCANNED; fd++)
        if (fcntl(fd, F_GETFD) >= 0 && birth.n_fds < COUNT(birth.fds))
            birth.fds[birth.n_fds++] = fd;
}

/* A rehearsed attack succeeds; what it mounts must not be there for the next one. */
static void keep_to_yourself(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        _exit(99);
}

static void attack_child(const struct attack *a, int to)
{
    char verdict;

    alarm(ATTACK_SECONDS);
    if (rehearsing())
        keep_to_yourself();
    verdict = (char)('0' + a->run(a->with));
    if (write(to, &verdict, 1) != 1 || write(to, answer_, strlen(answer_)) < 0)
        _exit(98);
    _exit(0);
}

/* A child that is killed by the filter has been held; any other death is a broken test. */
static enum verdict judge(int status, const char *said, size_t n)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
        return held("killed by the filter");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || n == 0)
        return escaped("no answer (wait status 0x%x)", (unsigned)status);
    memcpy(answer_, said + 1, n);
    return (enum verdict)(said[0] - '0');
}

static enum verdict attack_run(const struct attack *a)
{
    char said[ANSWER_LENGTH + 2] = "";
    size_t n = 0;
    int fds[2], status = 0;
    pid_t pid;

    fflush(stdout);
    if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0)
        return escaped("cannot even fork: %s", strerror(errno));
    if (pid == 0)
        attack_child(a, fds[1]);
    close(fds[1]);
    for (ssize_t got;
         n + 1 < sizeof said && (got = read(fds[0], said + n, sizeof said - n - 1)) > 0;)
        n += (size_t)got;
    close(fds[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return judge(status, said, n);
}

static bool attack_report(const struct attack *a, int number)
{
    enum verdict v = attack_run(a);

    for (char *p = answer_; *p; p++)
        if (*p == '\n' || *p == '#')
            *p = ' ';
    if (v == NOT_APPLICABLE)
        printf("ok %d - %s # SKIP %s\n", number, a->name, answer_);
    else
        printf("%s %d - %s: %s\n", v == HELD ? "ok" : "not ok", number, a->name, answer_);
    return v != ESCAPED;
}

static bool selected(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i]))
            return true;
    return argc == 1;
}

static int list(void)
{
    for (size_t g = 0; g < COUNT(groups); g++)
        for (size_t i = 0; i < groups[g]->n; i++)
            printf("%s%s\n", groups[g]->attacks[i].rehearsal == UNSEEN ? "-" : "",
                   groups[g]->attacks[i].name);
    return 0;
}

int main(int argc, char **argv)
{
    int number = 0, through = 0;

    note_birth();
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list();
    if (!fact("ESCAPE_CONFINED")) {
        fputs("escape: set ESCAPE_CONFINED=1 if this really is inside a sandbox\n", stderr);
        return 2;
    }
    for (size_t g = 0; g < COUNT(groups); g++)
        for (size_t i = 0; i < groups[g]->n; i++)
            if (selected(groups[g]->attacks[i].name, argc, argv) &&
                !attack_report(&groups[g]->attacks[i], ++number))
                through++;
    printf("1..%d\n", number);
    return through ? 1 : 0;
}
