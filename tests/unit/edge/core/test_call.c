/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/call.h"

#include <errno.h>

#include "base/own.h"
#include "edge/core/internal.h"
#include "harness/tap.h"

static struct buf text;

static struct str problem(const struct err *e)
{
    struct json_writer w;

    buf_done(&text);
    buf_init(&text, 4096);
    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    problem_write_members(&w, &(struct call_problem){ .err = e });
    json_end_object(&w);
    CHECK(json_writer_finish(&w, NULL) >= 0);
    return buf_str(&text);
}

/* Our own files and sockets fail with the same numbers as those of a request. */
TEST(a_system_call_of_ours_that_failed_is_no_mistake_of_the_client)
{
    static const int numbers[] = { ENOENT, EACCES, EPERM, ENOTDIR, EINVAL, EEXIST, ENOSPC, EIO };

    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        struct err e;

        errno = numbers[i];
        CHECK_INT(err_sys(&e, "opening the store"), -ERR_SYS);
        CHECK(strstr(problem(&e).p, "\"status\":500,\"code\":\"system\""));
    }
}

TEST(what_was_said_inside_keeps_its_number)
{
    struct err e = { .code = ERR_NOT_FOUND, .sys = ENOENT, .msg = "stat: no such file" };

    CHECK(strstr(problem(&e).p, "\"status\":404,\"code\":\"not_found\""));
    CHECK(strstr(problem(&e).p, "\"errno\":\"ENOENT\""));
}

/* --- states --- */

static char ended[8];

static void note_end(void *state)
{
    ended[strlen(ended)] = *(const char *)state;
}

static char *add_state(struct call *c, char name)
{
    char *state = call_state(c, 4096, note_end);

    CHECK_INT(state[4095], 0);
    CHECK(c->state == state);
    state[0] = name;
    return state;
}

TEST(states_end_once_with_their_call_and_the_newest_first)
{
    struct call *c = new0(sizeof *c);
    struct api api = { .calls = 2 };
    char *first, *second;
    struct loop loop;
    struct err e;

    CHECK_OK(loop_init(&loop, &e), e);
    *c = (struct call){ .api = &api, .loop = &loop, .refs = 2 };
    arena_init(&c->arena, CALL_ARENA_MAX);
    arena_init(&c->own, PTRDIFF_MAX);
    first = add_state(c, 'a');
    second = add_state(c, 'b');
    CHECK(call_state(c, 1, NULL) != second);
    call_unref(c);
    CHECK_OK(loop_run_once(&loop, 0, &e), e);
    CHECK_STR(str_from(ended), ""); /* an operation still holds the call */
    CHECK(first[0] == 'a' && second[0] == 'b');
    call_unref(c);
    CHECK(second[0] == 'b'); /* freed by the loop, not by the last reference */
    CHECK_OK(loop_run_once(&loop, 0, &e), e);
    CHECK_STR(str_from(ended), "ba");
    CHECK_INT(api.calls, 1);
    loop_done(&loop);
}

TEST(what_a_call_owns_is_released_with_it)
{
    struct call *c = new0(sizeof *c);
    struct api api = { .calls = 2 };
    int pair[2], *fd;
    struct buf *owned;
    struct loop loop;
    struct err e;
    char byte;

    CHECK_OK(loop_init(&loop, &e), e);
    *c = (struct call){ .api = &api, .loop = &loop, .refs = 1 };
    arena_init(&c->own, PTRDIFF_MAX);
    fd = call_alloc(c, 1, sizeof *fd);
    owned = call_alloc(c, 1, sizeof *owned);
    call_own_fd(c, fd);
    CHECK_INT(*fd, -1);
    call_own_buf(c, owned, 16);
    CHECK_INT(buf_add(owned, STR("text")), 0);
    CHECK_INT(pipe(pair), 0);
    *fd = pair[1];
    call_unref(c);
    CHECK_OK(loop_run_once(&loop, 0, &e), e);
    CHECK_INT(read(pair[0], &byte, 1), 0); /* the other end is closed */
    close(pair[0]);
    loop_done(&loop);
}
