/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/progress.h"
#include "cli/suggest.h"
#include "cli/verb.h"

/* Options that flags bring. */
static const struct {
    unsigned flag; /* 0: for every verb */
    struct option_spec option;
} shared[] = {
    { VERB_FORMAT,
      { "output", 'o', "FORMAT", "print json or yaml, for programs",
        .at = offsetof(struct common, format), .words = "json yaml" } },
    { VERB_QUIET,
      { "quiet", 'q', NULL, "print ids only, or nothing", .at = offsetof(struct common, quiet) } },
    { VERB_REMOTE,
      { "server", 0, "URL", "use this daemon: http://HOST:PORT or unix:PATH",
        .at = offsetof(struct common, server) } },
    { 0, { "help", 'h', NULL, "show this help", .kind = OPTION_FLAG } },
};

void cli_report(const char *fmt, ...)
{
    char text[1024], shown[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log_printable(str_from(text), shown, sizeof shown);
    dprintf(STDERR_FILENO, "sandboxer: %s\n", shown);
}

enum format common_format(const struct common *c)
{
    if (!c->format)
        return FORMAT_TEXT;
    return strcmp(c->format, "json") == 0 ? FORMAT_JSON : FORMAT_YAML;
}

__attribute__((format(printf, 2, 0))) static void report_verb(const struct verb *v, const char *fmt,
                                                              va_list ap)
{
    char text[768];

    vsnprintf(text, sizeof text, fmt, ap);
    cli_report("%s: %s", v->name, text);
}

int verb_misused(const struct verb *v, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    report_verb(v, fmt, ap);
    va_end(ap);
    return v->flags & VERB_COMMAND ? EXIT_TOOL_FAILED : EXIT_USAGE;
}

int verb_failed(const struct verb *v, const char *fmt, ...)
{
    va_list ap;

    progress_end();
    va_start(ap, fmt);
    report_verb(v, fmt, ap);
    va_end(ap);
    return EXIT_TOOL_FAILED;
}

const struct option_spec *verb_option(const struct verb *v, size_t i)
{
    for (size_t at = 0; at < v->n_options; at++)
        if (v->options[at].help && i-- == 0)
            return &v->options[at];
    for (size_t at = 0; at < COUNT_OF(shared); at++)
        if ((!shared[at].flag || (v->flags & shared[at].flag)) && i-- == 0)
            return &shared[at].option;
    return NULL;
}

enum option_kind option_kind(const struct option_spec *o)
{
    if (o->kind != OPTION_IMPLIED)
        return o->kind;
    if (o->set)
        return OPTION_CALL;
    return o->words ? OPTION_WORD : o->value ? OPTION_TEXT : OPTION_FLAG;
}

static bool is_option_called(const struct option_spec *o, struct str name, char letter)
{
    return name.p ? str_eq(name, str_from(o->name)) : o->letter == letter;
}

/* By its name or, if the name's p is NULL, by its letter. */
static const struct option_spec *find_option(const struct verb *v, struct str name, char letter)
{
    const struct option_spec *o;

    for (size_t i = 0; i < v->n_options; i++)
        if (is_option_called(&v->options[i], name, letter))
            return &v->options[i];
    for (size_t i = 0; (o = verb_option(v, i)); i++)
        if (is_option_called(o, name, letter))
            return o;
    return NULL;
}

/* `name` is that of a long option; its p is NULL for a letter. */
static int reject_unknown_option(const struct verb *v, const char *argument, struct str name)
{
    struct suggestion s = { .typed = name };
    char similar[SUGGESTION_TEXT_MAX];
    const struct option_spec *o;

    for (size_t i = 0; name.p && (o = verb_option(v, i)); i++)
        suggestion_add(&s, str_from(o->name), str_from(o->name));
    suggestion_write(&s, "--", similar, sizeof similar);
    verb_misused(v, "unknown option '%s'%s 'sandboxer %s --help' lists them", argument,
                 similar[0] ? similar : ";", v->name);
    return -1;
}

static int check_option_word(const struct option_spec *o, const char *value, struct err *e)
{
    struct str rest = str_from(o->words), word;

    while (rest.p) {
        rest = str_cut(rest, ' ', &word);
        if (str_eq(word, str_from(value)))
            return 0;
    }
    return err_set(e, ERR_INVALID, "--%s: '%s' is not one of: %s", o->name, value, o->words);
}

static bool has_control(struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f)
            return true;
    return false;
}

static const char *join_texts(const char *a, const char *between, const char *b)
{
    size_t n = strlen(a) + strlen(between) + strlen(b) + 1;
    char *ret = malloc(n);

    if (!ret)
        abort();
    snprintf(ret, n, "%s%s%s", a, between, b);
    return ret;
}

const char *option_duration(const char *value)
{
    return value[0] && value[strspn(value, "0123456789")] == 0 ? join_texts(value, "s", "") : value;
}

int option_variable(const char *option, const char *value, const char **ret, struct err *e)
{
    struct str name = { value, strcspn(value, "=") };
    const char *ours;

    *ret = value;
    if (!name.n)
        return err_set(e, ERR_INVALID, "--%s: '%s' has no name; write NAME=VALUE or NAME", option,
                       value);
    if (has_control(name))
        return err_set(e, ERR_INVALID,
                       "--%s: the name '%.*s' has a control character; write NAME=VALUE or NAME",
                       option, name.n < 60 ? (int)name.n : 60, name.p);
    if (value[name.n])
        return 0;
    ours = getenv(value);
    *ret = ours ? join_texts(value, "=", ours) : NULL;
    return 0;
}

static int add_to_list(const struct option_spec *o, struct option_list *list, const char *value,
                       struct err *e)
{
    if (!value)
        return err_set(e, ERR_INVALID, "--%s: needs a value", o->name);
    if (list->n == OPTION_LIST_MAX)
        return err_set(e, ERR_TOO_BIG, "--%s: more than %d of them", o->name, OPTION_LIST_MAX);
    if (o->words && check_option_word(o, value, e) < 0)
        return -ERR_INVALID;
    if (o->kind == OPTION_PAIRS && (value[0] == '=' || !strchr(value, '=')))
        return err_set(e, ERR_INVALID, "--%s: '%s' is not %s", o->name, value, o->value);
    if (o->kind == OPTION_VARIABLES) {
        const char *variable = NULL;
        int r = option_variable(o->name, value, &variable, e);

        if (r < 0 || !variable)
            return r;
        value = variable;
    }
    list->p[list->n++] = value;
    return 0;
}

static int check_value(const struct option_spec *o, const char *value, struct err *e)
{
    char what[64];
    int64_t duration;
    uint64_t count;

    if (!value)
        return err_set(e, ERR_INVALID, "--%s: needs a value", o->name);
    snprintf(what, sizeof what, "--%s", o->name);
    switch (option_kind(o)) {
    case OPTION_WORD:
        return check_option_word(o, value, e);
    case OPTION_DURATION:
        return units_duration(str_from(option_duration(value)), what, &duration, e);
    case OPTION_COUNT:
        return units_count(str_from(value), what, o->least, o->most ? o->most : INT64_MAX, &count,
                           e);
    default:
        return value[0] ? 0 : err_set(e, ERR_INVALID, "--%s: the value is empty", o->name);
    }
}

static int store_option_value(const struct option_spec *o, void *options, const char *value,
                              struct err *e)
{
    void *member = (char *)options + o->at;
    int r;

    switch (option_kind(o)) {
    case OPTION_CALL:
        return o->set(member, value, e);
    case OPTION_FLAG:
        *(bool *)member = true;
        return 0;
    case OPTION_LIST:
    case OPTION_PAIRS:
    case OPTION_VARIABLES:
        return add_to_list(o, member, value, e);
    default:
        r = check_value(o, value, e);
        if (r >= 0)
            *(const char **)member = o->kind == OPTION_DURATION ? option_duration(value) : value;
        return r;
    }
}

/* 1: that was --help, and it is printed. */
static int apply_option(const struct verb *v, const struct option_spec *o, const char *value,
                        void *options)
{
    struct err e;

    if (o == &shared[COUNT_OF(shared) - 1].option) {
        verb_print_help(v);
        return 1;
    }
    if (store_option_value(o, options, value, &e) >= 0)
        return 0;
    verb_misused(v, "%s", e.msg);
    return -1;
}

/* "--name value", "--name=value" or "--name". */
static int long_option(const struct verb *v, int argc, char **argv, int *at, void *options)
{
    struct str name, value = str_cut(str_from(argv[*at] + 2), '=', &name);
    const struct option_spec *o = find_option(v, name, 0);

    if (!o)
        return reject_unknown_option(v, argv[*at], name);
    if (!o->value && value.p) {
        verb_misused(v, "option '--%s' takes no value", o->name);
        return -1;
    }
    if (o->value && !value.p && *at + 1 >= argc) {
        verb_misused(v, "option '--%s' needs a value: --%s %s", o->name, o->name, o->value);
        return -1;
    }
    if (o->value && !value.p)
        value = str_from(argv[++*at]);
    return apply_option(v, o, o->value ? value.p : NULL, options);
}

/* "-t", "-tq", "-o value" or "-ovalue". */
static int short_options(const struct verb *v, int argc, char **argv, int *at, void *options)
{
    for (const char *p = argv[*at] + 1; *p; p++) {
        const struct option_spec *o = find_option(v, (struct str){ NULL, 0 }, *p);
        const char *value = NULL;
        int r;

        if (!o)
            return reject_unknown_option(v, (const char[]){ '-', *p, 0 }, (struct str){ NULL, 0 });
        if (o->value && !p[1] && *at + 1 >= argc) {
            verb_misused(v, "option '-%c' needs a value: -%c %s", *p, *p, o->value);
            return -1;
        }
        if (o->value)
            value = p[1] ? p + 1 : argv[++*at];
        r = apply_option(v, o, value, options);
        if (r || o->value)
            return r;
    }
    return 0;
}

static bool is_option_argument(const char *argument)
{
    return argument[0] == '-' && argument[1];
}

/* Moves arguments behind the options. Returns the index of the first one, -1 after printing an error,
 * or 0 after printing the help. */
static int read_verb_options(const struct verb *v, int argc, char **argv, void *options)
{
    int at = 1, kept = 0; /* argv[1 … kept] are arguments that came before options */

    for (; at < argc; at++) {
        int r;

        if (!is_option_argument(argv[at]) && (v->flags & VERB_COMMAND))
            break;
        if (!is_option_argument(argv[at])) {
            argv[++kept] = argv[at];
            continue;
        }
        if (strcmp(argv[at], "--") == 0) {
            at += !(v->flags & VERB_DASHES);
            break;
        }
        r = argv[at][1] == '-' ? long_option(v, argc, argv, &at, options)
                               : short_options(v, argc, argv, &at, options);
        if (r)
            return r < 0 ? -1 : 0;
    }
    memmove(&argv[at - kept], &argv[1], (size_t)kept * sizeof argv[0]);
    return at - kept;
}

/* An id that no request can carry: "$id" of a create that failed. Of a command's verb only the
 * first argument is one. */
static int check_name_arguments(const struct verb *v, int n, char **argv)
{
    /* Things that the daemon knows. */
    static const char *const names[] = {
        [COMPLETE_SANDBOX] = "sandbox",   [COMPLETE_PROFILE] = "profile",
        [COMPLETE_HOST] = "host",         [COMPLETE_IMAGE] = "image",
        [COMPLETE_TOKEN] = "token",       [COMPLETE_APPROVAL] = "approval",
        [COMPLETE_SNAPSHOT] = "snapshot", [COMPLETE_SANDBOX_OR_FILE] = "sandbox",
    };
    const char *what = (size_t)v->complete < COUNT_OF(names) ? names[v->complete] : NULL;

    if (!what)
        return 0;
    if (v->flags & (VERB_COMMAND | VERB_DASHES) && n > 1)
        n = 1;
    for (int i = 0; i < n; i++) {
        if (!argv[i][0])
            return verb_misused(v,
                                "argument %d is empty, where the id or name of a %s belongs "
                                "(is a variable unset?)",
                                i + 1, what);
        if (v->complete != COMPLETE_SANDBOX_OR_FILE &&
            (i == 0 || v->n_arguments.most == ARGUMENTS_ANY) && has_control(str_from(argv[i])))
            return verb_misused(
                v, "argument %d ('%s') contains a control character, which ids and names cannot",
                i + 1, argv[i]);
    }
    return 0;
}

bool verb_parse(const struct verb *v, int *argc, char ***argv, void *options, int *ret_status)
{
    int first = read_verb_options(v, *argc, *argv, options), n = *argc - first;

    if (first <= 0) {
        *ret_status = first == 0 ? 0 : v->flags & VERB_COMMAND ? EXIT_TOOL_FAILED : EXIT_USAGE;
        return false;
    }
    *ret_status = 0;
    *argc = n;
    *argv += first;
    if (n > v->n_arguments.most) {
        *ret_status = verb_misused(v, "unexpected argument '%s'", (*argv)[v->n_arguments.most]);
        return false;
    }
    if (n < v->n_arguments.least) {
        *ret_status =
            verb_misused(v, "too few arguments: sandboxer %s [OPTION…] %s", v->name, v->arguments);
        return false;
    }
    *ret_status = check_name_arguments(v, n, *argv);
    return *ret_status == 0;
}

/* --- help --- */

enum { HELP_COLUMN = 29, HELP_WIDTH = 100 };

/* Prints words that begin at HELP_COLUMN, and breaks lines before HELP_WIDTH. */
static void print_wrapped(const char *text)
{
    struct str rest = str_from(text), word;
    size_t at = HELP_COLUMN;

    while (rest.p) {
        rest = str_cut(rest, ' ', &word);
        if (at > HELP_COLUMN && at + 1 + word.n > HELP_WIDTH) {
            printf("\n%*s", HELP_COLUMN, "");
            at = HELP_COLUMN;
        } else if (at > HELP_COLUMN) {
            putchar(' ');
            at++;
        }
        printf(STR_FMT, STR_ARG(word));
        at += word.n;
    }
    putchar('\n');
}

static void print_option(const struct option_spec *o)
{
    char left[64];

    snprintf(left, sizeof left, "%c%c%s--%s%s%s", o->letter ? '-' : ' ',
             o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name, o->value ? " " : "",
             o->value ? o->value : "");
    printf("  %-*s ", HELP_COLUMN - 3, left);
    print_wrapped(o->help);
}

void verb_print_help(const struct verb *v)
{
    const struct option_spec *o;

    printf("Usage: sandboxer %s [OPTION…] %s\n\n%s\n", v->name, v->arguments ? v->arguments : "",
           v->summary);
    for (size_t i = 1; verb_spelling(v, i).p; i++)
        printf("%s" STR_FMT, i == 1 ? "Also: sandboxer " : ", ", STR_ARG(verb_spelling(v, i)));
    printf("%s\nOptions:\n", v->aliases ? "\n" : "");
    for (size_t i = 0; (o = verb_option(v, i)); i++)
        print_option(o);
    if (v->text)
        printf("\n%s", v->text);
}
