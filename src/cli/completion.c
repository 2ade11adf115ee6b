/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion.h"

#include <string.h>

#include "base/own.h"
#include "base/str.h"
#include "cli/clients/clients.h"
#include "cli/verb.h"

const char completion_shells[] = "bash zsh fish";

/* Where the words for a kind of value come from: the arguments of sandboxer, or the shell's own. */
static const struct {
    const char *command; /* prints a word a line; NULL: none */
    bool files;
} sources[] = {
    [COMPLETE_NOTHING] = { NULL, false },
    [COMPLETE_FILE] = { NULL, true },
    [COMPLETE_SANDBOX] = { "list --names", false },
    [COMPLETE_PROFILE] = { "profiles list -q", false },
    [COMPLETE_HOST] = { "hosts list -q", false },
    [COMPLETE_IMAGE] = { "image list -q", false },
    [COMPLETE_TOKEN] = { "token list -q", false },
    [COMPLETE_APPROVAL] = { "approvals list -q", false },
    [COMPLETE_SNAPSHOT] = { "snapshots list -q", false },
    [COMPLETE_VERB] = { NULL, false },
    [COMPLETE_SANDBOX_OR_FILE] = { "list --names", true },
};

/* The fixed words that an option's value or a verb's argument may be. */
static const char *words_of(enum complete complete, const char *words)
{
    return words ? words : complete == COMPLETE_VERB ? "$verbs" : "";
}

/* The fixed words that are arguments of a verb; NULL: there are none. */
static const char *argument_words(const struct verb *v)
{
    static const struct {
        const char *verb, *words;
    } all[] = { { "completion", completion_shells }, { "setup", client_names } };

    for (size_t i = 0; i < COUNT_OF(all); i++)
        if (strcmp(v->name, all[i].verb) == 0)
            return all[i].words;
    return NULL;
}

/* The verbs by each of their names and aliases. */
struct spelling {
    struct str text;
    const struct verb *verb;
};

enum { SPELLINGS_MAX = 512 };

static struct spelling spellings[SPELLINGS_MAX];
static size_t n_spellings;

static void list_spellings(void)
{
    struct str text;

    n_spellings = 0;
    for (size_t i = 0; cli_verbs[i]; i++)
        for (size_t k = 0; (text = verb_spelling(cli_verbs[i], k)).p; k++)
            if (n_spellings < SPELLINGS_MAX)
                spellings[n_spellings++] = (struct spelling){ text, cli_verbs[i] };
}

static struct str first_word(const struct spelling *s)
{
    struct str first;

    str_cut(s->text, ' ', &first);
    return first;
}

static struct str second_word(const struct spelling *s)
{
    struct str first;

    return str_cut(s->text, ' ', &first);
}

/* Whether a spelling before this one has the same first word. */
static bool starts_group_before(size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (str_eq(first_word(&spellings[at]), first_word(&spellings[i])))
            return true;
    return false;
}

static void print_verb_names(FILE *to, const char *between)
{
    for (size_t i = 0; i < n_spellings; i++)
        if (!starts_group_before(i))
            fprintf(to, "%s" STR_FMT, i ? between : "", STR_ARG(first_word(&spellings[i])));
}

/* For each group a case of its first word: `before`, its second words, `after`. */
static void print_group_cases(FILE *to, const char *before, const char *after)
{
    for (size_t i = 0; i < n_spellings; i++) {
        struct str group = first_word(&spellings[i]);

        if (!second_word(&spellings[i]).p || starts_group_before(i))
            continue;
        fprintf(to, "    " STR_FMT ")\n        %s", STR_ARG(group), before);
        for (size_t k = 0; k < n_spellings; k++)
            if (second_word(&spellings[k]).p && str_eq(first_word(&spellings[k]), group))
                fprintf(to, STR_FMT " ", STR_ARG(second_word(&spellings[k])));
        fprintf(to, "%s ;;\n", after);
    }
}

/* --- bash --- */

/* Shell code that completes $cur from one source. */
static void bash_complete(FILE *to, enum complete complete, const char *words)
{
    fputs("            ", to);
    if (sources[complete].command)
        fprintf(to, "_sandboxer_words \"$(_sandboxer_ask %s)\"; ", sources[complete].command);
    if (sources[complete].files)
        fputs("_sandboxer_files; ", to);
    if (words_of(complete, words)[0])
        fprintf(to, "_sandboxer_words \"%s\"; ", words_of(complete, words));
    fputs("return ;;\n", to);
}

static void bash_option_values(FILE *to, const struct verb *v)
{
    const struct option_spec *o;

    fputs("        case $prev in\n", to);
    for (size_t i = 0; (o = verb_option(v, i)); i++) {
        if (!o->value)
            continue;
        fprintf(to, "        --%s", o->name);
        if (o->letter)
            fprintf(to, "|-%c", o->letter);
        fputs(")\n", to);
        bash_complete(to, o->complete, o->words);
    }
    fputs("        esac\n", to);
}

static void bash_verb(FILE *to, const struct spelling *s)
{
    const struct verb *v = s->verb;
    const struct option_spec *o;

    fprintf(to, "    '" STR_FMT "')\n", STR_ARG(s->text));
    bash_option_values(to, v);
    fputs("        case $cur in\n        -*)\n            _sandboxer_words \"", to);
    for (size_t i = 0; (o = verb_option(v, i)); i++) {
        fprintf(to, "--%s ", o->name);
        if (o->letter)
            fprintf(to, "-%c ", o->letter);
    }
    fputs("\"; return ;;\n        *)\n", to);
    bash_complete(to, v->complete, argument_words(v));
    fputs("        esac ;;\n", to);
}

static void print_bash(FILE *to)
{
    fputs("# bash completion for sandboxer, generated by 'sandboxer completion bash'\n"
          "# compgen expands what it is given: only words that have nothing to expand reach it.\n"
          "_sandboxer_ask() {\n"
          "    SANDBOXER_NO_DAEMON=1 \"${COMP_WORDS[0]}\" \"$@\" 2>/dev/null |\n"
          "        grep -E '^[A-Za-z0-9._:@/-]+$'\n"
          "}\n"
          "_sandboxer_words() { COMPREPLY+=($(compgen -W \"$1\" -- \"$cur\")); }\n"
          "_sandboxer_files() { local IFS=$'\\n'; COMPREPLY+=($(compgen -f -- \"$cur\")); }\n"
          "_sandboxer() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb verbs\n"
          "    verbs='",
          to);
    print_verb_names(to, " ");
    fputs("'\n    COMPREPLY=()\n"
          "    if ((COMP_CWORD == 1)); then _sandboxer_words \"$verbs --help --version\"; return; "
          "fi\n"
          "    verb=${COMP_WORDS[1]}\n"
          "    case $verb in\n",
          to);
    print_group_cases(to, "if ((COMP_CWORD == 2)); then _sandboxer_words \"",
                      "\"; return; fi\n        verb+=\" ${COMP_WORDS[2]}\"");
    fputs("    esac\n    case $verb in\n", to);
    for (size_t i = 0; i < n_spellings; i++)
        bash_verb(to, &spellings[i]);
    fputs("    esac\n}\ncomplete -o filenames -F _sandboxer sandboxer\n", to);
}

/* --- zsh and fish: options with their help --- */

/* Text for within '…', with what the shell or its specs would act on escaped: one line of it. */
static void print_shell_quoted(FILE *to, const char *text, const char *special, const char *quote)
{
    bool blank = false;

    for (; *text; text++) {
        if (*text == ' ' || *text == '\n') {
            blank = true;
            continue;
        }
        if (blank)
            fputc(' ', to);
        blank = false;
        if (*text == '\'')
            fputs(quote, to);
        else if (strchr(special, *text))
            fprintf(to, "\\%c", *text);
        else
            fputc(*text, to);
    }
}

static void zsh_text(FILE *to, const char *text)
{
    print_shell_quoted(to, text, "[]:\\", "'\\''");
}

static void zsh_action(FILE *to, enum complete complete, const char *words)
{
    if (words_of(complete, words)[0] && complete != COMPLETE_VERB)
        fprintf(to, "(%s)", words);
    else if (complete == COMPLETE_VERB)
        fputs("_sandboxer_verbs", to);
    else if (sources[complete].command && sources[complete].files)
        fputs("_sandboxer_ids_and_files", to);
    else if (sources[complete].command)
        fprintf(to, "_sandboxer_ask %s", sources[complete].command);
    else
        fputs(sources[complete].files ? "_files" : " ", to);
}

static void zsh_spelling(FILE *to, const struct option_spec *o, const char *dashes)
{
    fprintf(to, " \\\n            '*%s%s[", dashes, dashes[1] ? o->name : (char[]){ o->letter, 0 });
    zsh_text(to, o->help);
    fputc(']', to);
    if (o->value) {
        fputc(':', to);
        zsh_text(to, o->value);
        fputc(':', to);
        zsh_action(to, o->complete, o->words);
    }
    fputc('\'', to);
}

static void zsh_verb(FILE *to, const struct spelling *s)
{
    const struct verb *v = s->verb;
    const struct option_spec *o;

    fprintf(to, "    '" STR_FMT "')\n        _arguments", STR_ARG(s->text));
    for (size_t i = 0; (o = verb_option(v, i)); i++) {
        zsh_spelling(to, o, "--");
        if (o->letter)
            zsh_spelling(to, o, "-");
    }
    fputs(" \\\n            '*: :", to);
    zsh_action(to, v->complete, argument_words(v));
    fputs("' ;;\n", to);
}

static void print_zsh(FILE *to)
{
    fputs("#compdef sandboxer\n"
          "# generated by 'sandboxer completion zsh'\n"
          "_sandboxer_ask() { compadd -- ${(f)\"$(SANDBOXER_NO_DAEMON=1 sandboxer $@ "
          "2>/dev/null)\"} }\n"
          "_sandboxer_ids_and_files() { _sandboxer_ask list --names; _files }\n"
          "_sandboxer_verbs() {\n    local -a verbs\n    verbs=(",
          to);
    for (size_t i = 0; i < n_spellings; i++) {
        if (starts_group_before(i))
            continue;
        fprintf(to, " \\\n        '" STR_FMT ":", STR_ARG(first_word(&spellings[i])));
        zsh_text(to, spellings[i].verb->summary);
        fputc('\'', to);
    }
    fputs(")\n    _describe verb verbs\n}\n_sandboxer() {\n"
          "    local verb=${words[2]}\n"
          "    if ((CURRENT == 2)); then _sandboxer_verbs; return; fi\n"
          "    case $verb in\n",
          to);
    print_group_cases(to, "if ((CURRENT == 3)); then compadd ",
                      "; return; fi\n        verb+=\" ${words[3]}\"; shift words; ((CURRENT--))");
    fputs("    esac\n    shift words; ((CURRENT--))\n    case $verb in\n", to);
    for (size_t i = 0; i < n_spellings; i++)
        zsh_verb(to, &spellings[i]);
    fputs("    esac\n}\n_sandboxer \"$@\"\n", to);
}

static void fish_text(FILE *to, const char *text)
{
    print_shell_quoted(to, text, "\\", "\\'");
}

static void fish_source(FILE *to, enum complete complete, const char *words)
{
    if (words)
        fprintf(to, " -a '%s'", words);
    else if (complete == COMPLETE_VERB) {
        fputs(" -a '", to);
        print_verb_names(to, " ");
        fputc('\'', to);
    } else if (sources[complete].command)
        fprintf(to, " -a '(__sandboxer_ask %s)'", sources[complete].command);
}

static void fish_option(FILE *to, const struct spelling *s, const struct option_spec *o)
{
    fprintf(to, "complete -c sandboxer -n '__sandboxer_at " STR_FMT "' -l %s", STR_ARG(s->text),
            o->name);
    if (o->letter)
        fprintf(to, " -s %c", o->letter);
    if (o->value) {
        fputs(sources[o->complete].files ? " -r -F" : " -x", to);
        fish_source(to, o->complete, o->words);
    }
    fputs(" -d '", to);
    fish_text(to, o->help);
    fputs("'\n", to);
}

static void fish_verb(FILE *to, size_t at)
{
    const struct spelling *s = &spellings[at];
    const struct verb *v = s->verb;
    const struct option_spec *o;
    bool group = second_word(s).p;

    if (!starts_group_before(at)) {
        fprintf(to, "complete -c sandboxer -n __fish_use_subcommand -a " STR_FMT " -d '",
                STR_ARG(first_word(s)));
        fish_text(to, group ? "" : v->summary);
        fputs("'\n", to);
    }
    if (group) {
        fprintf(to, "complete -c sandboxer -n '__sandboxer_only " STR_FMT "' -a " STR_FMT " -d '",
                STR_ARG(first_word(s)), STR_ARG(second_word(s)));
        fish_text(to, v->summary);
        fputs("'\n", to);
    }
    for (size_t i = 0; (o = verb_option(v, i)); i++)
        fish_option(to, s, o);
    fprintf(to, "complete -c sandboxer -n '__sandboxer_at " STR_FMT "'%s", STR_ARG(s->text),
            sources[v->complete].files ? " -F" : "");
    fish_source(to, v->complete, argument_words(v));
    fputc('\n', to);
}

static void print_fish(FILE *to)
{
    fputs("# fish completion for sandboxer, generated by 'sandboxer completion fish'\n"
          "function __sandboxer_ask\n"
          "    env SANDBOXER_NO_DAEMON=1 sandboxer $argv 2>/dev/null\n"
          "end\n"
          "function __sandboxer_at\n"
          "    set -l words (commandline -opc)\n"
          "    test \"$words[2..(math 1 + (count $argv))]\" = \"$argv\"\n"
          "end\n"
          "function __sandboxer_only\n"
          "    set -l words (commandline -opc)\n"
          "    test \"$words[2..-1]\" = \"$argv\"\n"
          "end\n"
          "complete -c sandboxer -f\n",
          to);
    for (size_t i = 0; i < n_spellings; i++)
        fish_verb(to, i);
}

bool completion_print(FILE *to, const char *shell)
{
    static const struct {
        const char *name;
        void (*print)(FILE *to);
    } shells[] = { { "bash", print_bash }, { "zsh", print_zsh }, { "fish", print_fish } };

    list_spellings();
    for (size_t i = 0; i < COUNT_OF(shells); i++)
        if (strcmp(shell, shells[i].name) == 0) {
            shells[i].print(to);
            return true;
        }
    return false;
}
