/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/policy.h"

#include <sys/stat.h>
#include <unistd.h>

#include "unit/lib/tar/scratch.h"
#include "harness/tap.h"

static struct scratch dir;
static struct err e;
static char file[sizeof dir.path + 32];

static const char good[] = "version: 1\ntools:\n  a: { tier: 0, effect: none }\n";

static void write_file(const char *text)
{
    if (!dir.path[0])
        dir = scratch_make();
    snprintf(file, sizeof file, "%s/bundle.yaml", dir.path);
    make_file(dir.dir, "bundle.yaml", text);
}

static enum verdict_kind ask(const struct trust_policy *p, const char *tool)
{
    struct trust_case c = { .bundle = p->bundle,
                            .failure = p->failure,
                            .tool = str_from(tool),
                            .role = ROLE_MASTER,
                            .now_ns = 1 };
    struct trust_decision d;

    trust_decide(&c, &d);
    return d.verdict.kind;
}

TEST(without_a_file_the_built_in_one_holds)
{
    struct trust_policy p;

    trust_policy_open(&p, NULL, FAILURE_CLOSED, 0);
    CHECK(p.bundle && !p.problem.code);
    CHECK_INT(ask(&p, "sandbox_list"), VERDICT_ALLOW);
    trust_policy_done(&p);
}

TEST(what_holds_if_it_cannot_be_read)
{
    static const struct {
        enum trust_failure failure;
        enum verdict_kind list, other;
    } rows[] = {
        { FAILURE_STATIC, VERDICT_ALLOW, VERDICT_DENY },
        { FAILURE_CLOSED, VERDICT_DENY, VERDICT_DENY },
        { FAILURE_OPEN, VERDICT_ALLOW, VERDICT_ALLOW },
    };

    write_file("nonsense: 1\n");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct trust_policy p;

        trust_policy_open(&p, file, rows[i].failure, 0);
        CHECK(p.problem.code && strstr(p.problem.msg, "bundle.yaml"));
        CHECK_INT(ask(&p, "sandbox_list"), rows[i].list);
        CHECK_INT(ask(&p, "rm_rf"), rows[i].other);
        write_file(good);
        CHECK_INT(trust_policy_reload(&p, &e), 1);
        CHECK_INT(ask(&p, "a"), VERDICT_ALLOW);
        CHECK_INT(ask(&p, "sandbox_list"), VERDICT_DENY);
        CHECK(!p.problem.code);
        trust_policy_done(&p);
        write_file("nonsense: 1\n");
    }
}

TEST(the_last_good_one_stays)
{
    struct trust_policy p;
    char version[TRUST_VERSION_TEXT];

    write_file(good);
    trust_policy_open(&p, file, FAILURE_CLOSED, 0);
    memcpy(version, p.bundle->version, sizeof version);
    CHECK_INT(trust_policy_reload(&p, &e), 0);
    write_file("version: 1\ntools: 7\n");
    CHECK(trust_policy_reload(&p, &e) < 0);
    CHECK(unlink(file) == 0);
    CHECK(trust_policy_reload(&p, &e) < 0);
    CHECK(mkdir(file, 0755) == 0);
    CHECK_INT(trust_policy_reload(&p, &e), -ERR_INVALID);
    CHECK(rmdir(file) == 0);
    CHECK(mkfifo(file, 0644) == 0); /* is not waited for */
    CHECK_INT(trust_policy_reload(&p, &e), -ERR_INVALID);
    CHECK(unlink(file) == 0);
    CHECK_STR(str_from(p.bundle->version), version);
    CHECK_INT(ask(&p, "a"), VERDICT_ALLOW);
    trust_policy_done(&p);
}

TEST(what_anybody_could_have_written_is_refused)
{
    struct trust_policy p;

    write_file(good);
    CHECK(chmod(file, 0666) == 0);
    trust_policy_open(&p, file, FAILURE_CLOSED, 0);
    CHECK(!p.bundle && p.problem.code);
    trust_policy_done(&p);
}
