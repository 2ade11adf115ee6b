#include "cli/follow.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/own.h"
#include "cli/answer.h"

int follow_next(struct follow *f, bool wait, struct call *c, const struct json **ret)
{
    const struct json *next;
    char after[24], limit[16], seconds[16];
    int status;

    snprintf(after, sizeof after, "%" PRId64, f->after);
    snprintf(limit, sizeof limit, "%d", FOLLOW_PAGE);
    snprintf(seconds, sizeof seconds, "%d", FOLLOW_WAIT_S);
    call_init(c, f->verb, f->common, "GET");
    if (f->sandbox)
        call_path(c, "/v1/sandboxes/%s/events", f->sandbox);
    else
        call_path(c, "/v1/events");
    call_query(c, "after", after);
    call_query(c, "kind", f->kind);
    call_query(c, "limit", limit);
    call_query(c, "wait", wait ? seconds : NULL);
    status = call_run(c);
    if (status)
        return status;
    *ret = answer_rows(c->answer, &kind_event);
    next = show_at(c->answer, "next");
    if (next && next->type == JSON_INT && next->i > f->after)
        f->after = next->i;
    for (const struct json *event = json_first(*ret); event != json_end(*ret); event++) {
        const struct json *seq = show_at(event, "seq");

        if (seq && seq->type == JSON_INT && seq->i > f->after)
            f->after = seq->i;
    }
    return 0;
}

int follow_skip(struct follow *f)
{
    const struct json *events;
    int64_t before;
    int status;

    do {
        AUTO(call_done) struct call c;

        before = f->after;
        status = follow_next(f, false, &c, &events);
        if (status == 0 && json_first(events) == json_end(events))
            return 0;
    } while (status == 0 && f->after > before);
    return status;
}
