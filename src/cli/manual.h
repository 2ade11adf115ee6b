/* SPDX-License-Identifier: Apache-2.0 */
/* The manual page, in the language of man(7), from the tables that the program works by. */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include <stdio.h>

void manual_print(FILE *to);

#endif
