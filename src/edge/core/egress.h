/* SPDX-License-Identifier: Apache-2.0 */
/* The egress of a sandbox in answers: its counters, and its policy where that is shown too. */
#ifndef EDGE_CORE_EGRESS_H
#define EDGE_CORE_EGRESS_H

#include "control/control.h"
#include "lib/json/bind.h"

struct egress_answer {
    const char *sandbox_id; /* NULL: not shown, like the policy and its ceiling */
    bool has_counters;
    struct sandbox_egress counters;
    const struct json *policy, *ceiling;
};

enum { EGRESS_ANSWER_FIELDS = 11 };
extern const struct json_field egress_answer_fields[EGRESS_ANSWER_FIELDS];

#endif
