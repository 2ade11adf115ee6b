/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/oci/challenge.h"

#include <ctype.h>
#include <strings.h>

struct challenge_scanner {
    struct str rest;
};

static int fail_challenge(struct err *e)
{
    return err_set(e, ERR_INVALID, "the registry's WWW-Authenticate header is malformed");
}

static void skip_challenge_chars(struct challenge_scanner *s, const char *what)
{
    while (s->rest.n > 0 && s->rest.p[0] && strchr(what, s->rest.p[0]))
        s->rest = (struct str){ s->rest.p + 1, s->rest.n - 1 };
}

static struct str cut_challenge_token(struct challenge_scanner *s)
{
    struct str t = { s->rest.p, 0 };

    while (t.n < s->rest.n && s->rest.p[t.n] &&
           (isalnum((unsigned char)s->rest.p[t.n]) || strchr("!#$%&'*+-.^_`|~/=", s->rest.p[t.n])))
        if (s->rest.p[t.n] == '=' && t.n > 0)
            break;
        else
            t.n++;
    s->rest = (struct str){ s->rest.p + t.n, s->rest.n - t.n };
    return t;
}

/* Reads a quoted string without its quotes and escapes; false if it is too long or malformed. */
static bool read_quoted_value(struct challenge_scanner *s, char *out, size_t cap)
{
    size_t n = 0, i = 1;

    for (; i < s->rest.n && s->rest.p[i] != '"'; i++) {
        if (s->rest.p[i] == '\\' && ++i == s->rest.n)
            return false;
        if ((unsigned char)s->rest.p[i] < ' ' || s->rest.p[i] == 0x7f || n + 1 >= cap)
            return false;
        out[n++] = s->rest.p[i];
    }
    if (i >= s->rest.n)
        return false;
    out[n] = 0;
    s->rest = (struct str){ s->rest.p + i + 1, s->rest.n - i - 1 };
    return true;
}

static bool read_challenge_value(struct challenge_scanner *s, char *out, size_t cap)
{
    if (s->rest.n > 0 && s->rest.p[0] == '"')
        return read_quoted_value(s, out, cap);
    return str_copy(cut_challenge_token(s), out, cap);
}

static bool equals_ignoring_case(struct str s, const char *word)
{
    return s.n == strlen(word) && strncasecmp(s.p, word, s.n) == 0;
}

static bool read_challenge_parameter(struct challenge_scanner *s, struct str name,
                                     struct oci_challenge *c)
{
    char other[OCI_CHALLENGE_TEXT_MAX];

    s->rest = (struct str){ s->rest.p + 1, s->rest.n - 1 }; /* the '=' */
    skip_challenge_chars(s, " \t");
    if (equals_ignoring_case(name, "realm"))
        return read_challenge_value(s, c->realm, sizeof c->realm);
    if (equals_ignoring_case(name, "service"))
        return read_challenge_value(s, c->service, sizeof c->service);
    if (equals_ignoring_case(name, "scope"))
        return read_challenge_value(s, c->scope, sizeof c->scope);
    return read_challenge_value(s, other, sizeof other);
}

/* Reads parameters up to the end of the header, or to the scheme of the next challenge, which is
 * returned in *ret_next. */
static int read_challenge_parameters(struct challenge_scanner *s, struct oci_challenge *c,
                                     struct str *ret_next, struct err *e)
{
    *ret_next = (struct str){ NULL, 0 };
    for (;;) {
        struct str word;

        skip_challenge_chars(s, " \t,");
        if (s->rest.n == 0)
            return 0;
        word = cut_challenge_token(s);
        if (word.n == 0)
            return fail_challenge(e);
        if (s->rest.n == 0 || s->rest.p[0] != '=') {
            *ret_next = word;
            return 0;
        }
        if (!read_challenge_parameter(s, word, c))
            return fail_challenge(e);
    }
}

int oci_challenge_parse(struct str header, struct oci_challenge *ret, struct err *e)
{
    struct challenge_scanner s = { header };
    struct oci_challenge basic;
    struct str scheme;
    bool has_basic = false;

    skip_challenge_chars(&s, " \t,");
    scheme = cut_challenge_token(&s);
    if (scheme.n == 0)
        return fail_challenge(e);
    while (scheme.n > 0) {
        struct oci_challenge c = { .bearer = equals_ignoring_case(scheme, "Bearer") };
        bool is_basic = equals_ignoring_case(scheme, "Basic");
        int r = read_challenge_parameters(&s, &c, &scheme, e);

        if (r < 0)
            return r;
        if (c.bearer && !c.realm[0])
            return fail_challenge(e);
        if (c.bearer) {
            *ret = c;
            return 0;
        }
        if (is_basic && !has_basic) {
            basic = c;
            has_basic = true;
        }
    }
    if (!has_basic)
        return err_set(e, ERR_UNSUPPORTED,
                       "the registry requires neither Bearer nor Basic authentication");
    *ret = basic;
    return 0;
}
