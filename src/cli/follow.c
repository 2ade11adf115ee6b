/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/follow.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/own.h"
#include "base/rfc3339.h"
#include "cli/answer.h"

static int request_events(const struct follow *f, int64_t from, int most, bool wait,
                          struct api_call *c)
{
    char after[24], limit[16], seconds[16];

    snprintf(after, sizeof after, "%" PRId64, from);
    snprintf(limit, sizeof limit, "%d", most);
    snprintf(seconds, sizeof seconds, "%d", f->wait_s ? f->wait_s : FOLLOW_WAIT_S);
    api_call_init(c, f->verb, f->common, "GET");
    if (f->sandbox)
        api_call_path(c, "/v1/sandboxes/%s/events", f->sandbox);
    else
        api_call_path(c, "/v1/events");
    api_call_query(c, "after", after);
    api_call_query(c, "kind", f->kind);
    api_call_query(c, "limit", limit);
    api_call_query(c, "wait", wait ? seconds : NULL);
    return api_call_run(c);
}

int follow_next(struct follow *f, bool wait, struct api_call *c, const struct json **ret)
{
    int64_t at;
    int status = request_events(f, f->after, FOLLOW_PAGE, wait, c);

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

/* Searches the last position with `most` events behind it, of which the first is older than
 * `before`. */
struct event_position_query {
    int most;
    int64_t before; /* INT64_MAX: of any age */
};

/* Whether this place is one of those; if so, *ret is the last place with the same events behind
 * it. */
static int test_event_position(const struct follow *f, const struct event_position_query *p,
                               int64_t at, bool *ret_is, int64_t *ret)
{
    AUTO(api_call_done) struct api_call c;
    const struct json *events, *first;
    int64_t time_ns = INT64_MIN, seq;
    int status = request_events(f, at, p->most, false, &c);

    *ret_is = false;
    *ret = at;
    if (status)
        return status;
    events = answer_rows(c.answer, &kind_event);
    first = json_first(events);
    if (json_end(events) - first < p->most)
        return 0;
    seq = show_int(first, "seq", at);
    if (p->before != INT64_MAX && !rfc3339_parse(show_string(first, "time"), &time_ns))
        time_ns = INT64_MAX;
    *ret_is = time_ns < p->before;
    if (*ret_is && seq > at)
        *ret = seq - 1;
    return 0;
}

/* Sequence numbers and times only grow, so a binary search finds the position. -1: no such
 * position. */
static int find_event_position(const struct follow *f, const struct event_position_query *p,
                               int64_t *ret)
{
    int64_t low = -1, high = 0, step = 1, found;
    bool is = true;
    int status = 0;

    while (status == 0 && is && high < INT64_MAX / 4) { /* `high` is behind the position */
        status = test_event_position(f, p, high, &is, &found);
        if (is)
            low = found;
        if (is)
            high = found + step;
        step *= 2;
    }
    while (status == 0 && high - low > 1) {
        int64_t middle = low + (high - low) / 2;

        status = test_event_position(f, p, middle, &is, &found);
        if (is)
            low = found;
        else
            high = middle;
    }
    *ret = low;
    return status;
}

static int skip_to_event(struct follow *f, const struct event_position_query *p, int64_t behind)
{
    struct follow lifecycle = *f;
    int64_t at;
    int status;

    lifecycle.kind = NULL; /* egress events have no sequence numbers of their own */
    status = find_event_position(&lifecycle, p, &at);
    if (status == 0)
        f->after = at < 0 ? 0 : at + behind;
    return status;
}

int follow_skip(struct follow *f)
{
    return skip_to_event(f, &(struct event_position_query){ .most = 1, .before = INT64_MAX }, 1);
}

int follow_skip_to_last(struct follow *f, int n)
{
    return skip_to_event(f, &(struct event_position_query){ .most = n, .before = INT64_MAX }, 0);
}

int follow_skip_to_time(struct follow *f, int64_t time_ns)
{
    return skip_to_event(f, &(struct event_position_query){ .most = 1, .before = time_ns }, 1);
}
