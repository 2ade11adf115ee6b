/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "cli/manual.h"
#include "cli/verbs/verbs.h"

struct help_options {
    bool man, all;
};

static const struct option_spec options[] = {
    { "all", 'a', NULL, "list all verbs, with a line each",
      .at = offsetof(struct help_options, all) },
    { "man", 0, NULL, "print the manual page, for man(1)",
      .at = offsetof(struct help_options, man) },
};

static void print_exit_statuses(FILE *to)
{
    fputs(
        "Exit statuses. Of run, exec, shell and attach, those below 124 are the program's own.\n\n",
        to);
    for (size_t i = 0; i < status_meaning_count; i++)
        fprintf(to, "  %-6s  %s\n", status_meanings[i].status, status_meanings[i].meaning);
}

/* Things that are explained, and are not verbs. */
static const struct {
    const char *word;
    void (*print)(FILE *to);
} subjects[] = { { "exit-status", print_exit_statuses } };

static bool print_subject(const char *word)
{
    for (size_t i = 0; i < COUNT_OF(subjects); i++)
        if (strcmp(subjects[i].word, word) == 0) {
            subjects[i].print(stdout);
            return true;
        }
    return false;
}

static int run_help(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct help_options *o = options_;
    const struct verb *about;
    int words;

    if (o->all && (argc || o->man))
        return verb_misused(c->verb, "--all lists all verbs; give it alone");
    if (argc == 0) {
        (o->man ? manual_print : o->all ? cli_print_all_help : cli_print_help)(stdout);
        return 0;
    }
    about = verb_find(argc, argv, &words);
    if (!about && argc == 1 && !o->man && (print_subject(argv[0]) || cli_print_group(argv[0])))
        return 0;
    if (!about)
        return verb_unknown(argc, argv);
    if (o->man)
        manual_print_verb(stdout, about);
    else
        verb_print_help(about);
    return 0;
}

const struct verb verb_help = {
    .name = "help",
    ARGUMENTS("[VERB|exit-status]", 0, 2, COMPLETE_VERB),
    .summary = "explain a verb, or list them all",
    .text = "  sandboxer help create\n"
            "  sandboxer help --all\n"
            "  sandboxer help exit-status\n"
            "  sandboxer help --man create | man -l -\n",
    OPTIONS(options, struct help_options),
    .run = run_help,
};
