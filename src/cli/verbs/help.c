/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/own.h"
#include "cli/manual.h"
#include "cli/verbs/verbs.h"

struct help_options {
    bool man;
};

static const struct option_spec options[] = {
    { "man", 0, NULL, "print the manual page, for man(1)",
      .at = offsetof(struct help_options, man) },
};

static int run_help(const struct verb *v, int argc, char **argv)
{
    struct help_options o = { 0 };
    const struct verb *about;
    int status, words;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    if (argc == 0) {
        (o.man ? manual_print : cli_print_help)(stdout);
        return 0;
    }
    about = verb_find(argc, argv, &words);
    if (!about && argc == 1 && !o.man && cli_print_group(argv[0]))
        return 0;
    if (!about)
        return verb_unknown(argv[0]);
    if (o.man)
        manual_print_verb(stdout, about);
    else
        verb_print_help(about);
    return 0;
}

const struct verb verb_help = {
    .name = "help",
    .arguments = "[VERB]",
    .summary = "explain a verb, or list them all",
    .text = "  sandboxer help create\n"
            "  sandboxer help --man create | man -l -\n",
    OPTIONS(options),
    .run = run_help,
    .n_arguments = { 0, 2 },
    .complete = COMPLETE_VERB,
};
