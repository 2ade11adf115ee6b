/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/profile/words.h"

#include <stdio.h>

#include "base/own.h"
#include "lib/json/bind.h"

enum { SECRET_MAX = 128, USER_MAX = 32, VARIABLE_MAX = 128, IMAGE_MAX = 512 };

/* The capabilities that the local runtime can grant; other backends grant at most these. */
static const char *const capabilities[] = { "CHOWN",  "DAC_OVERRIDE", "FOWNER", "FSETID",
                                            "SETUID", "SETGID",       "KILL" };

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* a-z, 0-9, or one of `more` */
static bool is_word_of(char c, const char *more)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr(more, c));
}

static bool is_upper(char c)
{
    return c && strchr(letters, c);
}

static bool all_of(struct str s, size_t max, const char *more)
{
    if (s.n == 0 || s.n > max)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!is_word_of(s.p[i], more) && !is_upper(s.p[i]))
            return false;
    return true;
}

bool word_name(struct str s)
{
    if (s.n == 0 || s.n > WORD_NAME_MAX || s.p[0] == '-' || s.p[s.n - 1] == '-')
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!is_word_of(s.p[i], "-"))
            return false;
    return true;
}

static bool prefixed_name(struct str s, struct str prefix)
{
    return str_starts(s, prefix) && word_name((struct str){ s.p + prefix.n, s.n - prefix.n });
}

bool word_profile(struct str s)
{
    return prefixed_name(s, STR("profile."));
}

bool word_backend(struct str s)
{
    return prefixed_name(s, STR("ext."));
}

bool word_place(struct str s)
{
    struct str label;

    if (s.n == 0 || s.n > 253 || str_ends(s, STR(".")))
        return false;
    while (s.n) {
        s = str_cut(s, '.', &label);
        if (!word_name(label))
            return false;
    }
    return true;
}

bool word_path(struct str s)
{
    struct str part;

    if (s.n == 0 || s.n > WORD_PATH_MAX || s.p[0] != '/')
        return false;
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
            return false;
    if (s.n == 1)
        return true;
    for (struct str rest = { s.p + 1, s.n - 1 }; rest.p;) {
        rest = str_cut(rest, '/', &part);
        if (part.n == 0 || str_eq(part, STR(".")) || str_eq(part, STR("..")))
            return false;
    }
    return true;
}

bool word_user(struct str s)
{
    uint64_t id;

    if (s.n && s.p[0] >= '0' && s.p[0] <= '9')
        return str_to_u64(s, &id) && id <= UINT16_MAX;
    return s.n && s.p[0] != '-' && all_of(s, USER_MAX, "_-") && !is_upper(s.p[0]);
}

bool word_secret(struct str s)
{
    return all_of(s, SECRET_MAX, "_./:-");
}

bool word_variable(struct str s)
{
    return all_of(s, VARIABLE_MAX, "_") && (s.p[0] < '0' || s.p[0] > '9');
}

bool word_image(struct str s)
{
    if (s.n == 0 || s.n > IMAGE_MAX || s.p[0] == '-')
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~')
            return false;
    return true;
}

bool word_kernel(struct str s)
{
    return str_eq(s, STR("nested-seccomp")) || str_eq(s, STR("socket-filters")) ||
           str_eq(s, STR("page-cache"));
}

bool word_capability(struct str s)
{
    for (size_t i = 0; i < COUNT_OF(capabilities); i++)
        if (str_eq(s, str_from(capabilities[i])))
            return true;
    return false;
}

const char *word_rules_broken(const struct word_rule *rules, size_t n, const void *of,
                              char ret_path[static WORD_RULE_PATH])
{
    for (const struct word_rule *rule = rules; rule < rules + n; rule++) {
        const void *member = (const char *)of + rule->offset;
        const char *text = rule->list ? NULL : *(const char *const *)member;
        const struct json_strs none = { 0 }, *list = rule->list ? member : &none;

        snprintf(ret_path, WORD_RULE_PATH, "%s", rule->path);
        if (text && !rule->good(str_from(text)))
            return rule->wanted;
        for (size_t i = 0; i < list->n; i++)
            if (!rule->good(str_from(list->p[i]))) {
                snprintf(ret_path, WORD_RULE_PATH, "%s[%zu]", rule->path, i);
                return rule->wanted;
            }
    }
    return NULL;
}
