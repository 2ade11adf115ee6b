/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/suggest.h"

#include "base/own.h"
#include "harness/tap.h"

static const char *suggest(const char *typed)
{
    static char text[SUGGESTION_TEXT_MAX];
    static const struct {
        const char *spelling, *word;
    } words[] = {
        { "run", "run" },         { "list", "list" },         { "ls", "list" },
        { "cp", "cp" },           { "snapshot", "snapshot" }, { "snapshots", "snapshots" },
        { "destroy", "destroy" }, { "rm", "destroy" },        { "get", "get" }
    };
    struct suggestion s = { .typed = str_from(typed) };

    for (size_t i = 0; i < COUNT_OF(words); i++)
        suggestion_add(&s, str_from(words[i].spelling), str_from(words[i].word));
    suggestion_write(&s, "", text, sizeof text);
    return text;
}

TEST(suggestions)
{
    static const struct {
        const char *typed, *text;
    } rows[] = {
        { "runn", "; did you mean 'run'?" },
        { "rnu", "; did you mean 'run'?" },
        { "lsit", "; did you mean 'list'?" },
        { "lst", "; did you mean 'list'?" }, /* close to both of its spellings */
        { "destory", "; did you mean 'destroy'?" },
        { "dest", "; did you mean 'destroy'?" },
        { "snap", "; did you mean 'snapshot' or 'snapshots'?" },
        { "snapshotz", "; did you mean 'snapshot' or 'snapshots'?" },
        { "rmm", "; did you mean 'destroy'?" },
        { "x", "" },
        { "", "" },
        { "frobnicate", "" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_STR(str_from(suggest(rows[i].typed)), rows[i].text);
}

TEST(suggestions_with_a_prefix_that_do_not_fit)
{
    struct suggestion s = { .typed = STR("memry") };
    char text[SUGGESTION_TEXT_MAX], tiny[8];

    suggestion_add(&s, STR("memory"), STR("memory"));
    suggestion_write(&s, "--", text, sizeof text);
    CHECK_STR(str_from(text), "; did you mean '--memory'?");
    suggestion_write(&s, "--", tiny, sizeof tiny);
    CHECK_STR(str_from(tiny), "; did y");
}
