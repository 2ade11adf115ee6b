/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/place.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"

enum { PATH_TEXT = 96, NAME_TEXT = 48, VALUE_TEXT = NAME_TEXT + 16 };

static void path_text(const struct json_place *at, char out[static PATH_TEXT])
{
    char name[NAME_TEXT];
    size_t n;

    if (!at->up) {
        out[0] = '\0';
        return;
    }
    path_text(at->up, out);
    n = strlen(out);
    log_printable(at->name, name, sizeof name);
    if (at->name.p)
        snprintf(out + n, PATH_TEXT - n, "%s%s", n ? "." : "", name);
    else
        snprintf(out + n, PATH_TEXT - n, "[%zu]", at->index);
}

int json_place_fail(const struct json_place *at, const struct json *v, struct err *e,
                    const char *fmt, ...)
{
    char path[PATH_TEXT], line[24] = "", reason[sizeof e->msg];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    path_text(at, path);
    if (v->line)
        snprintf(line, sizeof line, "line %" PRIu32 ": ", v->line);
    return err_set(e, ERR_INVALID, "%s%s%s%s", line, path, path[0] ? ": " : "", reason);
}

static void describe_value(const struct json *v, char out[static VALUE_TEXT])
{
    char text[NAME_TEXT];

    switch (v->type) {
    case JSON_BOOL:
        snprintf(out, VALUE_TEXT, "%s", v->b ? "true" : "false");
        break;
    case JSON_INT:
        snprintf(out, VALUE_TEXT, "the number %" PRId64, v->i);
        break;
    case JSON_UINT:
        snprintf(out, VALUE_TEXT, "the number %" PRIu64, v->u);
        break;
    case JSON_DOUBLE:
        snprintf(out, VALUE_TEXT, "the number %g", v->d);
        break;
    case JSON_STR:
        log_printable(v->s, text, sizeof text);
        snprintf(out, VALUE_TEXT, "the string '%s'", text);
        break;
    default:
        snprintf(out, VALUE_TEXT, "%s", json_type_name(v->type));
        break;
    }
}

int json_place_expected(const struct json_place *at, const struct json *v, const char *wanted,
                        struct err *e)
{
    char got[VALUE_TEXT];

    describe_value(v, got);
    return json_place_fail(at, v, e, "expected %s, not %s", wanted, got);
}

void json_place_add_word(char *out, size_t cap, const char *word)
{
    size_t n = strlen(out);

    if (n + strlen(word) + sizeof ", , …" < cap)
        snprintf(out + n, cap - n, "%s%s", n ? ", " : "", word);
    else if (!str_ends(str_from(out), STR("…")))
        snprintf(out + n, cap - n, "%s…", n ? ", " : "");
}
