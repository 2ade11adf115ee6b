/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/host_pattern.h"

#include "domain/policy/egress_policy.h"

static const char *word_flaw(struct str s)
{
    if (s.n == 0 || s.n > HOST_LABEL_MAX)
        return "has an empty label or one of more than 63 bytes";
    if (s.p[0] == '-' || s.p[s.n - 1] == '-')
        return "has a label that begins or ends with '-'";
    for (size_t i = 0; i < s.n; i++)
        if (!(s.p[i] >= 'a' && s.p[i] <= 'z') && !(s.p[i] >= '0' && s.p[i] <= '9') &&
            s.p[i] != '-' && s.p[i] != '_' && s.p[i] != '*')
            return "contains a character that is invalid in a name";
    return NULL;
}

static const char *parse_label(struct str text, bool first, struct label *ret)
{
    struct str prefix, suffix = str_cut(text, '*', &prefix);
    const char *flaw = word_flaw(text);

    *ret = (struct label){ .kind = LABEL_WORD, .text = text };
    if (flaw || !suffix.p)
        return flaw;
    if (text.n == 1) {
        ret->kind = LABEL_STAR;
    } else if (!first) {
        return "may combine '*' with other characters only in the first label";
    } else if (str_eq(text, STR("**"))) {
        ret->kind = LABEL_STARS;
    } else if (str_find(suffix, '*') < suffix.n) {
        return "has more than one '*' in a label";
    } else {
        ret->kind = LABEL_INFIX;
        ret->prefix = prefix;
        ret->suffix = suffix;
    }
    return NULL;
}

static const char *check_wild(const struct host_pattern *p)
{
    size_t inner = 0;

    for (size_t i = 0; i + 1 < p->n; i++)
        inner += p->labels[i].kind != LABEL_WORD;
    if (host_pattern_tail(p) < 2)
        return "must have two labels without wildcards at the end";
    return inner > EGRESS_WILD_LABELS_MAX ? "has too many wildcard labels" : NULL;
}

const char *host_pattern_parse(struct str text, struct host_pattern *ret)
{
    const char *flaw = NULL;
    size_t end = text.n;

    ret->n = 0; /* the other members are large, and written before they are read */
    ret->wild = false;
    if (text.n == 0 || text.n > HOST_MAX)
        return "is empty or longer than 253 bytes";
    for (bool first = false; !first && !flaw;) {
        size_t from = end;

        while (from > 0 && text.p[from - 1] != '.')
            from--;
        first = from == 0;
        if (ret->n == HOST_LABELS_MAX)
            return "has too many labels";
        flaw = parse_label((struct str){ text.p + from, end - from }, first, &ret->labels[ret->n]);
        ret->wild |= ret->labels[ret->n++].kind != LABEL_WORD;
        end = from ? from - 1 : 0;
    }
    if (!flaw && ret->labels[0].text.p[0] >= '0' && ret->labels[0].text.p[0] <= '9')
        flaw = "ends with a label that begins with a digit, which could be taken for an address";
    return !flaw && ret->wild ? check_wild(ret) : flaw;
}

size_t host_pattern_tail(const struct host_pattern *p)
{
    size_t n = 0;

    while (n < p->n && p->labels[n].kind == LABEL_WORD)
        n++;
    return n;
}

static bool infix_match(const struct label *l, struct str word)
{
    return word.n >= l->prefix.n + l->suffix.n && str_starts(word, l->prefix) &&
           str_ends(word, l->suffix);
}

static bool label_overlap(const struct label *a, const struct label *b)
{
    if (a->kind == LABEL_STAR || b->kind == LABEL_STAR)
        return true;
    if (a->kind == LABEL_WORD && b->kind == LABEL_WORD)
        return str_eq(a->text, b->text);
    if (a->kind == LABEL_WORD)
        return infix_match(b, a->text);
    if (b->kind == LABEL_WORD)
        return infix_match(a, b->text);
    return (str_starts(a->prefix, b->prefix) || str_starts(b->prefix, a->prefix)) &&
           (str_ends(a->suffix, b->suffix) || str_ends(b->suffix, a->suffix));
}

static bool has_stars(const struct host_pattern *p)
{
    return p->labels[p->n - 1].kind == LABEL_STARS;
}

bool host_pattern_overlap(const struct host_pattern *a, const struct host_pattern *b)
{
    size_t na = a->n - has_stars(a), nb = b->n - has_stars(b), least = na < nb ? na : nb;

    for (size_t i = 0; i < least; i++)
        if (!label_overlap(&a->labels[i], &b->labels[i]))
            return false;
    if (has_stars(a) && has_stars(b))
        return true;
    if (has_stars(a))
        return nb > na;
    return has_stars(b) ? na > nb : na == nb;
}

bool host_pattern_match(const struct host_pattern *p, struct str name)
{
    struct host_pattern word;

    return !host_pattern_parse(name, &word) && !word.wild && host_pattern_overlap(p, &word);
}

static bool label_covers(const struct label *a, const struct label *b)
{
    if (b->kind == LABEL_STARS)
        return false;
    if (a->kind == LABEL_STAR)
        return true;
    if (a->kind == LABEL_INFIX && b->kind == LABEL_WORD)
        return infix_match(a, b->text);
    return a->kind == b->kind && str_eq(a->text, b->text);
}

bool host_pattern_covers(const struct host_pattern *a, const struct host_pattern *b)
{
    size_t n = a->n - has_stars(a);

    if (b->n < n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!label_covers(&a->labels[i], &b->labels[i]))
            return false;
    return has_stars(a) ? b->n > n : b->n == n;
}
