/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/agent/recipe.h"

#include <stdio.h>

#include "base/buf.h"
#include "harness/tap.h"
#include "lib/json/reader.h"
#include "unit/domain/profile/doc_rows.h"

static struct arena a = { .max = 1 << 20 };

static int read_text(const char *text, struct agent_recipe *ret, const char **field, struct err *e)
{
    const struct json_limits limits = { .bytes = AGENT_RECIPE_BYTES, .depth = 8 };
    const struct json *tree;

    *ret = (struct agent_recipe){ 0 };
    CHECK_OK(json_read(str_from(text), limits, &a, &tree, e), *e);
    if (json_bind(tree, agent_recipe_fields, agent_recipe_field_count, ret, &a, e) < 0) {
        *field = "";
        return -ERR_INVALID;
    }
    return agent_recipe_check(ret, field, e);
}

TEST(a_recipe_is_read)
{
    struct agent_recipe r;
    const char *field;
    struct err e;

    CHECK_OK(
        read_text("{\"program\":\"x\",\"package\":\"@scope/x\",\"hosts\":[\"api.example.com\"],"
                  "\"env\":{\"A_1\":\"b\"},\"keys\":[\"X_KEY\"],\"files\":{\"~/.x/y\":\"t\","
                  "\"/etc/x.toml\":\"\"},\"logins\":[\"~/.x/login\"]}",
                  &r, &field, &e),
        e);
    CHECK_STR(str_from(r.program), "x");
    CHECK_INT(r.files.n, 2);
}

TEST(mistakes_are_named)
{
    static const struct {
        const char *text, *field, *says;
    } cases[] = {
        { "{}", "", "program" },
        { "{\"program\":\"/usr/bin/x\"}", "program", "leave out the directory" },
        { "{\"program\":\"-x\"}", "program", "" },
        { "{\"program\":\"x\",\"package\":\"x@1\"}", "package", "--version" },
        { "{\"program\":\"x\",\"package\":\"--global\"}", "package", "" },
        { "{\"program\":\"x\",\"package\":\"git+ssh://x\"}", "package", "" },
        { "{\"program\":\"x\",\"env\":{\"A-B\":\"\"}}", "env", "'A-B'" },
        { "{\"program\":\"x\",\"keys\":[\"1A\"]}", "keys", "'1A'" },
        { "{\"program\":\"x\",\"pass\":[\"\"]}", "pass", "" },
        { "{\"program\":\"x\",\"files\":{\"x\":\"\"}}", "files", "absolute" },
        { "{\"program\":\"x\",\"files\":{\"/a/../b\":\"\"}}", "files", "" },
        { "{\"program\":\"x\",\"files\":{\"~/\":\"\"}}", "files", "" },
        { "{\"program\":\"x\",\"logins\":[\"/etc/shadow\"]}", "logins", "your home" },
        { "{\"program\":\"x\",\"logins\":[\"~/../x\"]}", "logins", "" },
        { "{\"program\":\"x\",\"surprise\":1}", "", "surprise" },
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct agent_recipe r;
        const char *field = "";
        struct err e = { 0 };

        CHECK(read_text(cases[i].text, &r, &field, &e) < 0);
        CHECK_STR(str_from(field), cases[i].field);
        CHECK(strstr(e.msg, cases[i].says) != NULL);
    }
}

TEST(names_fit_or_not)
{
    CHECK(agent_name_fits(STR("claude")) && agent_name_fits(STR("a-1")));
    CHECK(!agent_name_fits(STR("")) && !agent_name_fits(STR("-a")) && !agent_name_fits(STR("A")));
    CHECK(!agent_name_fits(STR("a.b")) && !agent_name_fits(STR("a\0b")));
    CHECK(!agent_name_fits(STR("a123456789012345678901234567890b")));
}

TEST(the_recipes_that_are_compiled_in_fit)
{
    for (size_t i = 0; i < agents_built_in_count; i++) {
        const char *field;
        struct err e = { 0 };

        CHECK(agent_name_fits(str_from(agents_built_in[i].name)));
        CHECK_OK(agent_recipe_check(&agents_built_in[i].recipe, &field, &e), e);
        CHECK(agents_built_in[i].recipe.hosts.n && agents_built_in[i].recipe.keys.n);
    }
}

TEST(the_page_has_every_field)
{
    check_doc_rows("docs/agents.md", agent_recipe_fields, agent_recipe_field_count);
}
