/* SPDX-License-Identifier: Apache-2.0 */
/* spawn-timer: runs commands in turn, round after round, and prints how long each run took.
 *
 *   spawn-timer ROUNDS [OPTION=VALUE]... -- ARGV... [:: [OPTION=VALUE]... -- ARGV...]...
 *
 *   rounds=N    join only N of the ROUNDS, spread evenly (for slow commands)
 *   uid=N       run it as this user and group
 *   mnt=PATH    in this mount namespace (/proc/PID/ns/mnt)
 *   new=FLAGS   in new namespaces: the CLONE_NEW* bits
 *   timeout=N   kill it after N seconds (60); counted as failed
 *
 * A run is timed from before the clone to the return of wait4, so it includes what the kernel tears
 * down with the process. The child is made as vfork does it: the cost does not depend on our own
 * size. The order changes with every round, so that nobody always runs behind the same neighbour,
 * and what a command leaves running behind is waited for (and timed apart) before the next one
 * starts. stdin, stdout and stderr of the commands are /dev/null. One JSON array on stdout, an
 * object for each command in the order given: ns, after_ns and cpu_ns (the processor time of all
 * its processes) for every run, failed, status (of the first failure). */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "die.h"

enum { COMMANDS_MAX = 32, STACK_SIZE = 64 * 1024, DRAIN_SECONDS = 10, EXIT_SETUP = 121 };

struct command {
    char **argv;
    long rounds, uid, new, timeout;
    int mnt;
    int64_t *ns, *after_ns, *cpu_ns;
    size_t n, failed;
    int status;
};

static struct command commands[COMMANDS_MAX];
static size_t n_commands;
static volatile sig_atomic_t current; /* the process to stop; 0: none */
static volatile sig_atomic_t stop;    /* the signal that asked us to end */
static volatile sig_atomic_t expired; /* the alarm went off */

/* User and system time of every process that was waited for, by us or by its parent. */
static int64_t cpu_of_children(void)
{
    struct rusage u;

    getrusage(RUSAGE_CHILDREN, &u);
    return (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000 +
           (int64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static void on_alarm(int sig)
{
    expired = 1;
    if (current > 0)
        kill(current, SIGKILL);
}

/* The command in flight is asked to end, and given the time to clean up. */
static void on_stop(int sig)
{
    stop = sig;
    if (current > 0)
        kill(current, SIGTERM);
}

/* Raw system calls for the ids: glibc's would also talk to threads, in memory we share. */
static int child(void *arg)
{
    const struct command *c = arg;

    if (c->mnt >= 0 && setns(c->mnt, CLONE_NEWNS) < 0)
        _exit(EXIT_SETUP);
    if (c->uid >= 0 && (syscall(SYS_setgroups, 0, NULL) < 0 ||
                        syscall(SYS_setresgid, c->uid, c->uid, c->uid) < 0 ||
                        syscall(SYS_setresuid, c->uid, c->uid, c->uid) < 0))
        _exit(EXIT_SETUP);
    execv(c->argv[0], c->argv);
    _exit(127);
}

/* Processes that the command left behind become ours: the next one shall not run beside them. */
static void drain(void)
{
    expired = 0;
    alarm(stop ? 1 : DRAIN_SECONDS);
    while (!expired && (waitpid(-1, NULL, 0) >= 0 || errno == EINTR))
        ;
    alarm(0);
    if (expired && !stop)
        fprintf(stderr, "spawn-timer: something still runs after %d s\n", DRAIN_SECONDS);
}

static void run_once(struct command *c)
{
    static char stack[STACK_SIZE] __attribute__((aligned(64)));
    int64_t begin, end, cpu = cpu_of_children();
    int status = 0;
    pid_t pid, got;

    alarm((unsigned)c->timeout);
    begin = clock_mono();
    pid = clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD | (int)c->new, c);
    if (pid < 0)
        die("clone");
    current = pid;
    if (stop)
        kill(pid, SIGTERM);
    do
        got = wait4(pid, &status, 0, NULL);
    while (got < 0 && errno == EINTR);
    end = clock_mono();
    current = 0;
    alarm(0);
    drain();
    if (stop)
        return;
    if (status != 0 && c->failed++ == 0)
        c->status = status;
    c->after_ns[c->n] = clock_mono() - end;
    c->cpu_ns[c->n] = cpu_of_children() - cpu;
    c->ns[c->n++] = end - begin;
}

static long number(const char *text)
{
    char *end;
    long n = strtol(text, &end, 0);

    if (!*text || *end || n < 0) {
        errno = EINVAL;
        die(text);
    }
    return n;
}

static void set_option(struct command *c, const char *option)
{
    const char *value = strchr(option, '=');
    size_t n = value ? (size_t)(value++ - option) : 0;

    if (n == 6 && !strncmp(option, "rounds", n))
        c->rounds = number(value);
    else if (n == 3 && !strncmp(option, "uid", n))
        c->uid = number(value);
    else if (n == 3 && !strncmp(option, "new", n))
        c->new = number(value);
    else if (n == 7 && !strncmp(option, "timeout", n))
        c->timeout = number(value);
    else if (n == 3 && !strncmp(option, "mnt", n)) {
        c->mnt = open(value, O_RDONLY | O_CLOEXEC);
        if (c->mnt < 0)
            die(value);
    } else {
        errno = EINVAL;
        die(option);
    }
}

/* Reads one command and gives back where the next one starts. */
static char **read_command(char **arg, long rounds)
{
    struct command *c = &commands[n_commands++];

    *c = (struct command){ .rounds = rounds, .uid = -1, .mnt = -1, .timeout = 60 };
    for (; *arg && strcmp(*arg, "--") != 0; arg++)
        set_option(c, *arg);
    if (!arg[0] || !arg[1]) {
        errno = EINVAL;
        die("a command without '-- ARGV'");
    }
    c->argv = ++arg;
    while (*arg && strcmp(*arg, "::") != 0)
        arg++;
    if (*arg)
        *arg++ = NULL;
    if (c->rounds > rounds)
        c->rounds = rounds;
    c->ns = calloc((size_t)c->rounds + 1, sizeof *c->ns);
    c->after_ns = calloc((size_t)c->rounds + 1, sizeof *c->after_ns);
    c->cpu_ns = calloc((size_t)c->rounds + 1, sizeof *c->cpu_ns);
    if (!c->ns || !c->after_ns || !c->cpu_ns)
        die("memory");
    return arg;
}

static void shuffle(size_t *order, size_t n)
{
    static uint64_t seed = 88172645463325252u;

    for (size_t i = n; i > 1; i--) {
        size_t j, was = order[i - 1];

        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        j = (size_t)(seed % i);
        order[i - 1] = order[j];
        order[j] = was;
    }
}

static void run_round(long round, long rounds)
{
    size_t order[COMMANDS_MAX], n = 0;

    for (size_t i = 0; i < n_commands; i++) {
        long share = commands[i].rounds;

        if ((round + 1) * share / rounds > round * share / rounds)
            order[n++] = i;
    }
    shuffle(order, n);
    for (size_t i = 0; i < n && !stop; i++)
        run_once(&commands[order[i]]);
}

static void print_list(const char *name, const int64_t *list, size_t n)
{
    printf("\"%s\":[", name);
    for (size_t i = 0; i < n; i++)
        printf("%s%lld", i ? "," : "", (long long)list[i]);
    printf("],");
}

static void print_all(void)
{
    putchar('[');
    for (size_t i = 0; i < n_commands; i++) {
        const struct command *c = &commands[i];

        printf("%s{", i ? ",\n" : "");
        print_list("ns", c->ns, c->n);
        print_list("after_ns", c->after_ns, c->n);
        print_list("cpu_ns", c->cpu_ns, c->n);
        printf("\"failed\":%zu,\"status\":%d}", c->failed, c->status);
    }
    puts("]");
}

/* The commands' standard descriptors are ours; our own output goes elsewhere. */
static void redirect(void)
{
    int null = open("/dev/null", O_RDWR), out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    int err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

    if (null < 0 || out < 0 || err < 0)
        die("redirecting");
    stdout = fdopen(out, "w");
    stderr = fdopen(err, "w");
    if (!stdout || !stderr)
        exit(2);
    setvbuf(stderr, NULL, _IONBF, 0);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
}

int main(int argc, char **argv)
{
    static const int stopping[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_alarm };
    long rounds = argc > 2 ? number(argv[1]) : 0;

    if (rounds == 0) {
        fprintf(stderr, "usage: spawn-timer ROUNDS [OPTION=VALUE]... -- ARGV... [:: ...]...\n");
        return 2;
    }
    for (char **arg = argv + 2; *arg && n_commands < COMMANDS_MAX;)
        arg = read_command(arg, rounds);
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = on_stop;
    for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++)
        sigaction(stopping[i], &action, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    redirect();
    for (long round = 0; round < rounds && !stop; round++)
        run_round(round, rounds);
    if (stop)
        return 128 + stop;
    print_all();
    return fflush(stdout) ? 2 : 0;
}
