/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/rest/command_filter.h"

#include "base/own.h"

enum { EXIT_CODE_MAX = 255 };

static bool read_status_filter(struct call *c, struct command_filter *f)
{
    struct str text;
    uint64_t code;
    int r = call_query(c, "status", &text);

    if (r <= 0)
        return r == 0;
    if (str_to_u64(text, &code) && code <= EXIT_CODE_MAX) {
        f->by_code = true;
        f->code = (int)code;
        return true;
    }
    for (size_t i = 0; command_outcome_names[i]; i++)
        if (str_eq(text, str_from(command_outcome_names[i]))) {
            f->by_outcome = true;
            f->outcome = (enum command_end)i;
            return true;
        }
    return call_fail_with(c, 400, "invalid",
                          "status: must be an exit code, or running, exited, signalled, timed_out, "
                          "out_of_memory, abandoned, not_started, sent or lost");
}

static bool read_program_filter(struct call *c, struct command_filter *f)
{
    struct str text;
    struct err e;
    int r = call_query(c, "program", &text);

    if (r <= 0)
        return r == 0;
    if (glob_compile(text, GLOB_PLAIN, '/', &c->arena, &f->program, &e) >= 0)
        return true;
    return call_fail_with(c, 400, "invalid", "program: %s", e.msg);
}

bool command_filter_read(struct call *c, struct command_filter *ret)
{
    *ret = (struct command_filter){ 0 };
    return call_query_time(c, "since", &ret->since_ns) >= 0 &&
           call_query_time(c, "until", &ret->until_ns) >= 0 &&
           call_query(c, "client", &ret->client) >= 0 &&
           call_query(c, "caller", &ret->caller) >= 0 &&
           call_query_bool(c, "failed", &ret->failed) >= 0 && read_status_filter(c, ret) &&
           read_program_filter(c, ret);
}

static struct str last_path_part(struct str path)
{
    size_t from = path.n;

    while (from > 0 && path.p[from - 1] != '/')
        from--;
    return (struct str){ path.p + from, path.n - from };
}

static bool is_filtered_program(const struct command_filter *f, const struct command *c)
{
    struct str program = str_from(c->argv.n ? c->argv.p[0] : "");

    return !f->program || glob_match(f->program, program) ||
           glob_match(f->program, last_path_part(program));
}

/* Its id, its owner, or the name of its token. */
static bool is_filtered_caller(const struct command_filter *f, const struct command_row *row)
{
    return !f->caller.n || str_eq(f->caller, str_from(row->event->actor.id)) ||
           str_eq(f->caller, str_from(row->event->owner)) ||
           (row->command->token && str_eq(f->caller, str_from(row->command->token)));
}

bool command_filter_fits(const struct command_filter *f, const struct command_row *row)
{
    const struct command *c = row->command;

    return (!f->failed || command_failed(c)) &&
           (!f->by_code || (c->outcome == COMMAND_EXITED && c->exit_code == f->code)) &&
           (!f->by_outcome || c->outcome == f->outcome) &&
           (!f->client.n || (c->client && str_eq(f->client, str_from(c->client)))) &&
           is_filtered_caller(f, row) && is_filtered_program(f, c);
}
