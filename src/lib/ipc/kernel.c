/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/kernel.h"

#include <stddef.h>

const struct kernel_name kernel_names[] = {
    { "nested-seccomp", KERNEL_NESTED_SECCOMP },
    { "socket-filters", KERNEL_SOCKET_FILTERS },
    { "page-cache", KERNEL_PAGE_CACHE },
    { NULL, 0 },
};

bool kernel_from_name(struct str name, uint32_t *ret)
{
    for (const struct kernel_name *k = kernel_names; k->name; k++)
        if (str_eq(name, str_from(k->name))) {
            *ret = k->bit;
            return true;
        }
    return false;
}
