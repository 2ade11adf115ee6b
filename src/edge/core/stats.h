/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of a sandbox, and what it uses, in answers. */
#ifndef EDGE_CORE_STATS_H
#define EDGE_CORE_STATS_H

#include "control/sandbox/usage.h"
#include "lib/json/bind.h"

struct limits_answer {
    struct sandbox_limits of;
    double cpu; /* processors */
};

struct usage_answer {
    struct usage_sample of;
    double cpu, cpu_s; /* processors that are busy; seconds of them so far */
};

enum { LIMITS_FIELDS = 4, USAGE_FIELDS = 7 };
extern const struct json_field limits_fields[LIMITS_FIELDS], usage_fields[USAGE_FIELDS];

/* False: they are unknown. */
bool limits_answer_fill(struct limits_answer *a, const struct sandbox *s);
/* The last sample; false: there is none, or nothing runs in it. */
bool usage_answer_fill(struct usage_answer *a, const struct sandbox *s);

#endif
