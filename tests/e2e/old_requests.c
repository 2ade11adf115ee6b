/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of an earlier version's PID 1, which does not know CONTROL_DIAL and does not name its
 * release: for a PID 1 that tests/e2e/test_upgrade.py starts sandboxes with. */
#include "lib/ipc/control.h"

static int check_message_of_old(const void *message, size_t n, struct err *e)
{
    const struct control_head *h = message;
    int r = control_check(message, n, e);

    if (r >= 0 && h->type == CONTROL_DIAL)
        return err_set(e, ERR_UNSUPPORTED, "a control message of the unknown type %u", h->type);
    return r;
}
#define control_check check_message_of_old
#undef SANDBOXER_VERSION
#define SANDBOXER_VERSION ""
#include "engine/init/requests.c"
