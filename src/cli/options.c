#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"

enum { HELP_COLUMN = 26 };

void say(const char *fmt, ...)
{
    char text[1024], shown[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log_printable(str_from(text), shown, sizeof shown);
    dprintf(STDERR_FILENO, "sandboxer: %s\n", shown);
}

static void print_option(const struct option_spec *o)
{
    char left[64];

    snprintf(left, sizeof left, "%c%c%s--%s%s%s", o->letter ? '-' : ' ',
             o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name, o->value ? " " : "",
             o->value ? o->value : "");
    printf("  %-*s %s\n", HELP_COLUMN, left, o->help);
}

static void print_help(const struct verb *v)
{
    printf("Usage: sandboxer %s [OPTION…] %s\n\n%s\n\nOptions:\n", v->name, v->arguments,
           v->summary);
    for (size_t i = 0; i < v->n_options; i++)
        print_option(&v->options[i]);
    print_option(&(struct option_spec){ .name = "help", .letter = 'h', .help = "show this help" });
    if (v->text)
        printf("\n%s", v->text);
}

static const struct option_spec *find_long(const struct verb *v, struct str name)
{
    for (size_t i = 0; i < v->n_options; i++)
        if (str_eq(name, str_from(v->options[i].name)))
            return &v->options[i];
    return NULL;
}

static const struct option_spec *find_letter(const struct verb *v, char letter)
{
    for (size_t i = 0; i < v->n_options; i++)
        if (v->options[i].letter == letter)
            return &v->options[i];
    return NULL;
}

static int unknown(const struct verb *v, const char *argument)
{
    say("%s: unknown option '%s'; 'sandboxer %s --help' lists them", v->name, argument, v->name);
    return -1;
}

static int apply(const struct verb *v, const struct option_spec *o, const char *value,
                 void *options)
{
    struct err e;

    if (o->set(options, value, &e) >= 0)
        return 0;
    say("%s: %s", v->name, e.msg);
    return -1;
}

/* "--name value", "--name=value" or "--name". */
static int long_option(const struct verb *v, int argc, char **argv, int *at, void *options)
{
    struct str name, value = str_cut(str_from(argv[*at] + 2), '=', &name);
    const struct option_spec *o = find_long(v, name);

    if (!o)
        return unknown(v, argv[*at]);
    if (!o->value && value.p) {
        say("%s: option '--%s' takes no value", v->name, o->name);
        return -1;
    }
    if (o->value && !value.p && *at + 1 >= argc) {
        say("%s: option '--%s' needs a value: --%s %s", v->name, o->name, o->name, o->value);
        return -1;
    }
    if (o->value && !value.p)
        value = str_from(argv[++*at]);
    return apply(v, o, o->value ? value.p : NULL, options);
}

/* "-t", "-tq", "-o value" or "-ovalue". */
static int short_options(const struct verb *v, int argc, char **argv, int *at, void *options)
{
    for (const char *p = argv[*at] + 1; *p; p++) {
        const struct option_spec *o = find_letter(v, *p);
        const char *value = NULL;

        if (!o)
            return unknown(v, argv[*at]);
        if (o->value && !p[1] && *at + 1 >= argc) {
            say("%s: option '-%c' needs a value: -%c %s", v->name, *p, *p, o->value);
            return -1;
        }
        if (o->value)
            value = p[1] ? p + 1 : argv[++*at];
        if (apply(v, o, value, options) < 0)
            return -1;
        if (o->value)
            return 0;
    }
    return 0;
}

int verb_options(const struct verb *v, int argc, char **argv, void *options)
{
    int at = 1;

    for (; at < argc && argv[at][0] == '-' && argv[at][1]; at++) {
        if (strcmp(argv[at], "--") == 0)
            return at + 1;
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            print_help(v);
            return 0;
        }
        if ((argv[at][1] == '-' ? long_option(v, argc, argv, &at, options)
                                : short_options(v, argc, argv, &at, options)) < 0)
            return -1;
    }
    return at;
}
