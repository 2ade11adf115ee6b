#include "oci/challenge.h"

#include <ctype.h>
#include <strings.h>

struct scan {
    struct str rest;
};

static int malformed(struct err *e)
{
    return err_set(e, ERR_INVALID, "the registry's WWW-Authenticate header is malformed");
}

static void skip(struct scan *s, const char *what)
{
    while (s->rest.n > 0 && s->rest.p[0] && strchr(what, s->rest.p[0]))
        s->rest = (struct str){ s->rest.p + 1, s->rest.n - 1 };
}

static struct str token(struct scan *s)
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

/* A quoted text without its quotes and escapes, cut at nothing: too long is malformed. */
static bool quoted(struct scan *s, char *out, size_t cap)
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

static bool value(struct scan *s, char *out, size_t cap)
{
    if (s->rest.n > 0 && s->rest.p[0] == '"')
        return quoted(s, out, cap);
    return str_copy(token(s), out, cap);
}

static bool is(struct str s, const char *word)
{
    return s.n == strlen(word) && strncasecmp(s.p, word, s.n) == 0;
}

static bool parameter(struct scan *s, struct str name, struct oci_challenge *c)
{
    char other[OCI_CHALLENGE_TEXT_MAX];

    s->rest = (struct str){ s->rest.p + 1, s->rest.n - 1 }; /* the '=' */
    skip(s, " \t");
    if (is(name, "realm"))
        return value(s, c->realm, sizeof c->realm);
    if (is(name, "service"))
        return value(s, c->service, sizeof c->service);
    if (is(name, "scope"))
        return value(s, c->scope, sizeof c->scope);
    return value(s, other, sizeof other);
}

/* Parameters up to the end or the word that begins the next challenge, which is then *ret_next. */
static int parameters(struct scan *s, struct oci_challenge *c, struct str *ret_next, struct err *e)
{
    *ret_next = (struct str){ NULL, 0 };
    for (;;) {
        struct str word;

        skip(s, " \t,");
        if (s->rest.n == 0)
            return 0;
        word = token(s);
        if (word.n == 0)
            return malformed(e);
        if (s->rest.n == 0 || s->rest.p[0] != '=') {
            *ret_next = word;
            return 0;
        }
        if (!parameter(s, word, c))
            return malformed(e);
    }
}

int oci_challenge_parse(struct str header, struct oci_challenge *ret, struct err *e)
{
    struct scan s = { header };
    struct oci_challenge basic;
    struct str scheme;
    bool has_basic = false;

    skip(&s, " \t,");
    scheme = token(&s);
    if (scheme.n == 0)
        return malformed(e);
    while (scheme.n > 0) {
        struct oci_challenge c = { .bearer = is(scheme, "Bearer") };
        bool is_basic = is(scheme, "Basic");
        int r = parameters(&s, &c, &scheme, e);

        if (r < 0)
            return r;
        if (c.bearer && !c.realm[0])
            return malformed(e);
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
        return err_set(e, ERR_UNSUPPORTED, "the registry asks for neither Bearer nor Basic");
    *ret = basic;
    return 0;
}
