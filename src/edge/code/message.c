/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/code/message.h"

#include <string.h>

/* Each of the scanners returns the rest behind what it has read; p == NULL: it is not there. */
static const struct str invalid = { NULL, 0 };

static struct str pass_json_bytes(struct str s, size_t n)
{
    return (struct str){ s.p + n, s.n - n };
}

static struct str pass_json_blanks(struct str s)
{
    while (s.n && strchr(" \t\r\n", s.p[0]) && s.p[0])
        s = pass_json_bytes(s, 1);
    return s;
}

static bool is_json_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_json_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The character behind a backslash. */
static size_t json_escape_length(struct str s)
{
    if (s.n && s.p[0] && strchr("\"\\/bfnrt", s.p[0]))
        return 1;
    if (s.n < 5 || s.p[0] != 'u')
        return 0;
    for (size_t i = 1; i < 5; i++)
        if (!is_json_hex(s.p[i]))
            return 0;
    return 5;
}

static struct str pass_json_string(struct str s)
{
    if (!s.n || s.p[0] != '"')
        return invalid;
    for (s = pass_json_bytes(s, 1); s.n && s.p[0] != '"';) {
        size_t n = 1;

        if ((unsigned char)s.p[0] < ' ')
            return invalid;
        if (s.p[0] == '\\') {
            size_t more = json_escape_length(pass_json_bytes(s, 1));

            if (!more)
                return invalid;
            n += more;
        }
        s = pass_json_bytes(s, n);
    }
    return s.n ? pass_json_bytes(s, 1) : invalid;
}

static struct str pass_json_digits(struct str s)
{
    size_t n = 0;

    while (n < s.n && is_json_digit(s.p[n]))
        n++;
    return n ? pass_json_bytes(s, n) : invalid;
}

static struct str pass_json_number(struct str s)
{
    if (s.n && s.p[0] == '-')
        s = pass_json_bytes(s, 1);
    s = s.n && s.p[0] == '0' ? pass_json_bytes(s, 1) : pass_json_digits(s);
    if (s.p && s.n && s.p[0] == '.')
        s = pass_json_digits(pass_json_bytes(s, 1));
    if (s.p && s.n && (s.p[0] == 'e' || s.p[0] == 'E')) {
        s = pass_json_bytes(s, 1);
        if (s.n && (s.p[0] == '+' || s.p[0] == '-'))
            s = pass_json_bytes(s, 1);
        s = pass_json_digits(s);
    }
    return s;
}

/* A value that contains no others. */
static struct str pass_json_scalar(struct str s)
{
    static const struct str words[] = { { "true", 4 }, { "false", 5 }, { "null", 4 } };

    if (s.n && s.p[0] == '"')
        return pass_json_string(s);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (str_starts(s, words[i]))
            return pass_json_bytes(s, words[i].n);
    return pass_json_number(s);
}

static struct str pass_json_key(struct str s)
{
    s = pass_json_string(pass_json_blanks(s));
    if (s.p)
        s = pass_json_blanks(s);
    return s.p && s.n && s.p[0] == ':' ? pass_json_blanks(pass_json_bytes(s, 1)) : invalid;
}

bool message_is_object(struct str line)
{
    bool object[MESSAGE_DEPTH_MAX]; /* of each open list or object: which one it is */
    size_t depth = 0;
    struct str s;

    if (!line.n || line.p[line.n - 1] != '\n' || !str_is_utf8(line))
        return false;
    s = pass_json_blanks(line);
    if (!s.n || s.p[0] != '{')
        return false;
    for (;;) {
        char open = s.n ? s.p[0] : 0, close = open == '{' ? '}' : ']';

        if (open == '{' || open == '[') {
            if (depth == MESSAGE_DEPTH_MAX)
                return false;
            object[depth++] = open == '{';
            s = pass_json_blanks(pass_json_bytes(s, 1));
            if (!s.n || s.p[0] != close) { /* its first member */
                if (open == '{')
                    s = pass_json_key(s);
                if (!s.p)
                    return false;
                continue;
            }
        } else {
            s = pass_json_scalar(s);
            if (!s.p)
                return false;
        }
        for (s = pass_json_blanks(s); depth && s.n && s.p[0] == (object[depth - 1] ? '}' : ']');
             depth--)
            s = pass_json_blanks(pass_json_bytes(s, 1));
        if (!depth)
            return !s.n;
        if (!s.n || s.p[0] != ',')
            return false;
        s = pass_json_blanks(pass_json_bytes(s, 1));
        if (object[depth - 1])
            s = pass_json_key(s);
        if (!s.p)
            return false;
    }
}
