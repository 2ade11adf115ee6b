/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a program that measures and cannot continue. */
#ifndef BENCH_DIE_H
#define BENCH_DIE_H

#include <stdio.h>
#include <stdlib.h>

static inline _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

#endif
