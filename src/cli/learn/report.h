/* SPDX-License-Identifier: Apache-2.0 */
/* Shows a proposal: on stdout the policy or its differences, on stderr what was learned, and what is
 * not in it and why. */
#ifndef CLI_LEARN_REPORT_H
#define CLI_LEARN_REPORT_H

#include "cli/api_call.h"

/* Prints the policy of c->answer, or how it differs from `base`, a name for people (NULL: there is none). A status. */
int learn_report_policy(const struct api_call *c, const char *base);

/* Prints the counts and lists, unless quiet or with -o. */
void learn_report_lists(const struct api_call *c);

#endif
