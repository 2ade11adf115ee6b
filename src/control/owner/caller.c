/* SPDX-License-Identifier: Apache-2.0 */
#include "control/owner/caller.h"

#include <string.h>

bool caller_label_fits(const struct json_map *labels, const struct json_pair *wanted)
{
    const char *value = json_map_get(labels, wanted->key);

    return value && strcmp(value, wanted->value) == 0;
}

bool caller_labels_fit(const struct caller *who, const struct json_map *labels)
{
    for (size_t i = 0; i < who->labels.n; i++)
        if (!caller_label_fits(labels, &who->labels.p[i]))
            return false;
    return true;
}

bool caller_sees(const struct caller *who, const char *owner, const struct json_map *labels)
{
    return (who->admin || strcmp(who->owner, owner) == 0) && caller_labels_fit(who, labels);
}
