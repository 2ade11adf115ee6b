/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/code/kernels.h"
#include "harness/tap.h"

TEST(a_language_has_its_kernel)
{
    CHECK(kernel_find("") == kernel_find("python"));
    CHECK(kernel_find("js") == kernel_find("javascript"));
    CHECK(kernel_find("TypeScript") == kernel_find("ts") &&
          kernel_find("Python") == kernel_find(""));
    CHECK(!kernel_find("cobol") && !kernel_find("pythonic"));
}

TEST(a_session_is_known_by_its_command_line)
{
    const char *const languages[] = { "python", "javascript", "typescript", "bash" };
    const char *old[] = { "node", "-e", "…" }, *forged[] = { "node", "-e", "…", "bash" };

    for (size_t i = 0; i < COUNT_OF(languages); i++) {
        const struct kernel *k = kernel_find(languages[i]);

        CHECK(kernel_of((struct json_strs){ k->argv, k->argc }) == k);
        CHECK(strcmp(k->argv[k->argc - 1], languages[i]) == 0);
    }
    CHECK(kernel_of((struct json_strs){ old, 3 }) == kernel_find("javascript"));
    CHECK(!kernel_skips_lines((struct json_strs){ old, 3 }));
    CHECK(kernel_skips_lines((struct json_strs){ kernel_find("js")->argv, 4 }));
    CHECK(!kernel_of((struct json_strs){ forged, 4 }) && !kernel_of((struct json_strs){ old, 1 }));
}

static int ask(const char *language, const char *code, struct json_map env, struct buf *out)
{
    struct err e;

    buf_clear(out);
    return kernel_find(language)->request(out, "run_x", code, &env, &e);
}

TEST(requests_are_lines)
{
    const struct json_pair pairs[] = { { "A", "it's\n\"b\" $c" } }, bad[] = { { "A;b", "" } },
                           empty[] = { { "", "" } }, digit[] = { { "1a", "" } };
    const struct json_map env = { pairs, 1 };
    struct buf out AUTO(buf_done) = BUF_INIT(4096), small AUTO(buf_done) = BUF_INIT(64);

    CHECK_INT(ask("python", "print(1)\n", env, &out), 0);
    CHECK(
        str_eq(buf_str(&out), STR("{\"id\":\"run_x\",\"code\":\"print(1)\\n\",\"env_vars\":{\"A\":"
                                  "\"it's\\n\\\"b\\\" $c\"}}\n")));
    CHECK_INT(ask("bash", "echo 'a'\nb", env, &out), 0);
    CHECK(str_eq(buf_str(&out),
                 STR("__sandboxer_begin run_x; A=$'it\\x27s\\x0a\\x22b\\x22 \\x24c' . /dev/fd/6 "
                     "6<<<$'echo \\x27a\\x27\\x0ab' 7>&- 8>&- 9<&-; __sandboxer_end run_x $?\n")));
    CHECK_INT(ask("bash", "", (struct json_map){ bad, 1 }, &out), -ERR_INVALID);
    CHECK_INT(ask("bash", "", (struct json_map){ empty, 1 }, &out), -ERR_INVALID);
    CHECK_INT(ask("bash", "", (struct json_map){ digit, 1 }, &out), -ERR_INVALID);
    CHECK_INT(ask("bash", "a long piece of code for a small buffer", env, &small), -ERR_TOO_BIG);
}
