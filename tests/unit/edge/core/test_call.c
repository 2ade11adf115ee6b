/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/call.h"

#include <errno.h>

#include "base/own.h"
#include "harness/tap.h"

static struct buf text;

static struct str problem(const struct err *e)
{
    struct json_writer w;

    buf_done(&text);
    buf_init(&text, 4096);
    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    problem_fields(&w, e, problem_status(e->code), problem_code(e->code), NULL, NULL);
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
