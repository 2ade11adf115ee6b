/* SPDX-License-Identifier: Apache-2.0 */
/* Manual pages in the language of man(7), from the tables that the program works by: sandboxer(1)
 * lists the verbs, and each verb has a page, such as sandboxer-egress-check(1). man/meson.build
 * lists the pages that are installed. */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include <stdio.h>

#include "cli/verb.h"

void manual_print(FILE *to);
void manual_print_verb(FILE *to, const struct verb *v);

#endif
