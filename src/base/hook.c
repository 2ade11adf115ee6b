#include "base/hook.h"

#if SANDBOXER_TEST_HOOKS

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"

enum { DEATHS_MAX = 8 };

static struct death {
    struct str name;
    atomic_uint_fast64_t left; /* visits until then */
} deaths[DEATHS_MAX];
static size_t death_count;

/* A wish that cannot be read must not look like a test that passed. */
static void refuse(void)
{
    static const char text[] = "SANDBOXER_DIE_AT is not NAME:COUNT[,NAME:COUNT...]\n";

    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        abort();
    abort();
}

static void read_wishes(void)
{
    struct str all = str_from(getenv("SANDBOXER_DIE_AT"));

    while (all.n > 0) {
        struct str one, count;
        uint64_t n;

        all = str_cut(all, ',', &one);
        if (death_count == DEATHS_MAX)
            refuse();
        count = str_cut(one, ':', &deaths[death_count].name);
        if (!str_to_u64(count, &n) || n == 0)
            refuse();
        atomic_store(&deaths[death_count++].left, n);
    }
}

void hook_point(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct str here = str_from(name);

    pthread_once(&once, read_wishes);
    for (size_t i = 0; i < death_count; i++)
        if (str_eq(deaths[i].name, here) && atomic_fetch_sub(&deaths[i].left, 1) == 1)
            raise(SIGKILL);
}

#endif
