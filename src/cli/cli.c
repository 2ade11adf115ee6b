#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "cli/verb.h"

static const struct verb *const verbs[] = { &verb_run, &verb_canary };

static void print_help(FILE *to)
{
    fprintf(to, "Usage: sandboxer VERB [OPTION…] …\n\n"
                "Runs programs where they can do no harm.\n\nVerbs:\n");
    for (size_t i = 0; i < COUNT_OF(verbs); i++)
        fprintf(to, "  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
    fprintf(to, "\n'sandboxer VERB --help' explains one of them; --version names this version.\n");
}

int cli_main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_OURS;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("sandboxer %s\n", SANDBOXER_VERSION);
        return 0;
    }
    for (size_t i = 0; i < COUNT_OF(verbs); i++)
        if (strcmp(argv[1], verbs[i]->name) == 0)
            return verbs[i]->run(verbs[i], argc - 1, argv + 1);
    say("unknown verb '%s'; 'sandboxer --help' lists them", argv[1]);
    return EXIT_OURS;
}
