/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/fence.h"

#include <sys/socket.h>

#include "base/own.h"
#include "engine/egress/fence_calls.h"
#include "lib/fence/fence.h"

int fence_enter(const struct fence *f, struct err *e)
{
    static const int families[] = { AF_INET, AF_INET6 };
    bool files = f->readable >= 0 || f->appendable >= 0;
    const struct fence_place places[] = { { f->readable, FENCE_READ_FILES },
                                          { f->appendable, FENCE_APPEND_FILES } };
    /* SYS_openat is the last entry of the list. */
    const struct fence_rules rules = { .who = "the worker",
                                       .calls = fence_calls,
                                       .n_calls = COUNT_OF(fence_calls) - (files ? 0 : 1),
                                       .families = families,
                                       .n_families = COUNT_OF(families),
                                       .places = places,
                                       .n_places = COUNT_OF(places),
                                       .tcp = FENCE_TCP_CONNECT,
                                       .refusal = FENCE_ENOSYS };

    return fence_apply(&rules, e);
}
