/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/boundary.h"

#include <string.h>

#include "base/own.h"

static const struct boundary_ops kinds[] = {
    {
        .name = "namespace",
        .can = BOUNDARY_LIMITS | BOUNDARY_MOUNTS | BOUNDARY_TERMINALS,
        .open = launcher_start,
        .create = launcher_create,
        .destroy = launcher_destroy,
        .release = launcher_release,
        .answer = launcher_answer_with,
        .close = launcher_done,
        .leave = launcher_leave,
        .start = supervisor_start,
        .kill = supervisor_kill,
        .ask = supervisor_request,
        .ask_who = supervisor_query_socket_owner,
        .next = supervisor_next,
    },
};

const struct boundary_ops *boundary_find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}
