/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/manual.h"
#include "cli/verbs/verbs.h"

struct help_options {
    bool man;
};

static const struct option_spec options[] = {
    { "man", 0, NULL, "print the manual page, for man(1)",
      .at = offsetof(struct help_options, man) },
};

static int run_help(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct help_options *o = options_;
    const struct verb *about;
    int words;

    if (argc == 0) {
        (o->man ? manual_print : cli_print_help)(stdout);
        return 0;
    }
    about = verb_find(argc, argv, &words);
    if (!about && argc == 1 && !o->man && cli_print_group(argv[0]))
        return 0;
    if (!about)
        return verb_unknown(argv[0]);
    if (o->man)
        manual_print_verb(stdout, about);
    else
        verb_print_help(about);
    return 0;
}

const struct verb verb_help = {
    .name = "help",
    ARGUMENTS("[VERB]", 0, 2, COMPLETE_VERB),
    .summary = "explain a verb, or list them all",
    .text = "  sandboxer help create\n"
            "  sandboxer help --man create | man -l -\n",
    OPTIONS(options, struct help_options),
    .run = run_help,
};
