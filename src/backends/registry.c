/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/backend.h"

const struct backend_ops *const backends[] = { &backend_local, NULL };

const struct backend_ops *backend_find(struct str id)
{
    for (size_t i = 0; backends[i]; i++)
        if (str_eq(id, str_from(backends[i]->id)))
            return backends[i];
    return NULL;
}
