/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/tools/workspace.h"

#include <stdio.h>

#include "edge/tools/workspace_end.h"
#include "unit/control/fixture.h"

static struct api api;

static struct mcp_client *peer_client(struct peer *p)
{
    struct caller who = fix.caller;
    struct mcp_client *m;

    api.control = fix.control;
    m = mcp_client_new(&api, &who);
    m->peer = p;
    return m;
}

/* A peer sees its own sandboxes, by its label, and that of its session's workspace. */
TEST(the_sandbox_of_the_workspace_is_seen_besides_those_of_the_peer)
{
    static struct json_pair label = { LABEL_PEER, "peer_1" };
    struct peer p = { .refs = 2 };
    struct sandbox *one, *two, *found;
    struct mcp_client *m;

    plane_open();
    one = new_sandbox();
    two = new_sandbox();
    m = peer_client(&p);
    m->caller.labels = (struct json_map){ &label, 1 };
    CHECK(!mcp_workspace_is(m, id_of(one)) && !mcp_workspace_is(m, ""));
    CHECK(!mcp_workspace_sandbox(m));
    CHECK(!control_find_now(fix.control, &m->caller, str_from(id_of(one)), &found));
    snprintf(p.workspace.sandbox, sizeof p.workspace.sandbox, "%s", id_of(one));
    snprintf(m->caller.also, sizeof m->caller.also, "%s", id_of(one));
    CHECK(mcp_workspace_is(m, id_of(one)) && !mcp_workspace_is(m, id_of(two)));
    found = mcp_workspace_sandbox(m);
    CHECK(found == one);
    sandbox_unref(found);
    CHECK(!control_find_now(fix.control, &m->caller, str_from(id_of(two)), &found));
    snprintf(m->caller.owner, sizeof m->caller.owner, "%s", "uid:4711");
    CHECK(!mcp_workspace_sandbox(m));
    mcp_client_free(m);
    destroy(one);
    destroy(two);
    plane_close();
}

static bool is_destroyed(const char *id)
{
    struct sandbox *s = find_sandbox(id);

    sandbox_unref(s);
    return !s;
}

TEST(one_without_a_writable_workspace_is_destroyed_with_the_session)
{
    const struct actor who = { .kind = ACTOR_AGT, .id = "uid:1" };
    char id[ID_MAX];
    struct sandbox *s;

    plane_open();
    s = new_sandbox();
    snprintf(id, sizeof id, "%s", id_of(s));
    workspace_end_begin(s, &who);
    sandbox_unref(s);
    WAIT_FOR(is_destroyed(id));
    plane_close();
}
