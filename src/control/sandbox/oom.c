/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/oom.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "control/sandbox/change.h"
#include "control/sandbox/sandbox.h"
#include "control/sandbox/spec.h"

struct oom_event {
    char text[96];
};

static void edit_oom(struct change *ch, struct sandbox_record *next)
{
    sandbox_write_detail(ch->sandbox, next);
}

static void on_oom_recorded(struct change *ch, int r, const struct err *e)
{
    /* if this was not recorded, the next kill records both */
    free(ch->user);
}

static void record_oom(struct sandbox *s, uint32_t kills)
{
    struct change *ch = change_new(s, &ACTOR_DAEMON, "out of memory");
    struct oom_event *event = new0(sizeof *event);

    snprintf(event->text, sizeof event->text, "{\"oom_kills\":%u,\"memory_limit\":%llu}", kills,
             (unsigned long long)sandbox_view(s).memory);
    ch->type = "sandbox.oom";
    ch->detail = str_from(event->text);
    ch->edit = edit_oom;
    ch->done = on_oom_recorded;
    ch->user = event;
    change_submit(ch);
}

void sandbox_note_oom(struct sandbox *s, uint32_t kills)
{
    uint32_t more = kills > s->detail.oom.counted ? kills - s->detail.oom.counted : 0;

    if (!more)
        return;
    s->detail.has_oom = true;
    s->detail.oom.counted = kills;
    s->detail.oom.kills += more;
    s->detail.oom.last_ns = clock_wall();
    if (!s->destroying)
        record_oom(s, more);
}

void sandbox_reset_oom(struct sandbox *s)
{
    s->detail.oom.counted = 0;
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
