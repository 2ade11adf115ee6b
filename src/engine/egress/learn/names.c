/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/learn/names.h"

enum {
    NAME_LONG = 100, /* bytes; names of services are shorter */
    LABEL_LONG = 48,
    RUN_LONG = 24,  /* letters and digits without a hyphen … */
    RUN_DIGITS = 4, /* … of which so many are digits: hex and base32, not words */
};

/* Whether a label has a long run of mixed letters and digits. */
static bool has_encoded_run(struct str label)
{
    size_t run = 0, digits = 0;

    for (size_t i = 0; i < label.n; i++) {
        bool digit = label.p[i] >= '0' && label.p[i] <= '9';

        if (label.p[i] == '-' || label.p[i] == '_')
            run = digits = 0;
        else {
            run++;
            digits += digit;
        }
        if (run >= RUN_LONG && digits >= RUN_DIGITS)
            return true;
    }
    return false;
}

const char *learn_name_suspicion(struct str name)
{
    struct str rest = name, label;

    if (name.n > NAME_LONG)
        return "the name is so long that it may carry data";
    while (rest.p) {
        rest = str_cut(rest, '.', &label);
        if (label.n >= LABEL_LONG || has_encoded_run(label))
            return "a label of the name looks like encoded data";
    }
    return NULL;
}

struct str learn_name_parent(struct str name)
{
    struct str label, parent = str_cut(name, '.', &label);

    return parent.p && str_find(parent, '.') < parent.n ? parent : (struct str){ 0 };
}
