/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/own.h"
#include "cli/agent/agent.h"
#include "cli/checkpoint.h"

#define AGENT_CHECKPOINT "5m"

const char *agent_checkpoint_interval(const struct agent_options *o)
{
    if (!o->checkpoint) /* they have no files of mounts */
        return o->workspace && strcmp(o->workspace, "mount") == 0 ? NULL : AGENT_CHECKPOINT;
    return strpbrk(o->checkpoint, "123456789") ? o->checkpoint : NULL;
}

static int fetch_undos(const struct agent *a, long long *ret, struct err *e)
{
    AUTO(api_call_done) struct api_call c;

    api_call_init(&c, a->verb, &a->o->common, "GET");
    api_call_path(&c, "/v1/sandboxes/%s/checkpoints", a->sandbox);
    if (!api_call_answers(&c, e))
        return -1;
    *ret = show_int(c.answer, "undos", 0);
    return 0;
}

void agent_take_checkpoint(struct agent *a)
{
    if (a->o->resume || agent_checkpoint_interval(a->o))
        checkpoint_take_first(a->verb, &a->o->common, a->sandbox,
                              a->o->resume ? "agent resumed" : "agent started");
    if (fetch_undos(a, &a->undos, NULL) < 0)
        a->undos = -1;
}

bool agent_was_undone(const struct agent *a)
{
    long long now;

    return a->undos >= 0 && fetch_undos(a, &now, NULL) >= 0 && now != a->undos;
}
