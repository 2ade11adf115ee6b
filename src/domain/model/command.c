/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/command.h"

#include "base/clock.h"
#include "base/rfc3339.h"
#include "lib/json/reader.h"

enum { ARGS_MAX = 256, SHORT_MAX = 256, NO_EXIT = -1 };

const char *const command_recording_names[] = { "masked", "full", "none", NULL };

const char *const command_outcome_names[] = {
    [COMMAND_RUNNING] = "running",
    [COMMAND_EXITED] = "exited",
    [COMMAND_SIGNALLED] = "signalled",
    [COMMAND_TIMED_OUT] = "timed_out",
    [COMMAND_OUT_OF_MEMORY] = "out_of_memory",
    [COMMAND_ABANDONED] = "abandoned",
    [COMMAND_NOT_STARTED] = "not_started",
    [COMMAND_SENT] = "sent",
    [COMMAND_LOST] = "lost",
    [COMMAND_OUTCOME_COUNT_] = NULL,
};

#define AT(member) JSON_AT(struct command, member)

static const struct json_field command_fields[] = {
    { "command", JSON_KIND_STR, AT(id), .max = SHORT_MAX },
    { "outcome", JSON_KIND_ENUM, AT(outcome), .names = command_outcome_names },
    { "argv", JSON_KIND_STRS, AT(argv), .max = ARGS_MAX },
    { "requested", JSON_KIND_STR, AT(requested), .max = COMMAND_REQUESTED_MAX },
    { "masked", JSON_KIND_UINT, AT(masked) },
    { "truncated", JSON_KIND_BOOL, AT(truncated) },
    { "user", JSON_KIND_STR, AT(user), .max = SHORT_MAX },
    { "client", JSON_KIND_STR, AT(client), .max = SHORT_MAX },
    { "token", JSON_KIND_STR, AT(token), .max = SHORT_MAX },
    { "background", JSON_KIND_BOOL, AT(background) },
    { "process", JSON_KIND_UINT, AT(process) },
    { "started_ms", JSON_KIND_INT, AT(started_ms) },
    { "duration_ms", JSON_KIND_INT, AT(duration_ms) },
    { "exit_code", JSON_KIND_INT, AT(exit_code) },
    { "signal", JSON_KIND_STR, AT(signal), .max = SHORT_MAX },
    { "reason", JSON_KIND_STR, AT(reason), .max = SHORT_MAX },
};

int command_write(const struct command *c, struct buf *out, struct err *e)
{
    struct json_writer w;
    struct command v = *c;
    const struct command defaults = { .outcome = COMMAND_OUTCOME_COUNT_, .exit_code = NO_EXIT };

    if (v.outcome != COMMAND_EXITED)
        v.exit_code = NO_EXIT;
    json_writer_init(&w, out, JSON_COMPACT);
    json_unbind_changed(&v, &defaults, command_fields, COUNT_OF(command_fields), &w);
    return json_writer_finish(&w, e);
}

int command_read(struct str detail, struct command *ret, struct arena *a, struct err *e)
{
    const struct json_limits limits = { .bytes = COMMAND_JSON_MAX, .depth = 4 };
    struct command c = { 0 };
    const struct json *v;
    int r = json_read(detail, limits, a, &v, e);

    if (r >= 0)
        r = json_bind(v, command_fields, COUNT_OF(command_fields), &c, a, e);
    if (r < 0)
        return r;
    *ret = c;
    return 0;
}

bool command_failed(const struct command *c)
{
    return c->outcome != COMMAND_RUNNING && c->outcome != COMMAND_SENT &&
           (c->outcome != COMMAND_EXITED || c->exit_code != 0);
}

/* --- a row of a list --- */

static const struct command *command_of_row(const void *row)
{
    return ((const struct command_row *)row)->command;
}

static void write_started_at(struct json_writer *w, const char *name, const void *row)
{
    int64_t ns = command_of_row(row)->started_ms * NS_PER_MS;
    char text[TIME_TEXT];

    if (!ns)
        return;
    time_text(ns, text);
    json_field_cstr(w, name, text);
}

static void write_command_duration(struct json_writer *w, const char *name, const void *row)
{
    const struct command *c = command_of_row(row);

    if (c->outcome != COMMAND_RUNNING && c->outcome != COMMAND_SENT && c->outcome != COMMAND_LOST)
        json_field_int(w, name, c->duration_ms);
}

static void write_exit_code(struct json_writer *w, const char *name, const void *row)
{
    const struct command *c = command_of_row(row);

    if (c->outcome == COMMAND_EXITED)
        json_field_int(w, name, c->exit_code);
}

#define OF_EVENT(member)                                                                           \
    .via = offsetof(struct command_row, event), JSON_AT(struct event_record, member)
#define OF_COMMAND(member)                                                                         \
    .via = offsetof(struct command_row, command), JSON_AT(struct command, member)

static const struct json_field actor_fields[] = {
    { "kind", JSON_KIND_ENUM, JSON_AT(struct actor, kind), .required = true,
      .names = actor_kind_names },
    { "id", JSON_KIND_CHARS, JSON_AT(struct actor, id), .required = true },
};

static const struct json_field row_fields[] = {
    { "id", JSON_KIND_TEXT, OF_COMMAND(id), .required = true },
    { "seq", JSON_KIND_INT, JSON_AT(struct command_row, seq), .optional = true },
    { "sandbox_id", JSON_KIND_CHARS, OF_EVENT(sandbox), .required = true },
    { "owner", JSON_KIND_CHARS, OF_EVENT(owner), .required = true },
    { "started_at", JSON_KIND_TEXT, .write = write_started_at },
    { "argv", JSON_KIND_TEXTS, OF_COMMAND(argv), .required = true },
    { "requested", JSON_KIND_TEXT, OF_COMMAND(requested) },
    { "masked", JSON_KIND_UINT, OF_COMMAND(masked), .optional = true },
    { "truncated", JSON_KIND_BOOL, OF_COMMAND(truncated), .optional = true },
    { "user", JSON_KIND_TEXT, OF_COMMAND(user), .required = true },
    { "client", JSON_KIND_TEXT, OF_COMMAND(client), .required = true },
    { "actor", JSON_KIND_OBJECT, .via = offsetof(struct command_row, event),
      JSON_AT(struct event_record, actor), .required = true, .schema = "Actor",
      JSON_FIELDS(actor_fields) },
    { "token", JSON_KIND_TEXT, OF_COMMAND(token) },
    { "background", JSON_KIND_BOOL, OF_COMMAND(background), .optional = true },
    { "process", JSON_KIND_UINT, OF_COMMAND(process), .optional = true },
    { "outcome", JSON_KIND_ENUM, OF_COMMAND(outcome), .required = true,
      .names = command_outcome_names },
    { "exit_code", JSON_KIND_INT, .write = write_exit_code },
    { "signal", JSON_KIND_TEXT, OF_COMMAND(signal) },
    { "reason", JSON_KIND_TEXT, OF_COMMAND(reason) },
    { "duration_ms", JSON_KIND_INT, .write = write_command_duration },
};
const struct json_shape command_answer = { "Command", JSON_FIELDS(row_fields) };
