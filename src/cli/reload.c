/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/reload.h"

#include <stdio.h>

#include "base/log.h"
#include "base/own.h"
#include "base/units.h"
#include "cli/answer.h"

/* "added: profile.x@1, profile.y@2", if there are any. */
static void print_names(const struct json *answer, const char *member)
{
    const struct json *list = show_at(answer, member);
    char name[256];

    if (!list || json_first(list) == json_end(list))
        return;
    printf("%s:", member);
    for (const struct json *v = json_first(list); v != json_end(list); v++) {
        log_printable(v->s, name, sizeof name);
        printf("%s %s", v == json_first(list) ? "" : ",", name);
    }
    putchar('\n');
}

static bool has_problem(const struct json *answer)
{
    const struct json *list = show_at(answer, "problems");

    return (list && json_first(list) != json_end(list)) || show_at(answer, "policy_problem");
}

static void report_problems(const struct api_call *c)
{
    const struct json *list = show_at(c->answer, "problems");
    struct str policy = show_string(c->answer, "policy_problem");

    for (const struct json *v = list ? json_first(list) : NULL; list && v != json_end(list); v++)
        cli_report("%s: " STR_FMT ": " STR_FMT, c->verb->name, STR_ARG(show_string(v, "file")),
                   STR_ARG(show_string(v, "message")));
    if (policy.n)
        cli_report("%s: the policy for tools stays as it was: " STR_FMT, c->verb->name,
                   STR_ARG(policy));
}

int reload_print(const struct api_call *c, const void *options, char **argv)
{
    static const char *const lists[] = { "added", "removed", "changed" };

    if (!c->common->quiet) {
        unsigned long long n = show_count(c->answer, "profiles");

        printf("%llu profile%s\n", n, units_plural(n));
        for (size_t i = 0; i < COUNT_OF(lists); i++)
            print_names(c->answer, lists[i]);
    }
    report_problems(c);
    return answer_flush(c);
}

int reload_finish(const struct api_call *c, char **argv)
{
    return has_problem(c->answer) ? EXIT_REPORTED : 0;
}
