/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/defaults.h"

#include <string.h>

#include "base/own.h"
#include "harness/tap.h"
#include "lib/ipc/listeners.h"

static const char defaults_text[] = "root\0/work\0A=1\0B=2\0";
#define DEFAULTS ((struct str){ defaults_text, sizeof defaults_text - 1 })

TEST(damaged_defaults_are_noticed)
{
    CHECK(backend_defaults_valid(DEFAULTS));
    CHECK(backend_defaults_valid((struct str){ "0\0", 3 }));
    CHECK(!backend_defaults_valid((struct str){ "0", 2 }));
    CHECK(!backend_defaults_valid((struct str){ "root\0/wo", 8 }));
    CHECK(!backend_defaults_valid((struct str){ NULL, 0 }));
}

static const char *variable(const struct process_start *s, const char *name)
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
    struct process_start s;
    struct err e;

    CHECK_OK(backend_start_fill(
                 DEFAULTS,
                 &(struct process_start){ .argv = argv, .envp = envp, .flags = START_TTY }, &a, &s,
                 &e),
             e);
    CHECK_STR(str_from(variable(&s, "A")), "1");
    CHECK_STR(str_from(variable(&s, "B")), "mine");
    CHECK_STR(str_from(variable(&s, "LANG")), "C");
    CHECK(variable(&s, "TERM"));
    CHECK_STR(str_from(s.user), "root");
    CHECK_STR(str_from(s.cwd), "/work");
}

/* What a start finds in the defaults of a profile with this environment. */
static void start_with(const char *env, bool egress, const char *const *envp, struct arena *a,
                       struct buf *defaults, struct process_start *ret)
{
    static const char *const argv[] = { "x", NULL };
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct buf yaml AUTO(buf_done) = BUF_INIT(4096);
    struct err e;

    CHECK(buf_addf(&yaml, "id: profile.x\nversion: 1\nenv: { %s }\n", env) >= 0);
    CHECK_OK(profile_read(buf_str(&yaml), &p, &e), e);
    CHECK_OK(backend_defaults_write(&(struct backend_spec){ .profile = p, .egress = egress },
                                    defaults, &e),
             e);
    CHECK_OK(backend_start_fill(buf_str(defaults),
                                &(struct process_start){ .argv = argv, .envp = envp }, a, ret, &e),
             e);
}

static void expect_proxy(const char *env, bool egress, const char *const *envp, const char *upper,
                         const char *lower)
{
    struct arena a AUTO(arena_done) = ARENA_INIT(1 << 16);
    struct buf defaults AUTO(buf_done) = BUF_INIT(BACKEND_DEFAULTS_MAX);
    struct process_start s;
    const char *got[2];

    start_with(env, egress, envp, &a, &defaults, &s);
    got[0] = variable(&s, "HTTPS_PROXY");
    got[1] = variable(&s, "https_proxy");
    CHECK_STR(str_from(got[0] ? got[0] : "-"), upper);
    CHECK_STR(str_from(got[1] ? got[1] : "-"), lower);
    CHECK(!variable(&s, "NO_PROXY") == !egress && !variable(&s, "all_proxy") == !egress);
}

TEST(the_proxy_is_what_the_start_the_profile_or_the_boundary_says)
{
    static const char *const own[] = { "https_proxy=own", NULL }, *const none[] = { "HTTPS_PROXY=",
                                                                                    NULL };

    expect_proxy("A: b", false, NULL, "-", "-");
    expect_proxy("A: b", true, NULL, LISTENERS_PROXY_URL, LISTENERS_PROXY_URL);
    expect_proxy("HTTPS_PROXY: x", true, NULL, "x", "-");
    expect_proxy("HTTPS_PROXY: x, https_proxy: y", true, NULL, "x", "y");
    expect_proxy("A: b", true, own, "-", "own");
    expect_proxy("HTTPS_PROXY: x", true, own, "-", "own");
    expect_proxy("A: b", true, none, "", "-");
}

TEST(too_many_variables_are_refused)
{
    static const char *many[1001];
    static const char *const argv[] = { "x", NULL };
    struct arena a AUTO(arena_done) = ARENA_INIT(1000);
    struct process_start s;

    for (size_t i = 0; i < 1000; i++)
        many[i] = "A=1";
    CHECK_INT(backend_start_fill(DEFAULTS, &(struct process_start){ .argv = argv, .envp = many },
                                 &a, &s, NULL),
              -ERR_TOO_BIG);
}
