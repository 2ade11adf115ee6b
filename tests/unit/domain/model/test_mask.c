/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/mask.h"

#include "harness/tap.h"

enum { ARGS = 16 };

/* The words of `line`, which are separated by '|', masked and joined again. */
static struct str mask_line(const char *line, bool mask)
{
    static char ret[2 * MASK_OUT_MAX], words[2 * MASK_OUT_MAX];
    const char *argv[ARGS + 1] = { NULL };
    struct masked m;
    size_t n = 0;

    snprintf(words, sizeof words, "%s", line);
    for (char *rest = words, *word; n < ARGS && (word = strsep(&rest, "|"));)
        argv[n++] = word;
    mask_arguments(argv, mask, &m);
    CHECK_INT(m.args, n);
    memcpy(ret, m.text.p, m.text.n);
    for (size_t i = 0; i + 1 < m.text.n; i++)
        if (!ret[i])
            ret[i] = '|';
    masked_done(&m);
    return str_from(ret);
}

static void check_masked(const char *line, const char *masked)
{
    CHECK_STR(mask_line(line, true), masked);
    CHECK_STR(mask_line(line, false), line);
}

TEST(values_of_secret_names_are_masked)
{
    check_masked("tool|--password|hunter2|--verbose", "tool|--password|***|--verbose");
    check_masked("tool|--password=hunter2", "tool|--password=***");
    check_masked("tool|--db-password|two words", "tool|--db-password|***");
    check_masked("env|API_KEY=abc def|sh", "env|API_KEY=***|sh");
    check_masked("env|AWS_SECRET_ACCESS_KEY=x|HOME=/root",
                 "env|AWS_SECRET_ACCESS_KEY=***|HOME=/root");
    check_masked("sh|-c|TOKEN=abc curl https://h/?a=1&token=xyz",
                 "sh|-c|TOKEN=*** curl https://h/?a=1&token=***");
    check_masked("sh|-c|export PASSWORD=\"two words\"; ls", "sh|-c|export PASSWORD=\"***\"; ls");
    check_masked("curl|-d|{\"user\": \"me\", \"password\": \"hunter2\"}",
                 "curl|-d|{\"user\": \"me\", \"password\": \"***\"}");
    check_masked("sh|-lc|password: hunter2", "sh|-lc|password: ***");
}

TEST(options_that_describe_a_secret_stay)
{
    check_masked("tool|--password-file|/run/p|--token-type=bearer",
                 "tool|--password-file|/run/p|--token-type=bearer");
    check_masked("tool|--max-tokens|100|--password|--next",
                 "tool|--max-tokens|100|--password|--next");
    check_masked("pwd|-P", "pwd|-P");
}

TEST(authorization_headers_are_masked)
{
    check_masked("curl|-H|Authorization: Bearer abc.def", "curl|-H|Authorization: Bearer ***");
    check_masked("curl|-H|authorization: basic dXNlcg", "curl|-H|authorization: basic ***");
    check_masked("curl|-H|X-Api-Key: 17", "curl|-H|X-Api-Key: ***");
    check_masked("curl|-H|Accept: text/html", "curl|-H|Accept: text/html");
}

TEST(passwords_in_urls_are_masked)
{
    check_masked("git|clone|https://me:hunter2@example.com/x.git",
                 "git|clone|https://me:***@example.com/x.git");
    check_masked("psql|postgres://u:p@db:5432/x?sslmode=on",
                 "psql|postgres://u:***@db:5432/x?sslmode=on");
    check_masked("curl|https://me:hunter2@h/?token=abc", "curl|https://me:***@h/?token=***");
    check_masked("curl|https://example.com:8080/a@b", "curl|https://example.com:8080/a@b");
}

TEST(options_of_known_programs_are_masked)
{
    check_masked("curl|-u|me:hunter2|https://h", "curl|-u|me:***|https://h");
    check_masked("curl|-ume:hunter2", "curl|-ume:***");
    check_masked("/usr/bin/mysql|-phunter2|-u|root", "/usr/bin/mysql|-p***|-u|root");
    check_masked("sh|-c|sshpass -p hunter2 ssh -p 22 h; mkdir -p /x",
                 "sh|-c|sshpass -p *** ssh -p *** h; mkdir -p /x");
    check_masked("docker|run|-p|80:80|x", "docker|run|-p|80:80|x");
}

TEST(words_that_look_like_secrets_are_masked)
{
    check_masked("x|ghp_0123456789abcdefABCDEF", "x|ghp_***");
    check_masked("x|AKIAIOSFODNN7EXAMPLE", "x|AKIA***");
    check_masked("x|key:sk-abcdefghijklmnop1234", "x|key:sk-***");
    check_masked("x|q7Tz0aB3kLm9PwX2vR5nY8", "x|***");
    check_masked("x|550e8400-e29b-41d4-a716-446655440000",
                 "x|550e8400-e29b-41d4-a716-446655440000");
    check_masked("x|0f1e2d3c4b5a69788796a5b4c3d2e1f001234567",
                 "x|0f1e2d3c4b5a69788796a5b4c3d2e1f001234567");
    check_masked("x|img@sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f0",
                 "x|img@sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f0");
    check_masked("x|/usr/lib/python3.11/site-packages/SomeVeryLongClassName.py",
                 "x|/usr/lib/python3.11/site-packages/SomeVeryLongClassName.py");
    check_masked("sandboxer|exec|sbx_0a1b2c3d4e5f6g7h8i9j",
                 "sandboxer|exec|sbx_0a1b2c3d4e5f6g7h8i9j");
}

TEST(other_bytes_are_shown_as_numbers)
{
    CHECK_STR(mask_line("x|a\xff\xc3\xa4", false), "x|a\\xff\xc3\xa4");
    CHECK_STR(mask_line("x|a\xff\xc3\xa4", true), "x|a\\xff\xc3\xa4");
}

TEST(long_arguments_are_cut_at_a_character)
{
    static char text[2 * MASK_IN_MAX];
    const char *argv[] = { "x", text, "secret", NULL };
    struct masked m;

    memset(text, 'x', sizeof text - 1);
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    mask_arguments(argv, true, &m);
    CHECK(m.truncated);
    CHECK_INT(m.args, 2);
    CHECK(m.text.n <= MASK_OUT_MAX + MASK_ARGS_MAX);
    CHECK(str_is_utf8(buf_str(&m.text)));
    masked_done(&m);
}

TEST(masked_values_are_counted)
{
    const char *argv[] = { "x", "--token", "a", "--password=b", NULL };
    struct masked m;

    mask_arguments(argv, true, &m);
    CHECK_INT(m.values, 2);
    CHECK(!m.truncated);
    masked_done(&m);
}
