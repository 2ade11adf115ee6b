/* SPDX-License-Identifier: Apache-2.0 */
/* `help` and `completion`, generated from the tables of verbs. */
#include <stdio.h>

#include "base/own.h"
#include "cli/completion.h"
#include "cli/manual.h"
#include "cli/verbs/verbs.h"

struct help_options {
    bool man;
};

static const struct option_spec options[] = {
    { "man", 0, NULL, "print the manual page, for man(1)", .kind = OPTION_FLAG,
      .at = offsetof(struct help_options, man) },
};

static int run_help(const struct verb *v, int argc, char **argv)
{
    struct help_options o = { 0 };
    const struct verb *about;
    int status, words;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    if (o.man)
        manual_print(stdout);
    else if (argc == 0)
        cli_print_help(stdout);
    if (o.man || argc == 0)
        return 0;
    about = verb_find(argc, argv, &words);
    if (!about && argc == 1 && cli_print_group(argv[0]))
        return 0;
    if (!about)
        return verb_unknown(argv[0]);
    verb_print_help(about);
    return 0;
}

const struct verb verb_help = {
    .name = "help",
    .arguments = "[VERB]",
    .summary = "explain a verb, or list them all",
    .text = "  sandboxer help create\n"
            "  sandboxer help --man | man -l -\n",
    .options = options,
    .n_options = COUNT_OF(options),
    .run = run_help,
    .max_arguments = 2,
    .complete = COMPLETE_VERB,
};

static int run_completion(const struct verb *v, int argc, char **argv)
{
    char nothing; /* no options */
    int status;

    if (!verb_parse(v, &argc, &argv, &nothing, &status))
        return status;
    if (!completion_print(stdout, argv[0]))
        return verb_misused(v, "'%s' is not one of: %s", argv[0], completion_shells);
    return 0;
}

const struct verb verb_completion = {
    .name = "completion",
    .arguments = "SHELL",
    .summary = "print a completion script for bash, zsh or fish",
    .text = "  source <(sandboxer completion bash)\n"
            "  sandboxer completion zsh > \"${fpath[1]}/_sandboxer\"\n"
            "  sandboxer completion fish > ~/.config/fish/completions/sandboxer.fish\n",
    .run = run_completion,
    .min_arguments = 1,
    .max_arguments = 1,
};
