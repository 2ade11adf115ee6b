/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/request.h"
#include "harness/tap.h"

struct sample {
    struct common common;
    bool flag, hidden;
    const char *text, *word, *span, *count;
    struct option_list list, pairs, few;
};

#define AT(member) .at = offsetof(struct sample, member)

static const struct option_spec options[] = {
    { "flag", 'f', NULL, "", AT(flag) },
    { "hidden", .at = offsetof(struct sample, hidden) },
    { "text", 't', "T", "", AT(text) },
    { "word", 0, "W", "", .kind = OPTION_WORD, AT(word), .words = "one two" },
    { "span", 0, "D", "", .kind = OPTION_DURATION, AT(span) },
    { "count", 'n', "N", "", .kind = OPTION_COUNT, AT(count) },
    { "list", 'l', "L", "", .kind = OPTION_LIST, AT(list) },
    { "pair", 'p', "K=V", "", .kind = OPTION_PAIRS, AT(pairs) },
    { "few", 0, "W", "", .kind = OPTION_LIST, AT(few), .words = "one two" },
};

static struct verb verb = { .name = "sample",
                            .arguments = "A",
                            .summary = "",
                            OPTIONS(options, struct sample),
                            .flags = VERB_FORMAT | VERB_QUIET,
                            .n_arguments = { 0, 3 } };

static struct sample o;
static char *words[32];
static char **arguments;
static int n_arguments, status;

/* Cuts the text at blanks. */
static bool parse(const char *text)
{
    static char name[] = "sample", copy[256];
    char *rest = copy, *word;

    CHECK(str_copy(str_from(text), copy, sizeof copy));
    o = (struct sample){ 0 };
    n_arguments = 0;
    words[n_arguments++] = name;
    while ((word = strsep(&rest, " ")))
        words[n_arguments++] = word;
    words[n_arguments] = NULL;
    arguments = words;
    return verb_parse(&verb, &n_arguments, &arguments, &o, &status);
}

TEST(options_of_each_kind)
{
    CHECK(parse(
        "-f -t x --word two --span 1h30m --count=12 -l a -l b -pk=v --pair k2=v=w --few one"));
    CHECK(o.flag);
    CHECK_STR(str_from(o.text), "x");
    CHECK_STR(str_from(o.word), "two");
    CHECK_STR(str_from(o.span), "1h30m");
    CHECK_STR(str_from(o.count), "12");
    CHECK_INT(o.list.n, 2);
    CHECK_STR(str_from(o.pairs.p[0]), "k=v");
    CHECK_STR(str_from(o.pairs.p[1]), "k2=v=w");
    CHECK_INT(n_arguments, 0);
    CHECK_INT(status, 0);
}

TEST(an_option_without_help_is_accepted_and_not_listed)
{
    const struct option_spec *shown;

    CHECK(parse("--hidden"));
    CHECK(o.hidden);
    for (size_t i = 0; (shown = verb_option(&verb, i)); i++)
        CHECK(strcmp(shown->name, "hidden") != 0);
    CHECK(strcmp(verb_option(&verb, 1)->name, "text") == 0); /* the next one is not skipped */
}

TEST(options_that_verbs_share)
{
    CHECK(parse("-q -o yaml"));
    CHECK(o.common.quiet);
    CHECK_INT(common_format(&o.common), FORMAT_YAML);
    CHECK(parse("--output=json"));
    CHECK_INT(common_format(&o.common), FORMAT_JSON);
    CHECK(!parse("--server http://x")); /* not without VERB_REMOTE */
}

TEST(arguments_may_come_before_options)
{
    CHECK(parse("a -f b -t x c"));
    CHECK(o.flag);
    CHECK_INT(n_arguments, 3);
    CHECK_STR(str_from(arguments[0]), "a");
    CHECK_STR(str_from(arguments[1]), "b");
    CHECK_STR(str_from(arguments[2]), "c");
    CHECK(arguments[3] == NULL);
    CHECK(parse("a -- -f"));
    CHECK(!o.flag);
    CHECK_INT(n_arguments, 2);
    CHECK_STR(str_from(arguments[0]), "a");
    CHECK_STR(str_from(arguments[1]), "-f");
    CHECK(parse("-"));
    CHECK_INT(n_arguments, 1);
}

TEST(options_of_a_command_end_at_its_first_word)
{
    verb.flags |= VERB_COMMAND;
    CHECK(parse("-f x -t y"));
    CHECK(o.flag);
    CHECK(o.text == NULL);
    CHECK_INT(n_arguments, 3);
    CHECK(!parse("--nope"));
    CHECK_INT(status, EXIT_TOOL_FAILED);
}

TEST(options_that_are_wrong)
{
    static const char *const bad[] = {
        "--nope",    "-Z",        "--word three", "--span soon", "--count -1",
        "--count x", "--pair k",  "--pair",       "--flag=x",    "-t",
        "--text=",   "--pair =v", "-o xml",       "a b c d",     "--few three",
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        status = 0;
        if (parse(bad[i]))
            FAIL("'%s' is taken", bad[i]);
        CHECK_INT(status, EXIT_USAGE);
    }
}

TEST(too_few_arguments)
{
    verb.n_arguments.least = 2;
    CHECK(!parse("a"));
    CHECK_INT(status, EXIT_USAGE);
    CHECK(parse("a b"));
}

TEST(verbs_are_found_by_their_words)
{
    static char profiles[] = "profiles", get[] = "get", list[] = "list", x[] = "x";
    char *two[] = { profiles, get, x }, *one[] = { profiles }, *plain[] = { list, get };
    const struct verb *v;
    int n;

    v = verb_find(3, two, &n);
    CHECK(v != NULL);
    CHECK_STR(str_from(v->name), "profiles get");
    CHECK_INT(n, 2);
    CHECK(verb_find(1, one, &n) == NULL);
    v = verb_find(2, plain, &n);
    CHECK(v != NULL);
    CHECK_STR(str_from(v->name), "list");
    CHECK_INT(n, 1);
}

/* What the parser relies on, for every verb there is. */
TEST(tables_are_sound)
{
    for (size_t i = 0; cli_verbs[i]; i++) {
        const struct verb *v = cli_verbs[i];
        const struct option_spec *a, *b;

        CHECK(!!v->run != !!v->request && v->summary && v->text);
        for (size_t j = 0; (a = verb_option(v, j)); j++) {
            CHECK(a->help && (option_kind(a) == OPTION_CALL) == !!a->set);
            CHECK(a->kind != OPTION_WORD || a->words);
            CHECK((option_kind(a) == OPTION_FLAG) == (a->value == NULL) || a->set);
            for (size_t k = 0; k < j && (b = verb_option(v, k)); k++)
                if (strcmp(a->name, b->name) == 0 || (a->letter && a->letter == b->letter))
                    FAIL("%s: two options are called --%s or -%c", v->name, a->name, a->letter);
        }
    }
}

/* Options of a verb that is one request are stored within its options, and go where it has room. */
TEST(requests_are_sound)
{
    for (size_t i = 0; cli_verbs[i]; i++) {
        const struct verb *v = cli_verbs[i];
        const struct verb_request *q = v->request;

        if (!q)
            continue;
        CHECK(q->method && q->path && (q->kind || q->done || q->print));
        CHECK(!q->members[0] || q->body == BODY_JSON);
        CHECK(q->body <= BODY_JSON || v->n_arguments.least > 0);
        for (size_t k = 0; k < v->n_options; k++) {
            CHECK(v->options[k].at >= sizeof(struct common));
            CHECK(v->options[k].at < v->options_size);
            CHECK(!v->options[k].member || q->body == BODY_JSON);
        }
    }
}
