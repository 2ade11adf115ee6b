#include <string.h>

#include "extensions/local.h"
#include "harness/tap.h"

static const char defaults_text[] = "root\0/work\0A=1\0B=2\0";
#define DEFAULTS ((struct str){ defaults_text, sizeof defaults_text - 1 })

TEST(damaged_defaults_are_noticed)
{
    CHECK(local_defaults_valid(DEFAULTS));
    CHECK(local_defaults_valid((struct str){ "0\0", 3 }));
    CHECK(!local_defaults_valid((struct str){ "0", 2 }));
    CHECK(!local_defaults_valid((struct str){ "root\0/wo", 8 }));
    CHECK(!local_defaults_valid((struct str){ NULL, 0 }));
}

static const char *variable(const struct supervisor_start *s, const char *name)
{
    const char *found = NULL;

    for (size_t i = 0; s->envp[i]; i++)
        if (strncmp(s->envp[i], name, strlen(name)) == 0 && s->envp[i][strlen(name)] == '=') {
            CHECK(!found); /* once */
            found = s->envp[i] + strlen(name) + 1;
        }
    return found;
}

TEST(the_request_wins_over_the_profile)
{
    static const char *const argv[] = { "x", NULL }, *const envp[] = { "B=mine", "LANG=C", NULL };
    struct arena a AUTO(arena_done) = ARENA_INIT(1 << 16);
    struct supervisor_start s;
    struct err e;

    CHECK_OK(local_start_fill(DEFAULTS,
                              &(struct ext_start){ .argv = argv, .envp = envp, .flags = EXT_TTY },
                              &a, &s, &e),
             e);
    CHECK_STR(str_from(variable(&s, "A")), "1");
    CHECK_STR(str_from(variable(&s, "B")), "mine");
    CHECK_STR(str_from(variable(&s, "LANG")), "C");
    CHECK(variable(&s, "TERM"));
    CHECK_STR(str_from(s.user), "root");
    CHECK_STR(str_from(s.cwd), "/work");
}

TEST(too_many_variables_are_refused)
{
    static const char *many[1001];
    static const char *const argv[] = { "x", NULL };
    struct arena a AUTO(arena_done) = ARENA_INIT(1000);
    struct supervisor_start s;

    for (size_t i = 0; i < 1000; i++)
        many[i] = "A=1";
    CHECK_INT(
        local_start_fill(DEFAULTS, &(struct ext_start){ .argv = argv, .envp = many }, &a, &s, NULL),
        -ERR_TOO_BIG);
}
