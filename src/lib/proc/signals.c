/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/signals.h"

#include <signal.h>
#include <strings.h>
#include <sys/signalfd.h>

#include "base/own.h"

static const struct {
    const char *name;
    int number;
} signals[] = {
    { "HUP", SIGHUP },       { "INT", SIGINT },   { "QUIT", SIGQUIT },     { "ILL", SIGILL },
    { "TRAP", SIGTRAP },     { "ABRT", SIGABRT }, { "BUS", SIGBUS },       { "FPE", SIGFPE },
    { "KILL", SIGKILL },     { "USR1", SIGUSR1 }, { "SEGV", SIGSEGV },     { "USR2", SIGUSR2 },
    { "PIPE", SIGPIPE },     { "ALRM", SIGALRM }, { "TERM", SIGTERM },     { "CHLD", SIGCHLD },
    { "CONT", SIGCONT },     { "STOP", SIGSTOP }, { "TSTP", SIGTSTP },     { "TTIN", SIGTTIN },
    { "TTOU", SIGTTOU },     { "URG", SIGURG },   { "XCPU", SIGXCPU },     { "XFSZ", SIGXFSZ },
    { "VTALRM", SIGVTALRM }, { "PROF", SIGPROF }, { "WINCH", SIGWINCH },   { "IO", SIGIO },
    { "PWR", SIGPWR },       { "SYS", SIGSYS },   { "STKFLT", SIGSTKFLT },
};

int signal_number(struct str s)
{
    uint64_t number;

    if (str_to_u64(s, &number))
        return number <= 64 ? (int)number : 0;
    if (s.n > 3 && strncasecmp(s.p, "SIG", 3) == 0)
        s = (struct str){ s.p + 3, s.n - 3 };
    for (size_t i = 0; i < COUNT_OF(signals); i++)
        if (s.n == strlen(signals[i].name) && strncasecmp(s.p, signals[i].name, s.n) == 0)
            return signals[i].number;
    return 0;
}

const char *signal_name(int number)
{
    for (size_t i = 0; i < COUNT_OF(signals); i++)
        if (signals[i].number == number)
            return signals[i].name;
    return NULL;
}

int signals_open(const int *list, size_t n, struct err *e)
{
    sigset_t set;
    int fd;

    sigemptyset(&set);
    for (size_t i = 0; i < n; i++)
        sigaddset(&set, list[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? err_sys(e, "opening a signal descriptor") : fd;
}
