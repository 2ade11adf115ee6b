/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"

void *new0_array(size_t n, size_t size)
{
    void *p = calloc(n, size);

    if (!p)
        abort();
    return p;
}
