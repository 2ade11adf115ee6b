/* SPDX-License-Identifier: Apache-2.0 */
/* The step before an untrusted program: scans it and decides whether it may run. */
#ifndef CLI_RUN_PREFLIGHT_H
#define CLI_RUN_PREFLIGHT_H

#include "cli/run/hook.h"

/* 0 with the scanner's name and findings in `ret`, on the arena; or -ERR_DENIED after printing the
 * findings to stderr. */
int preflight_check(const char *file, struct str text, const struct step_options *o,
                    struct arena *a, struct step_answer *ret, struct err *e);

#endif
