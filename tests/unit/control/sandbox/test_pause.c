/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox notes at each of its pauses and resumes: a long life needs no more memory. */
#include <stdio.h>

#include "base/own.h"
#include "control/sandbox/sandbox.h"
#include "unit/control/fixture.h"

enum { PAUSES = 40000, RESUMES = 5000 }; /* more than the arena of a sandbox could hold */

static void name_layer(char ret[static ID_MAX], int i)
{
    snprintf(ret, ID_MAX, "lay_%020d", i);
}

TEST(every_pause_notes_its_layer)
{
    struct sandbox *s;
    size_t used;

    plane_open();
    s = new_sandbox();
    used = s->arena.used;
    for (int i = 0; i < PAUSES; i++) {
        struct sandbox_record next = s->record;
        struct capture c = { .bytes = 1 };

        name_layer(c.layer, i);
        pause_note(s, &next, &c, false);
        CHECK(s->detail.paused.layer);
        CHECK_STR(str_from(s->detail.paused.layer), c.layer);
    }
    CHECK_INT(s->arena.used, used);
    s->detail.has_paused = false; /* no layer is referenced */
    destroy(s);
    sandbox_unref(s);
    plane_close();
}

TEST(every_rebuild_has_its_layers)
{
    char top[ID_MAX], below[ID_MAX] = "lay_00000000000000000000";
    const char *const floor[] = { below };
    const struct json_strs base = { floor, COUNT_OF(floor) };
    const struct json_strs none = { NULL, 0 };
    struct sandbox *s;
    size_t used;

    plane_open();
    s = new_sandbox();
    used = s->arena.used;
    for (int i = 0; i < RESUMES; i++) {
        struct json_strs old = s->detail.layers;

        name_layer(top, i);
        CHECK_OK(sandbox_set_stack(s, top, i ? &old : &base, &e), e);
        CHECK_INT(s->stack.n, 2 + (i > 0));
        s->stack.n = 2; /* as if flattened */
        sandbox_exchange_layers(s, &s->stack, &s->stack_arena);
        sandbox_note_box(s);
        CHECK_STR(str_from(s->detail.layers.p[0]), top);
        if (i)
            CHECK_STR(str_from(s->detail.layers.p[1]), old.p[0]); /* valid until the next one */
    }
    CHECK_INT(s->arena.used, used);
    s->detail.layers = none; /* no layer is referenced */
    destroy(s);
    sandbox_unref(s);
    plane_close();
}

TEST(an_exchange_can_be_taken_back)
{
    AUTO(arena_done) struct arena names = ARENA_INIT(4096);
    const char *const next[] = { "lay_b", "lay_c" };
    struct json_strs list = { next, COUNT_OF(next) }, old;
    struct sandbox *s;

    plane_open();
    s = new_sandbox();
    CHECK_OK(sandbox_set_stack(s, "lay_a", &(struct json_strs){ NULL, 0 }, &e), e);
    sandbox_exchange_layers(s, &s->stack, &s->stack_arena);
    old = s->detail.layers;
    CHECK(json_strs_copy(&list, &names));
    sandbox_exchange_layers(s, &list, &names);
    CHECK_STR(str_from(s->detail.layers.p[1]), "lay_c");
    sandbox_exchange_layers(s, &old, &names);
    CHECK_STR(str_from(s->detail.layers.p[0]), "lay_a");
    CHECK_STR(str_from(list.p[0]), "lay_b");
    s->detail.layers = (struct json_strs){ NULL, 0 };
    destroy(s);
    sandbox_unref(s);
    plane_close();
}
