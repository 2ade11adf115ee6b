/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/secrets/env.h"

#include <string.h>

#include "base/own.h"

/* The end of a JSON string whose opening quote is at `at`; text.n if it does not end. */
static size_t end_of_string(struct str text, size_t at)
{
    for (at++; at < text.n && text.p[at] != '"'; at++)
        if (text.p[at] == '\\')
            at++;
    return at < text.n ? at + 1 : text.n;
}

/* The end of the object or string that starts at `at`. */
static size_t end_of_value(struct str text, size_t at)
{
    unsigned depth = 0;

    while (at < text.n) {
        char c = text.p[at];

        at = c == '"' ? end_of_string(text, at) : at + 1;
        depth += c == '{';
        depth -= c == '}' && depth > 0;
        if (!depth)
            break;
    }
    return at;
}

bool env_find(struct str text, unsigned depth, struct str *ret)
{
    unsigned now = 0;

    for (size_t at = 0; at < text.n;) {
        char c = text.p[at];
        size_t end = c == '"' ? end_of_string(text, at) : at + 1;

        now += c == '{' || c == '[';
        now -= (c == '}' || c == ']') && now > 0;
        if (c == '"' && now == depth && end - at == 5 && memcmp(text.p + at, "\"env\"", 5) == 0 &&
            end + 1 < text.n && text.p[end] == ':' &&
            (text.p[end + 1] == '{' || text.p[end + 1] == '"')) {
            *ret = (struct str){ text.p + end + 1, end_of_value(text, end + 1) - (end + 1) };
            return !str_eq(*ret, STR("{}"));
        }
        at = end;
    }
    return false;
}

static int append_replaced(struct str text, struct str part, struct str by, struct buf *out,
                           struct err *e)
{
    const char *behind = part.p + part.n;

    if (buf_add(out, (struct str){ text.p, (size_t)(part.p - text.p) }) < 0 ||
        buf_add(out, by) < 0 ||
        buf_add(out, (struct str){ behind, (size_t)(text.p + text.n - behind) }) < 0)
        return err_set(e, ERR_TOO_BIG, "a record with sealed variables has more than %zu bytes",
                       out->max);
    return 0;
}

int env_seal(struct keyring *k, struct str name, struct str text, unsigned depth, struct buf *out,
             struct err *e)
{
    AUTO(buf_done) struct buf sealed = BUF_INIT(2 * text.n + 256);
    struct str value;
    int r;

    if (!env_find(text, depth, &value) || value.p[0] != '{')
        return append_replaced(text, (struct str){ text.p, 0 }, STR(""), out, e);
    r = buf_add_c(&sealed, '"');
    if (r >= 0)
        r = keyring_seal(k, name, value, &sealed, e);
    if (r >= 0)
        r = buf_add_c(&sealed, '"');
    return r < 0 ? r : append_replaced(text, value, buf_str(&sealed), out, e);
}

int env_unseal(struct keyring *k, struct str name, struct str text, unsigned depth, struct buf *out,
               bool *ret_lost, struct err *e)
{
    AUTO(buf_done) struct buf plain = BUF_INIT(text.n + 1);
    struct str value;

    *ret_lost = false;
    if (!env_find(text, depth, &value) || value.n <= 2 || value.p[0] != '"' ||
        !sealed_is((struct str){ value.p + 1, value.n - 2 }))
        return append_replaced(text, (struct str){ text.p, 0 }, STR(""), out, e);
    *ret_lost = keyring_unseal(k, name, (struct str){ value.p + 1, value.n - 2 }, &plain, e) < 0;
    return append_replaced(text, value, *ret_lost ? STR("{}") : buf_str(&plain), out, e);
}

int env_erase(struct str text, unsigned depth, struct buf *out)
{
    struct str value;

    if (!env_find(text, depth, &value))
        value = (struct str){ text.p, 0 };
    return append_replaced(text, value, value.n ? STR("{}") : STR(""), out, NULL);
}
