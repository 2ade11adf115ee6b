/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/oom.h"

#include <stdio.h>

#include "base/clock.h"
#include "control/sandbox/change.h"
#include "control/sandbox/sandbox.h"
#include "control/sandbox/spec.h"

static void edit_oom(struct change *ch, struct sandbox_record *next)
{
    sandbox_write_detail(ch->sandbox, next);
}

void sandbox_note_oom(struct sandbox *s, uint32_t kills)
{
    uint32_t more = kills > s->detail.oom.counted ? kills - s->detail.oom.counted : 0;
    struct change *ch;

    if (!more)
        return;
    s->detail.has_oom = true;
    s->detail.oom.counted = kills;
    s->detail.oom.kills += more;
    s->detail.oom.last_ns = clock_wall();
    if (s->destroying)
        return;
    ch = change_new(s, &ACTOR_DAEMON, "out of memory");
    snprintf(ch->text, sizeof ch->text, "{\"oom_kills\":%u,\"memory_limit\":%llu}", more,
             (unsigned long long)sandbox_view(s).memory);
    ch->type = "sandbox.oom";
    ch->detail = str_from(ch->text);
    ch->edit = edit_oom;
    change_submit(ch); /* if it is not recorded, the next kill records both */
}

struct backend_end sandbox_end(const struct sandbox *s, const struct backend_end *end)
{
    struct backend_end ret = *end;
    bool known = s->profile;

    ret.memory_limit = known && !(s->detail.unenforced & BACKEND_LIMIT_MEMORY)
                           ? spec_memory(s->profile, &s->request)
                           : 0;
    ret.disk_limit =
        known && !(s->detail.unenforced & BACKEND_LIMIT_DISK) ? spec_disk(s->profile) : 0;
    return ret;
}
