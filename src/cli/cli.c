/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "cli/verbs/verbs.h"

#define VERB_ROW(name) &verb_##name,
const struct verb *const cli_verbs[] = { CLI_VERBS(VERB_ROW) NULL };

/* How many of the words make up the name: all of it, or 0. */
static int words_of_name(const char *name, int argc, char **argv)
{
    struct str rest = str_from(name), word;
    int n = 0;

    while (rest.p) {
        rest = str_cut(rest, ' ', &word);
        if (n == argc || !str_eq(word, str_from(argv[n])))
            return 0;
        n++;
    }
    return n;
}

const struct verb *verb_find(int argc, char **argv, int *ret_words)
{
    for (size_t i = 0; cli_verbs[i]; i++) {
        *ret_words = words_of_name(cli_verbs[i]->name, argc, argv);
        if (*ret_words)
            return cli_verbs[i];
    }
    return NULL;
}

void cli_print_help(FILE *to)
{
    fprintf(to, "Usage: sandboxer VERB [OPTION…] …\n\n"
                "Runs programs where they can do no harm.\n\nVerbs:\n");
    for (size_t i = 0; cli_verbs[i]; i++)
        fprintf(to, "  %-18s  %s\n", cli_verbs[i]->name, cli_verbs[i]->summary);
    fprintf(to, "\n'sandboxer VERB --help' explains one of them; --version names this version.\n");
}

bool cli_print_group(const char *word)
{
    bool any = false;

    for (size_t i = 0; cli_verbs[i]; i++) {
        struct str first, second = str_cut(str_from(cli_verbs[i]->name), ' ', &first);

        if (!second.p || !str_eq(first, str_from(word)))
            continue;
        if (!any)
            printf("Usage: sandboxer %s VERB [OPTION…] …\n\nVerbs:\n", word);
        any = true;
        printf("  %-18s  %s\n", cli_verbs[i]->name, cli_verbs[i]->summary);
    }
    if (any)
        printf("\n'sandboxer %s VERB --help' explains one of them.\n", word);
    return any;
}

/* Prints "profiles: choose one of: list, get, validate" if the word begins the names of some
 * verbs. */
static bool suggest_subcommands(const char *word)
{
    struct str first, second;
    char list[256] = "";
    size_t at = 0;

    for (size_t i = 0; cli_verbs[i]; i++) {
        second = str_cut(str_from(cli_verbs[i]->name), ' ', &first);
        if (second.p && str_eq(first, str_from(word)) && at < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", second.p);
    }
    if (at)
        cli_report("%s: choose one of: %s", word, list);
    return at > 0;
}

int verb_unknown(const char *word)
{
    if (!suggest_subcommands(word))
        cli_report("unknown verb '%s'; 'sandboxer --help' lists them", word);
    return EXIT_USAGE;
}

static bool is_help_word(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int run_verb(const struct verb *v, int argc, char **argv)
{
    static void *options; /* as long as we live: options refer to each other */
    AUTO(api_call_done) struct api_call c;
    int status;

    options = new0(v->options_size ? v->options_size : sizeof(struct common));
    if (v->defaults)
        memcpy(options, v->defaults, v->options_size);
    api_call_init(&c, v, options, "GET");
    if (!verb_parse(v, &argc, &argv, options, &status))
        return status;
    return (v->run ? v->run : request_run)(&c, options, argc, argv);
}

int cli_main(int argc, char **argv)
{
    const struct verb *v;
    int words;

    if (argc < 2) {
        cli_print_help(stderr);
        return EXIT_USAGE;
    }
    if (is_help_word(argv[1])) {
        cli_print_help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("sandboxer %s\n", SANDBOXER_VERSION);
        return 0;
    }
    v = verb_find(argc - 1, argv + 1, &words);
    if (!v && argc == 3 && is_help_word(argv[2]) && cli_print_group(argv[1]))
        return 0;
    if (!v)
        return verb_unknown(argv[1]);
    return run_verb(v, argc - words, argv + words);
}
