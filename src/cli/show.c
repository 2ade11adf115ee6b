/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/show.h"

#include <inttypes.h>
#include <signal.h>

#include "base/clock.h"
#include "base/rfc3339.h"
#include "cli/time_text.h"
#include "lib/json/number.h"

const struct json *show_at(const struct json *v, const char *path)
{
    struct str rest = str_from(path), name;

    while (v && rest.p && rest.n) {
        rest = str_cut(rest, '.', &name);
        v = json_get(v, name);
    }
    return v && v->type != JSON_NULL ? v : NULL;
}

struct str show_string(const struct json *v, const char *path)
{
    v = show_at(v, path);
    return v && v->type == JSON_STR ? v->s : (struct str){ NULL, 0 };
}

int64_t show_int(const struct json *v, const char *path, int64_t otherwise)
{
    v = show_at(v, path);
    return v && v->type == JSON_INT ? v->i : otherwise;
}

unsigned long long show_count(const struct json *v, const char *path)
{
    int64_t n = show_int(v, path, 0);

    return n > 0 ? (unsigned long long)n : 0;
}

bool show_true(const struct json *v, const char *path)
{
    v = show_at(v, path);
    return v && v->type == JSON_BOOL && v->b;
}

/* "a, b" or "k=v, k=v". */
static void show_items(const struct json *v, int64_t now, struct buf *out)
{
    for (const struct json *item = json_first(v); item != json_end(v); item++) {
        if (item != json_first(v))
            buf_add(out, STR(", "));
        if (v->type == JSON_OBJECT)
            buf_addf(out, STR_FMT "=", STR_ARG(item->key));
        if (item->type >= JSON_ARRAY)
            buf_add(out, item->type == JSON_ARRAY ? STR("[…]") : STR("{…}"));
        else
            show_text(item, now, out);
    }
}

void show_text(const struct json *v, int64_t now, struct buf *out)
{
    char number[JSON_DOUBLE_TEXT];

    if (!v)
        return;
    switch (v->type) {
    case JSON_BOOL:
        buf_add(out, v->b ? STR("yes") : STR("no"));
        break;
    case JSON_INT:
        buf_addf(out, "%" PRId64, v->i);
        break;
    case JSON_UINT:
        buf_addf(out, "%" PRIu64, v->u);
        break;
    case JSON_DOUBLE:
        json_double_text(v->d, number);
        buf_add(out, str_from(number));
        break;
    case JSON_STR:
        buf_add(out, v->s);
        break;
    default:
        show_items(v, now, out);
    }
}

static void show_time_as(const struct json *v, int64_t now, struct buf *out,
                         void (*as)(int64_t, int64_t, char *))
{
    char text[WHEN_TEXT];
    int64_t then;

    if (!v || v->type != JSON_STR)
        return;
    if (!rfc3339_parse(v->s, &then)) {
        show_text(v, now, out);
        return;
    }
    as(then, now, text);
    buf_add(out, str_from(text));
}

void show_age(const struct json *v, int64_t now, struct buf *out)
{
    show_time_as(v, now, out, when_ago);
}

void show_until(const struct json *v, int64_t now, struct buf *out)
{
    show_time_as(v, now, out, when_until);
}

static void span_since(int64_t then, int64_t now, char *out)
{
    when_span(now - then, out);
}

void show_since(const struct json *v, int64_t now, struct buf *out)
{
    show_time_as(v, now, out, span_since);
}

static void write_moment(int64_t then, int64_t now, char *out)
{
    char text[TIME_TEXT];

    time_text(then, text);
    snprintf(out, WHEN_TEXT, "%.*sZ", (int)strcspn(text, ".Z"), text);
}

void show_moment(const struct json *v, int64_t now, struct buf *out)
{
    char text[WHEN_TEXT];

    if (!v || v->type != JSON_INT) {
        show_time_as(v, now, out, write_moment);
    } else if (v->i >= 0 && v->i < INT64_MAX / NS_PER_MS) {
        write_moment(v->i * NS_PER_MS, now, text);
        buf_add(out, str_from(text));
    }
}

static bool as_number(const struct json *v, double *ret)
{
    if (!v || (v->type != JSON_INT && v->type != JSON_UINT && v->type != JSON_DOUBLE))
        return false;
    *ret = v->type == JSON_INT ? (double)v->i : v->type == JSON_UINT ? (double)v->u : v->d;
    return true;
}

void show_seconds(const struct json *v, int64_t now, struct buf *out)
{
    char text[WHEN_TEXT];
    double seconds;

    if (!as_number(v, &seconds) || seconds < 0 || seconds > 1e9) {
        show_text(v, now, out);
        return;
    }
    when_span((int64_t)(seconds * 1e9), text);
    buf_add(out, str_from(text));
}

void show_bytes(const struct json *v, int64_t now, struct buf *out)
{
    static const char units[] = " KMGTP";
    size_t at = 0;
    double bytes;

    if (!as_number(v, &bytes) || bytes < 0) {
        show_text(v, now, out);
        return;
    }
    for (; bytes >= 1024 && at + 2 < sizeof units; at++)
        bytes /= 1024;
    if (at == 0)
        buf_addf(out, "%.0f", bytes);
    else
        buf_addf(out, bytes < 10 ? "%.1f%c" : "%.0f%c", bytes, units[at]);
}

static bool needs_quotes(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (strchr(" \t\n'\"\\$`&|;<>()*?[]{}~#!", s.p[i]))
            return true;
    return s.n == 0;
}

static void append_shell_quoted(struct str s, struct buf *out)
{
    buf_add_c(out, '\'');
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '\'')
            buf_add(out, STR("'\\''"));
        else
            buf_add_c(out, s.p[i]);
    buf_add_c(out, '\'');
}

void show_command(const struct json *v, int64_t now, struct buf *out)
{
    if (!v || v->type != JSON_ARRAY) {
        show_text(v, now, out);
        return;
    }
    for (const struct json *word = json_first(v); word != json_end(v); word++) {
        if (word != json_first(v))
            buf_add_c(out, ' ');
        if (word->type != JSON_STR)
            show_text(word, now, out);
        else if (needs_quotes(word->s))
            append_shell_quoted(word->s, out);
        else
            buf_add(out, word->s);
    }
}

bool show_is_oom(const struct json *end)
{
    return show_count(end, "oom_kills") && (str_eq(show_string(end, "signal"), STR("KILL")) ||
                                            show_count(end, "exit_code") == 128 + SIGKILL);
}

void show_outcome(const struct json *v, int64_t now, struct buf *out)
{
    struct str state = show_string(v, "state"), signal = show_string(v, "signal");

    if (!str_eq(state, STR("exited"))) {
        buf_add(out, state);
    } else if (show_true(v, "timed_out")) {
        buf_add(out, STR("timed out"));
    } else if (show_is_oom(v)) {
        buf_add(out, STR("out of memory"));
    } else if (signal.n) {
        buf_addf(out, "signal " STR_FMT, STR_ARG(signal));
    } else {
        buf_add(out, STR("exit "));
        show_text(show_at(v, "exit_code"), now, out);
    }
}
