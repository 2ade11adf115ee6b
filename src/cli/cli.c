/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "cli/suggest.h"
#include "cli/verbs/verbs.h"

#define VERB_ROW(name) &verb_##name,
const struct verb *const cli_verbs[] = { CLI_VERBS(VERB_ROW) NULL };

/* A topic of the help: verbs that follow each other in the table. */
#define ONE_VERB(name) +1
static const struct {
    const char *title;
    size_t n;
} topics[] = {
    { "Run and look", 0 VERBS_RUN(ONE_VERB) },
    { "Files", 0 VERBS_FILES(ONE_VERB) },
    { "Network", 0 VERBS_NETWORK(ONE_VERB) },
    { "Snapshots and images", 0 VERBS_SNAPSHOTS(ONE_VERB) },
    { "Agents and approvals", 0 VERBS_AGENTS(ONE_VERB) },
    { "This machine", 0 VERBS_MACHINE(ONE_VERB) },
};

static const struct verb *const first_verbs[] = { VERBS_FIRST(VERB_ROW) };

/* Words of relatives that are not ours, and the verb that does the same. */
static const struct {
    const char *word, *verb;
} relatives[] = {
    { "connect", "shell" },
    { "enter", "shell" },
    { "spawn", "create" },
    { "up", "create" },
    { "down", "destroy" },
    { "terminate", "destroy" },
    { "start", "resume" },
    { "unpause", "resume" },
    { "upload", "cp" },
    { "download", "cp" },
    { "info", "doctor" },
    { "build", "image import" },
    { "load", "image import" },
    { "save", "snapshots export" },
    { "login", "token create" },
    { "approve", "approvals approve" },
    { "status", "daemon status" },
    { "restart", "daemon restart" },
    { "reload", "daemon reload" },
};

/* How many of the words make up the name: all of it, or 0. */
static int words_of_name(struct str name, int argc, char **argv)
{
    struct str rest = name, word;
    int n = 0;

    while (rest.p) {
        rest = str_cut(rest, ' ', &word);
        if (n == argc || !str_eq(word, str_from(argv[n])))
            return 0;
        n++;
    }
    return n;
}

struct str verb_spelling(const struct verb *v, size_t i)
{
    struct str rest = str_from(v->aliases), alias = str_from(v->name);

    while (i-- > 0) {
        if (!rest.p)
            return (struct str){ NULL, 0 };
        rest = str_cut(rest, ',', &alias);
    }
    return alias;
}

const struct verb *verb_find(int argc, char **argv, int *ret_words)
{
    struct str spelling;

    for (size_t i = 0; cli_verbs[i]; i++)
        for (size_t k = 0; (spelling = verb_spelling(cli_verbs[i], k)).p; k++) {
            *ret_words = words_of_name(spelling, argc, argv);
            if (*ret_words)
                return cli_verbs[i];
        }
    return NULL;
}

/* --- help --- */

enum { TOPIC_COLUMN = 24, TOPIC_WIDTH = 80, TOPIC_WORD_MAX = 160 };

static void print_verb_line(FILE *to, const struct verb *v)
{
    fprintf(to, "  %-18s  %s", v->name, v->summary);
    for (size_t i = 1; verb_spelling(v, i).p; i++)
        fprintf(to, "%s" STR_FMT, i == 1 ? " (also: " : ", ", STR_ARG(verb_spelling(v, i)));
    fputs(v->aliases ? ")\n" : "\n", to);
}

/* "run", or "image list|inspect|pull" for all verbs of a group, and the number of the verbs. */
static size_t write_verb_names(const struct verb *const *verbs, size_t n,
                               char out[static TOPIC_WORD_MAX])
{
    struct str first, second = str_cut(str_from(verbs[0]->name), ' ', &first), group = first;
    size_t i, at = (size_t)snprintf(out, TOPIC_WORD_MAX, "%s", verbs[0]->name);

    for (i = 1; second.p && i < n && at < TOPIC_WORD_MAX; i++) {
        second = str_cut(str_from(verbs[i]->name), ' ', &first);
        if (!second.p || !str_eq(first, group))
            break;
        at += (size_t)snprintf(out + at, TOPIC_WORD_MAX - at, "|%s", second.p);
    }
    return i;
}

static void print_topic_names(FILE *to, const char *title, const struct verb *const *verbs,
                              size_t n)
{
    char word[TOPIC_WORD_MAX];
    size_t column = (size_t)fprintf(to, "  %-*s", TOPIC_COLUMN - 2, title), step;
    const char *separator = "";

    for (; n; verbs += step, n -= step) {
        step = write_verb_names(verbs, n, word);
        if (column + strlen(word) + 2 > TOPIC_WIDTH) {
            fprintf(to, "%s\n%*s", separator[0] ? "," : "", TOPIC_COLUMN, "");
            column = TOPIC_COLUMN;
            separator = "";
        }
        column += (size_t)fprintf(to, "%s%s", separator, word);
        separator = ", ";
    }
    fputc('\n', to);
}

static void print_usage(FILE *to)
{
    fputs("Usage: sandboxer VERB [OPTION…] …\n\nRuns programs where they can do no harm.\n", to);
}

void cli_print_help(FILE *to)
{
    size_t at = 0;

    print_usage(to);
    fputs("\nThe first verbs:\n", to);
    for (size_t i = 0; i < COUNT_OF(first_verbs); i++)
        print_verb_line(to, first_verbs[i]);
    fputs("\nAll verbs:\n", to);
    for (size_t i = 0; i < COUNT_OF(topics); at += topics[i++].n)
        print_topic_names(to, topics[i].title, cli_verbs + at, topics[i].n);
    fputs(
        "\n'sandboxer VERB --help' explains a verb, 'sandboxer help --all' all of them in a line\n"
        "each, 'sandboxer help exit-status' the exit statuses; --version prints the version.\n",
        to);
}

void cli_print_all_help(FILE *to)
{
    size_t at = 0;

    print_usage(to);
    for (size_t i = 0; i < COUNT_OF(topics); i++) {
        fprintf(to, "\n%s:\n", topics[i].title);
        for (size_t end = at + topics[i].n; at < end; at++)
            print_verb_line(to, cli_verbs[at]);
    }
    fputs("\n'sandboxer VERB --help' explains one of them.\n", to);
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
        print_verb_line(stdout, cli_verbs[i]);
    }
    if (any)
        printf("\n'sandboxer %s VERB --help' explains one of them.\n", word);
    return any;
}

/* --- unknown verbs --- */

/* Prints "profiles: unknown verb 'lst'; did you mean 'list'? Choose one of: list, get, validate" if
 * the first word begins the names of some verbs. */
static bool suggest_subcommands(int argc, char **argv)
{
    struct suggestion s = { .typed = str_from(argc > 1 ? argv[1] : "") };
    char list[256] = "", similar[SUGGESTION_TEXT_MAX];
    struct str first, second;
    size_t at = 0;

    for (size_t i = 0; cli_verbs[i]; i++) {
        second = str_cut(str_from(cli_verbs[i]->name), ' ', &first);
        if (!second.p || !str_eq(first, str_from(argv[0])) || at >= sizeof list)
            continue;
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", second.p);
        suggestion_add(&s, second, second);
    }
    suggestion_write(&s, "", similar, sizeof similar);
    if (at && argc > 1)
        cli_report("%s: unknown verb '%.64s'%s choose one of: %s", argv[0], argv[1],
                   similar[0] ? similar : ";", list);
    else if (at)
        cli_report("%s: choose one of: %s", argv[0], list);
    return at > 0;
}

int verb_unknown(int argc, char **argv)
{
    struct suggestion s = { .typed = str_from(argv[0]) };
    char similar[SUGGESTION_TEXT_MAX];
    struct str spelling;

    if (suggest_subcommands(argc, argv))
        return EXIT_USAGE;
    for (size_t i = 0; cli_verbs[i]; i++)
        for (size_t k = 0; (spelling = verb_spelling(cli_verbs[i], k)).p; k++) {
            struct str first;

            str_cut(spelling, ' ', &first);
            suggestion_add(&s, first, first);
        }
    for (size_t i = 0; i < COUNT_OF(relatives); i++)
        if (str_eq(s.typed, str_from(relatives[i].word)))
            s = (struct suggestion){ s.typed, { str_from(relatives[i].verb) }, 1, 0 };
    suggestion_write(&s, "", similar, sizeof similar);
    cli_report("unknown verb '%.64s'%s 'sandboxer --help' lists them", argv[0],
               similar[0] ? similar : ";");
    return EXIT_USAGE;
}

static bool is_help_word(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

int verb_run_words(const struct verb *v, int argc, char **argv)
{
    static void *options[2]; /* as long as we live: options refer to each other. A verb may run
                                another one. */
    static size_t depth;
    AUTO(api_call_done) struct api_call c;
    void *own;
    int status;

    if (depth == COUNT_OF(options))
        abort();
    own = options[depth++] = new0(v->options_size ? v->options_size : sizeof(struct common));
    if (v->defaults)
        memcpy(own, v->defaults, v->options_size);
    api_call_init(&c, v, own, "GET");
    if (!verb_parse(v, &argc, &argv, own, &status))
        return status;
    return (v->run ? v->run : request_run)(&c, own, argc, argv);
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
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-v") == 0) {
        printf("sandboxer %s\n", SANDBOXER_VERSION);
        return 0;
    }
    v = verb_find(argc - 1, argv + 1, &words);
    if (!v && argc == 3 && is_help_word(argv[2]) && cli_print_group(argv[1]))
        return 0;
    if (!v)
        return verb_unknown(argc - 1, argv + 1);
    return verb_run_words(v, argc - words, argv + words);
}
