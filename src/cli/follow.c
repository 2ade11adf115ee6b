/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/rfc3339.h"
#include "cli/answer.h"

static void add_query_number(struct api_call *c, const char *name, int64_t n)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRId64, n);
    api_call_query(c, name, text);
}

void follow_request(const struct follow *f, const char *kind, struct api_call *c)
{
    api_call_init(c, f->verb, f->common, "GET");
    if (f->sandbox)
        api_call_path(c, "/v1/sandboxes/%s/events", f->sandbox);
    else
        api_call_path(c, "/v1/events");
    add_query_number(c, "after", f->after);
    api_call_query(c, "kind", kind);
    api_call_query(c, "since", f->since);
    api_call_query(c, "until", f->until);
    api_call_query(c, "type", f->type);
}

int follow_next(struct follow *f, bool wait, struct api_call *c, const struct json **ret)
{
    int64_t at;
    int status;

    follow_request(f, f->kind, c);
    add_query_number(c, "limit", FOLLOW_PAGE);
    if (wait)
        add_query_number(c, "wait", f->wait_s ? f->wait_s : FOLLOW_WAIT_S);
    status = api_call_run(c);

    if (status)
        return status;
    *ret = answer_rows(c->answer, &kind_event);
    at = show_int(c->answer, "next", f->after);
    for (const struct json *event = json_first(*ret); event != json_end(*ret); event++) {
        f->after = at > f->after ? at : f->after;
        at = show_int(event, "seq", f->after);
    }
    f->after = at > f->after ? at : f->after;
    return 0;
}

/* The kinds that have sequence numbers, of those that are shown: events of egress have none. NULL:
 * those of lifecycles. */
static const char *stored_kinds(const char *shown)
{
    bool lifecycle = shown && strstr(shown, "lifecycle"),
         commands = shown && strstr(shown, "commands");

    if (!commands)
        return NULL;
    return lifecycle ? "lifecycle,commands" : "commands";
}

static int request_last_events(const struct follow *f, int n, struct api_call *c)
{
    follow_request(f, stored_kinds(f->kind), c);
    add_query_number(c, "tail", n);
    return api_call_run(c);
}

int follow_skip(struct follow *f)
{
    AUTO(api_call_done) struct api_call c;
    int status = request_last_events(f, 1, &c);

    if (status == 0)
        f->after = show_int(c.answer, "next", f->after);
    return status;
}

int follow_skip_to_last(struct follow *f, int n)
{
    AUTO(api_call_done) struct api_call c;
    const struct json *events;
    int status = request_last_events(f, n, &c);

    if (status)
        return status;
    events = answer_rows(c.answer, &kind_event);
    if (json_first(events) != json_end(events))
        f->after = show_int(json_first(events), "seq", 1) - 1;
    return 0;
}
