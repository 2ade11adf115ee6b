/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress_file.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/own.h"
#include "harness/tap.h"
#include "unit/domain/policy/policies.h"
#include "unit/domain/profile/doc_rows.h"
#include "lib/yaml/file.h"

static const char full[] =
    "version: 1\n"
    "filesystem_policy: {include_workdir: true, read_only: [/usr], read_write: [/tmp]}\n"
    "landlock: {compatibility: best_effort}\n"
    "process: {run_as_user: sandbox, run_as_group: 1000}\n"
    "network_policies:\n"
    "  git.hosts:\n"
    "    name: Git\n"
    "    binaries: [{path: /usr/bin/git}, {path: '/usr/lib/git-core/**'}]\n"
    "    endpoints:\n"
    "    - {host: Git.example.com, ports: [443, 22]}\n"
    "    - host: api.example.com\n"
    "      port: 80\n"
    "      protocol: rest\n"
    "      path: '/v1/**'\n"
    "      enforcement: audit\n"
    "      rules:\n"
    "      - {allow: {method: GET, path: '/v1/**', query: {q: {any: [a, b]}}}}\n"
    "      deny_rules: [{method: DELETE}]\n"
    "      allowed_ips: [192.0.2.0/24]\n"
    "      binaries: [/usr/bin/curl]\n"
    "unlisted: {access: deny, denied_ips: [8.8.8.8]}\n";

static void to_json(const struct egress_policy *p, struct buf *out)
{
    struct err e;

    CHECK_OK(egress_policy_to_json(p, out, &e), e);
}

TEST(json_is_read_back_as_the_same_policy)
{
    struct buf one = BUF_INIT(1 << 20), two = BUF_INIT(1 << 20);
    struct egress_policy p, again;
    struct err e;

    CHECK_OK(policy_try(full, &p, &e), e);
    to_json(&p, &one);
    CHECK_OK(egress_policy_from_json(buf_str(&one), policies_arena(), &again, &e), e);
    to_json(&again, &two);
    CHECK_STR(buf_str(&two), one.p);
    CHECK(strstr(one.p, "\"host\":\"git.example.com\",\"ports\":[22,443]"));
    buf_done(&one);
    buf_done(&two);
}

TEST(json_is_not_trusted)
{
    static const char *const rows[][2] = {
        { "{}", "version: is required" },
        { "null", "is empty" },
        { "{\"version\":1,\"network_policies\":{\"a\":{\"endpoints\":[{\"host\":\"*\",\"port\":1}],"
          "\"binaries\":[{\"path\":\"/**\"}]}}}",
          "network_policies.a.endpoints[0].host: must have" },
        { "{\"version\":1,\"version\":1}", "appears twice" },
        { "{\"version\":1", "" },
    };
    struct egress_policy p;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = { 0 };

        CHECK(egress_policy_from_json(str_from(rows[i][0]), policies_arena(), &p, &e) < 0);
        if (!strstr(e.msg, rows[i][1]))
            FAIL("%s: %s", rows[i][0], e.msg);
    }
}

TEST(only_what_was_checked_is_written_or_compiled)
{
    struct egress_policy p = { .version = 1 };
    struct buf out = BUF_INIT(1 << 10);
    struct err e;

    CHECK_INT(egress_policy_to_json(&p, &out, &e), -ERR_BUG);
    CHECK(!egress_compile(&p, 1, &e));
    CHECK_INT(e.code, ERR_BUG);
}

TEST(hostile_texts)
{
    static const char *const rows[] = {
        "version: 1\n---\nversion: 1\n",
        "version: &a 1\nunlisted: *a\n",
        "version: !!int 1\n",
        "version: 1\n\tunlisted: {}\n",
        "version: 01\n",
        "version: yes\n",
        "version: 1\nunlisted: {access: public, access: deny}\n",
        "version: 1\nunlisted: [[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]\n",
        "\xef\xbb\xbfversion: 1\n",
    };
    struct egress_policy p;
    struct err e;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (policy_try(rows[i], &p, &e) >= 0)
            FAIL("'%s' should be refused", rows[i]);
}

TEST(a_file_has_a_size)
{
    static char text[EGRESS_FILE_BYTES_MAX + 2];
    struct egress_policy p;
    struct err e;

    memset(text, '#', sizeof text - 1);
    memcpy(text, "version: 1\n", 11);
    CHECK_INT(policy_try(text, &p, &e), -ERR_TOO_BIG);
    text[EGRESS_FILE_BYTES_MAX] = '\0';
    CHECK_OK(policy_try(text, &p, &e), e);
}

TEST(files)
{
    char name[] = "/tmp/test-egress-XXXXXX";
    AUTO_CLOSE int fd = mkostemp(name, O_CLOEXEC);
    struct egress_policy p;
    struct err e;

    CHECK(fd >= 0 && write(fd, full, sizeof full - 1) == (ssize_t)sizeof full - 1);
    CHECK_OK(egress_policy_read_file(AT_FDCWD, name, YAML_FILE_NO_LINK, policies_arena(), &p, &e),
             e);
    CHECK_INT(p.network_policies.n, 1);
    unlink(name);
    CHECK_INT(egress_policy_read_file(AT_FDCWD, name, 0, policies_arena(), &p, &e), -ERR_NOT_FOUND);
}

TEST(documented)
{
    check_doc_rows("docs/egress-policy.md", egress_policy_fields, egress_policy_field_count);
}
