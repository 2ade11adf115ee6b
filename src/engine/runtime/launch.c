/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/launch.h"

/* Only the used part of a plan is sent; plan_check() checks its size. */
static const size_t sizes[] = {
    [LAUNCH_CREATE] = offsetof(struct launch_create, plan.mounts),
    [LAUNCH_DESTROY] = sizeof(struct launch_named),
    [LAUNCH_FREEZE] = sizeof(struct launch_named),
    [LAUNCH_THAW] = sizeof(struct launch_named),
    [LAUNCH_ASSIGN] = sizeof(struct launch_assign),
    [LAUNCH_RELEASE] = sizeof(struct launch_release),
    [LAUNCH_CREATED] = sizeof(struct launch_created),
    [LAUNCH_FAILED] = sizeof(struct launch_failed),
    [LAUNCH_DESTROYED] = sizeof(struct launch_destroyed),
    [LAUNCH_HELD] = sizeof(struct launch_named),
    [LAUNCH_ASSIGNED] = sizeof(struct launch_named),
    [LAUNCH_RELEASED] = sizeof(struct launch_release),
};

void launch_fill(struct launch_head *h, enum launch_type type, size_t size)
{
    *h = (struct launch_head){ .magic = LAUNCH_MAGIC,
                               .version = LAUNCH_VERSION,
                               .type = (uint16_t)type,
                               .size = (uint32_t)size };
}

/* Requests that begin with an id, in the same layout. */
static bool names_sandbox(unsigned type)
{
    _Static_assert(offsetof(struct launch_assign, id) == offsetof(struct launch_named, id),
                   "alike");
    return type == LAUNCH_DESTROY || type == LAUNCH_FREEZE || type == LAUNCH_THAW ||
           type == LAUNCH_ASSIGN;
}

int launch_check(const void *message, size_t n, struct err *e)
{
    const struct launch_head *h = message;

    if (n < sizeof *h || h->magic != LAUNCH_MAGIC)
        return err_set(e, ERR_INVALID, "not a launcher message");
    if (h->version != LAUNCH_VERSION)
        return err_set(e, ERR_UNSUPPORTED, "launcher protocol %u; this is %d", h->version,
                       LAUNCH_VERSION);
    if (h->type >= sizeof sizes / sizeof sizes[0] || sizes[h->type] == 0 || h->size != n ||
        (h->type == LAUNCH_CREATE ? n < sizes[h->type] || n > sizeof(struct launch_create)
                                  : n != sizes[h->type]))
        return err_set(e, ERR_INVALID, "a launcher message of type %u with %zu bytes", h->type, n);
    if (names_sandbox(h->type) && !memchr(((const struct launch_named *)message)->id, '\0', ID_MAX))
        return err_set(e, ERR_INVALID, "the sandbox id of a launcher message is not terminated");
    return 0;
}
