/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that cannot be used safely do not compile here. Force-included by the build. */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BANNED(f) use_of_banned_function_##f

#undef strcpy
#define strcpy(a, b) BANNED(strcpy)
#undef strcat
#define strcat(a, b) BANNED(strcat)
#undef strncpy
#define strncpy(a, b, n) BANNED(strncpy)
#undef strncat
#define strncat(a, b, n) BANNED(strncat)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(a, b, c) BANNED(vsprintf)
#undef strtok
#define strtok(a, b) BANNED(strtok)
#undef atoi
#define atoi(a) BANNED(atoi)
#undef atol
#define atol(a) BANNED(atol)
#undef gets
#define gets(a) BANNED(gets)
#undef alloca
#define alloca(n) BANNED(alloca)
#undef mktemp
#define mktemp(a) BANNED(mktemp)

#endif
