/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/verb.h"

enum { HELP_COLUMN = 26 };

static void print_option(const struct option_spec *o)
{
    char left[64];

    snprintf(left, sizeof left, "%c%c%s--%s%s%s", o->letter ? '-' : ' ',
             o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name, o->value ? " " : "",
             o->value ? o->value : "");
    printf("  %-*s %s\n", HELP_COLUMN, left, o->help);
}

void verb_print_help(const struct verb *v)
{
    const struct option_spec *o;

    printf("Usage: sandboxer %s [OPTION…] %s\n\n%s\n\nOptions:\n", v->name,
           v->arguments ? v->arguments : "", v->summary);
    for (size_t i = 0; (o = verb_option(v, i)); i++)
        print_option(o);
    if (v->text)
        printf("\n%s", v->text);
}
