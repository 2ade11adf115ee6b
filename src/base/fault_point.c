/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault_point.h"

#if SANDBOXER_TEST_HOOKS

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"

enum { WISHES_MAX = 8, DELAY_SECONDS = 1 };

static struct fault_wish {
    struct str name;
    int sig;                   /* 0: a delay */
    atomic_uint_fast64_t left; /* visits until then */
} wishes[WISHES_MAX];
static size_t wish_count;

/* An invalid variable must not pass as a successful test. */
static void abort_bad_wish(void)
{
    static const char text[] =
        "SANDBOXER_DIE_AT, _STOP_AT or _DELAY_AT is not NAME:COUNT[,NAME:COUNT...]\n";

    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        abort();
    abort();
}

static void read_wish_variable(const char *variable, int sig)
{
    struct str all = str_from(getenv(variable));

    while (all.n > 0) {
        struct str one, count;
        uint64_t n;

        all = str_cut(all, ',', &one);
        if (wish_count == WISHES_MAX)
            abort_bad_wish();
        count = str_cut(one, ':', &wishes[wish_count].name);
        if (!str_to_u64(count, &n) || n == 0)
            abort_bad_wish();
        wishes[wish_count].sig = sig;
        atomic_store(&wishes[wish_count++].left, n);
    }
}

static void read_fault_wishes(void)
{
    read_wish_variable("SANDBOXER_DIE_AT", SIGKILL);
    read_wish_variable("SANDBOXER_STOP_AT", SIGSTOP);
    read_wish_variable("SANDBOXER_DELAY_AT", 0);
}

void fault_point(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct str here = str_from(name);

    pthread_once(&once, read_fault_wishes);
    for (size_t i = 0; i < wish_count; i++)
        if (str_eq(wishes[i].name, here) && atomic_fetch_sub(&wishes[i].left, 1) == 1) {
            if (wishes[i].sig)
                raise(wishes[i].sig);
            else
                sleep(DELAY_SECONDS);
        }
}

#endif
