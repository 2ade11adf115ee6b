/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/own.h"
#include "base/units.h"
#include "cli/follow.h"
#include "cli/verbs/verbs.h"

struct wait_options {
    struct common common;
    struct option_list states;
    const char *timeout;
};

#define AT(member) .at = offsetof(struct wait_options, member)

static const struct option_spec options[] = {
    { "state", 's', "STATE",
      "until it is in this state; can be repeated (default: expired, failed or destroyed)",
      .kind = OPTION_LIST, AT(states),
      .words = "ready active paused expired failed destroying destroyed" },
    { "timeout", 0, "DURATION", "give up after that long: 30s, 5m", .kind = OPTION_DURATION,
      AT(timeout) },
};

struct wait_call {
    struct follow follow;
    struct option_list wanted;
    int64_t deadline; /* 0: none */
    char reached[32];
};

/* States that nothing but the end follows. */
static const struct option_list ends = { { "expired", "failed", "destroyed", "destroying" }, 4 };
enum { ENDS_BY_DEFAULT = 3 };

static bool is_state_listed(const struct option_list *list, struct str state)
{
    for (size_t i = 0; i < list->n; i++)
        if (str_eq(str_from(list->p[i]), state))
            return true;
    return false;
}

static bool has_end_state(const struct option_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (is_state_listed(&ends, str_from(list->p[i])))
            return true;
    return false;
}

/* Judges a state: true if waiting is over, with the status in *ret. */
static bool test_state(struct wait_call *w, struct str state, int *ret)
{
    *ret = 0;
    if (is_state_listed(&w->wanted, state)) {
        str_copy(state, w->reached, sizeof w->reached);
        return true;
    }
    if (!str_eq(state, STR("destroyed")) &&
        (!is_state_listed(&ends, state) || has_end_state(&w->wanted)))
        return false;
    verb_failed(w->follow.verb, "%s is " STR_FMT " and will not be %s", w->follow.sandbox,
                STR_ARG(state), w->wanted.p[0]);
    *ret = EXIT_CONFLICT;
    return true;
}

/* The record as it is now. */
static int fetch_record(const struct wait_call *w, struct api_call *c)
{
    api_call_init(c, w->follow.verb, w->follow.common, "GET");
    api_call_path(c, "/v1/sandboxes/%s", w->follow.sandbox);
    return api_call_run(c);
}

static bool test_record(struct wait_call *w, int *ret)
{
    AUTO(api_call_done) struct api_call c;

    *ret = fetch_record(w, &c);
    return *ret || test_state(w, show_string(c.answer, "state"), ret);
}

/* Waits for the next events and judges them. */
static bool test_events(struct wait_call *w, int *ret)
{
    AUTO(api_call_done) struct api_call c;
    const struct json *events;

    if (w->deadline) {
        int64_t left = w->deadline - clock_mono();

        w->follow.wait_s = left < FOLLOW_WAIT_S * NS_PER_S ? (int)(left / NS_PER_S) + 1 : 0;
    }
    *ret = follow_next(&w->follow, true, &c, &events);
    if (*ret)
        return true;
    for (const struct json *event = json_first(events); event != json_end(events); event++)
        if (show_at(event, "to") && test_state(w, show_string(event, "to"), ret))
            return true;
    return false;
}

static int print_reached(const struct wait_call *w)
{
    AUTO(api_call_done) struct api_call c;
    int status = fetch_record(w, &c);

    return status ? status : answer_done(&c, c.answer, "%s %s", w->follow.sandbox, w->reached);
}

/* Names all states that were waited for. */
static void report_unreached(const struct wait_call *w, const char *timeout)
{
    AUTO(buf_done) struct buf states = BUF_INIT(OPTION_LIST_MAX * 16);

    for (size_t i = 0; i < w->wanted.n; i++)
        buf_addf(&states, "%s%s",
                 i == 0                ? ""
                 : i + 1 < w->wanted.n ? ", "
                                       : " or ",
                 w->wanted.p[i]);
    verb_failed(w->follow.verb, "%s is not " STR_FMT " after %s", w->follow.sandbox,
                STR_ARG(buf_str(&states)), timeout);
}

static int run_wait(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct wait_options *o = options_;
    struct wait_call w = { .follow = { .verb = c->verb, .common = c->common, .sandbox = argv[0] },
                           .wanted = o->states.n ? o->states : ends };
    int64_t timeout = 0;
    int status;

    if (!o->states.n)
        w.wanted.n = ENDS_BY_DEFAULT;
    if (o->timeout) { /* checked by its kind */
        (void)units_duration(str_from(o->timeout), "--timeout", &timeout, NULL);
        w.deadline = clock_mono() + timeout;
    }
    status = follow_skip(&w.follow); /* before the record is read: no change is missed */
    if (status == 0 && !test_record(&w, &status))
        while (!test_events(&w, &status))
            if (w.deadline && clock_mono() >= w.deadline) {
                report_unreached(&w, o->timeout);
                return EXIT_TIMED_OUT;
            }
    return status ? status : print_reached(&w);
}

const struct verb verb_wait = {
    .name = "wait",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "wait until a sandbox is in a state",
    .text = "Without --state until it has ended: expired, failed or destroyed. A sandbox that is\n"
            "in the state already is not waited for; 'active' is one in which a program runs,\n"
            "'ready' one in which none does.\n"
            "\n"
            "Exit status: 0 when it is in the state; 4 if it has ended otherwise; 124 after\n"
            "--timeout.\n"
            "\n"
            "  sandboxer wait sbx_4k7\n"
            "  sandboxer wait --state ready --timeout 1m sbx_4k7\n",
    OPTIONS(options, struct wait_options),
    .run = run_wait,
    .flags = VERB_ASKS,
};
