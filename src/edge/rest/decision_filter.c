/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/rest/decision_filter.h"

#include "base/clock.h"
#include "base/own.h"
#include "lib/http/h1.h"

enum { DISORDER_MS = 60000 }; /* lines that far apart are in the order of their times */
enum { ACTION_ALLOWED = 1, ACTION_DENIED = 2, ACTION_OBSERVED = 3 }; /* action_id, of OCSF */

static bool read_action_filter(struct call *c, struct decision_filter *f)
{
    struct str text;
    int r = call_query(c, "action", &text);

    if (r <= 0)
        return r == 0;
    if (!str_eq(text, STR("allowed")) && !str_eq(text, STR("denied")))
        return call_fail_with(c, 400, "invalid", "action: must be allowed or denied");
    f->action = text.p[0] == 'a' ? DECISION_ALLOWED : DECISION_DENIED;
    return true;
}

bool decision_filter_read(struct call *c, struct decision_filter *ret)
{
    int64_t since_ns = 0, until_ns = 0;

    *ret = (struct decision_filter){ .action = DECISION_ANY };
    if (call_query_time(c, "since", &since_ns) < 0 || call_query_time(c, "until", &until_ns) < 0 ||
        call_query(c, "host", &ret->host) < 0 || call_query(c, "program", &ret->program) < 0)
        return false;
    ret->since_ms = since_ns / NS_PER_MS;
    ret->until_ms = until_ns / NS_PER_MS;
    return read_action_filter(c, ret);
}

bool decision_filter_selects(const struct decision_filter *f)
{
    return f->since_ms || f->until_ms || f->host.n || f->program.n || f->action != DECISION_ANY;
}

static const struct json *get_line_member(const struct json *line, const char *path)
{
    struct str rest = str_from(path), key;

    while (line && rest.p) {
        rest = str_cut(rest, '.', &key);
        line = json_get(line, key);
    }
    return line;
}

static struct str get_line_text(const struct json *line, const char *path)
{
    const struct json *v = get_line_member(line, path);

    return v && v->type == JSON_STR ? v->s : (struct str){ NULL, 0 };
}

static int64_t get_line_number(const struct json *line, const char *path)
{
    const struct json *v = get_line_member(line, path);

    return v && v->type == JSON_INT ? v->i : 0;
}

static bool has_host(const struct json *line, struct str host)
{
    return h1_same(get_line_text(line, "dst_endpoint.hostname"), host) ||
           h1_same(get_line_text(line, "dst_endpoint.ip"), host);
}

/* The path of the program, or its last component. */
static bool has_program(const struct json *line, struct str program)
{
    return str_eq(get_line_text(line, "actor.process.file.path"), program) ||
           str_eq(get_line_text(line, "actor.process.file.name"), program);
}

static bool has_action(const struct json *line, const struct decision_filter *f)
{
    int64_t id = get_line_number(line, "action_id");

    return f->action == DECISION_ANY ||
           (f->action == DECISION_DENIED ? id == ACTION_DENIED
                                         : id == ACTION_ALLOWED || id == ACTION_OBSERVED);
}

enum decision_fit decision_filter_test(const struct decision_filter *f, const struct json *line)
{
    int64_t time = get_line_number(line, "time");

    if (f->since_ms && time < f->since_ms)
        return time < f->since_ms - DISORDER_MS ? DECISION_EARLIER : DECISION_OTHER;
    if (f->until_ms && time >= f->until_ms)
        return time >= f->until_ms + DISORDER_MS ? DECISION_LATER : DECISION_OTHER;
    if ((f->host.n && !has_host(line, f->host)) ||
        (f->program.n && !has_program(line, f->program)) || !has_action(line, f))
        return DECISION_OTHER;
    return DECISION_FITS;
}
