#include "control/oom.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/change.h"
#include "control/sandbox.h"
#include "control/spec.h"

struct oom_news {
    char text[96];
};

static void edit_oom(struct change *ch, struct sandbox_record *next)
{
    sandbox_put_facts(ch->sandbox, next);
}

static void told_oom(struct change *ch, int r, const struct err *e)
{
    (void)r; /* without a record of it, the next one records both */
    (void)e;
    free(ch->user);
}

static void record_oom(struct sandbox *s, uint32_t kills)
{
    struct change *ch = change_new(s, &ACTOR_DAEMON, "out of memory");
    struct oom_news *news = calloc(1, sizeof *news);

    if (!news)
        abort();
    snprintf(news->text, sizeof news->text, "{\"oom_kills\":%u,\"memory_limit\":%llu}", kills,
             (unsigned long long)sandbox_view(s).memory);
    ch->type = "sandbox.oom";
    ch->detail = str_from(news->text);
    ch->edit = edit_oom;
    ch->done = told_oom;
    ch->user = news;
    change_submit(ch);
}

void sandbox_note_oom(struct sandbox *s, uint32_t kills)
{
    uint32_t more = kills > s->facts.oom.counted ? kills - s->facts.oom.counted : 0;

    if (!more)
        return;
    s->facts.has_oom = true;
    s->facts.oom.counted = kills;
    s->facts.oom.kills += more;
    s->facts.oom.last_ns = clock_wall();
    if (!s->destroying)
        record_oom(s, more);
}

void sandbox_reset_oom(struct sandbox *s)
{
    s->facts.oom.counted = 0;
}

struct ext_end sandbox_end(const struct sandbox *s, const struct ext_end *end)
{
    struct ext_end ret = *end;
    bool known = s->profile;

    ret.memory_limit = known && !(s->facts.unenforced & EXT_LIMIT_MEMORY)
                           ? spec_memory(s->profile, &s->request)
                           : 0;
    ret.disk_limit = known && !(s->facts.unenforced & EXT_LIMIT_DISK) ? spec_disk(s->profile) : 0;
    return ret;
}
