/* SPDX-License-Identifier: Apache-2.0 */
#include "control/owner/caller.h"

#include <string.h>

static bool has_label_pair(const struct json_map *labels, const struct json_pair *wanted)
{
    for (size_t i = 0; i < labels->n; i++)
        if (strcmp(labels->p[i].key, wanted->key) == 0)
            return strcmp(labels->p[i].value, wanted->value) == 0;
    return false;
}

bool caller_labels_fit(const struct caller *who, const struct json_map *labels)
{
    for (size_t i = 0; i < who->labels.n; i++)
        if (!has_label_pair(labels, &who->labels.p[i]))
            return false;
    return true;
}

bool caller_sees(const struct caller *who, const char *owner, const struct json_map *labels)
{
    return (who->admin || strcmp(who->owner, owner) == 0) && caller_labels_fit(who, labels);
}
