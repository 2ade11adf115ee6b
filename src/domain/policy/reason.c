/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>

#include "domain/policy/compiled.h"

void egress_reason_set_(struct egress_reason *why, const char *code, struct str rule,
                        const char *next, const char *fmt, ...)
{
    va_list ap;

    why->code = code;
    why->rule = rule;
    why->limit = NULL;
    if (!str_copy(str_from(next), why->next, sizeof why->next)) /* avoids printf(), which is slow */
        snprintf(why->next, sizeof why->next, "%s", next);
    va_start(ap, fmt);
    vsnprintf(why->text, sizeof why->text, fmt, ap);
    va_end(ap);
}
