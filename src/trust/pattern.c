/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/pattern.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/own.h"

/* A position automaton (Glushkov): each byte or bracket of the expression is a place. Sets of
 * places say which places can come first and last, which can follow a place, and which accept a
 * byte; there are no empty transitions. */
enum {
    WORD_BITS = 64,
    WORDS_MAX = PATTERN_PLACES_MAX / WORD_BITS,
    BYTES = 256,
    REPEAT_MAX = 255,
    WORK_MAX = 1 << 16, /* atoms read, with repetitions: () takes no place but some time */
};

struct pattern {
    size_t words; /* words of a set */
    bool empty;   /* matches the empty string */
    const uint64_t *first, *last;
    const uint64_t *follow; /* one set per place */
    const uint64_t *takes;  /* one set per byte */
};

/* The interface of a part of the expression to its surroundings. */
struct pattern_part {
    bool empty;
    uint64_t first[WORDS_MAX], last[WORDS_MAX];
};

struct pattern_compiler {
    struct str text;
    size_t at;
    size_t places, work;
    unsigned depth;
    struct err *e;
    uint64_t follow[PATTERN_PLACES_MAX][WORDS_MAX];
    uint64_t takes[BYTES][WORDS_MAX];
};

static int read_alternatives(struct pattern_compiler *c, struct pattern_part *ret);

static int fail_at_byte(struct pattern_compiler *c, const char *why)
{
    return err_set(c->e, ERR_INVALID, "byte %zu: %s", c->at + 1, why);
}

static bool has_more_text(const struct pattern_compiler *c)
{
    return c->at < c->text.n;
}

static char peek_byte(const struct pattern_compiler *c)
{
    return c->text.p[c->at];
}

/* --- sets --- */

static void add_to_place_set(uint64_t *set, size_t i)
{
    set[i / WORD_BITS] |= UINT64_C(1) << i % WORD_BITS;
}

static void join_place_sets(uint64_t *to, const uint64_t *from)
{
    for (size_t i = 0; i < WORDS_MAX; i++)
        to[i] |= from[i];
}

/* Lets any place of `to` follow each place of `from`. */
static void connect_places(struct pattern_compiler *c, const uint64_t *from, const uint64_t *to)
{
    for (size_t i = 0; i < c->places; i++)
        if (from[i / WORD_BITS] >> i % WORD_BITS & 1)
            join_place_sets(c->follow[i], to);
}

static void append_part(struct pattern_compiler *c, struct pattern_part *p,
                        const struct pattern_part *next)
{
    connect_places(c, p->last, next->first);
    if (p->empty)
        join_place_sets(p->first, next->first);
    if (next->empty)
        join_place_sets(p->last, next->last);
    else
        memcpy(p->last, next->last, sizeof p->last);
    p->empty = p->empty && next->empty;
}

/* --- one byte --- */

static int add_pattern_place(struct pattern_compiler *c, const bool taken[static BYTES],
                             struct pattern_part *ret)
{
    size_t i = c->places;

    if (i == PATTERN_PLACES_MAX)
        return err_set(c->e, ERR_TOO_BIG, "is longer than %d bytes, counted with repetitions",
                       PATTERN_PLACES_MAX);
    c->places++;
    *ret = (struct pattern_part){ .empty = false };
    add_to_place_set(ret->first, i);
    add_to_place_set(ret->last, i);
    for (size_t b = 0; b < BYTES; b++)
        if (taken[b])
            add_to_place_set(c->takes[b], i);
    return 0;
}

static const struct {
    const char *name;
    int (*has)(int c);
} classes[] = {
    { "alnum", isalnum }, { "alpha", isalpha }, { "blank", isblank }, { "cntrl", iscntrl },
    { "digit", isdigit }, { "graph", isgraph }, { "lower", islower }, { "print", isprint },
    { "punct", ispunct }, { "space", isspace }, { "upper", isupper }, { "xdigit", isxdigit },
};

/* Reads "[:alpha:]"; c->at is after its first bracket and colon. */
static int read_byte_class(struct pattern_compiler *c, bool taken[static BYTES])
{
    struct str rest = { c->text.p + c->at, c->text.n - c->at };

    for (size_t i = 0; i < COUNT_OF(classes); i++) {
        struct str name = str_from(classes[i].name);

        if (!str_starts(rest, name) || rest.n < name.n + 2 || rest.p[name.n] != ':' ||
            rest.p[name.n + 1] != ']')
            continue;
        for (int b = 0; b < 128; b++) /* independent of the locale */
            if (classes[i].has(b))
                taken[b] = true;
        c->at += name.n + 2;
        return 0;
    }
    return fail_at_byte(c, "there is no such class of characters; [:alpha:], [:digit:] are some");
}

/* Reads a single byte or one end of a range. */
static int read_bracket_byte(struct pattern_compiler *c, bool first, unsigned char *ret)
{
    char b = peek_byte(c);

    if (b == '\\')
        return fail_at_byte(c, "a backslash in brackets is ambiguous");
    if (b == '-' && !first && !(c->at + 1 < c->text.n && c->text.p[c->at + 1] == ']'))
        return fail_at_byte(
            c, "a '-' in brackets must be first, last, or between the ends of a range");
    if (b == '[' && c->at + 1 < c->text.n && strchr(".=", c->text.p[c->at + 1]))
        return fail_at_byte(c, "collating symbols are not supported");
    c->at++;
    *ret = (unsigned char)b;
    return 0;
}

static int read_bracket_range(struct pattern_compiler *c, bool first, bool taken[static BYTES])
{
    unsigned char from = 0, to;
    int r = read_bracket_byte(c, first, &from);

    to = from;
    if (r >= 0 && c->at + 1 < c->text.n && peek_byte(c) == '-' && c->text.p[c->at + 1] != ']') {
        c->at++;
        if (peek_byte(c) == '[')
            return fail_at_byte(c, "a range ends with a byte, not with '['");
        r = read_bracket_byte(c, true, &to);
        if (r >= 0 && to < from)
            return fail_at_byte(c, "the range goes backwards");
    }
    for (unsigned b = from; r >= 0 && b <= to; b++)
        taken[b] = true;
    return r;
}

/* Reads a bracket; c->at is after the opening one. */
static int read_bracket_set(struct pattern_compiler *c, struct pattern_part *ret)
{
    bool taken[BYTES] = { false }, negated = has_more_text(c) && peek_byte(c) == '^';
    int r = 0;

    c->at += negated;
    for (bool first = true; r >= 0; first = false) {
        if (!has_more_text(c))
            return fail_at_byte(c, "the bracket has no end");
        if (peek_byte(c) == ']' && !first)
            break;
        if (peek_byte(c) == '[' && c->at + 1 < c->text.n && c->text.p[c->at + 1] == ':') {
            c->at += 2;
            r = read_byte_class(c, taken);
        } else {
            r = read_bracket_range(c, first, taken);
        }
    }
    if (r < 0)
        return r;
    c->at++;
    for (size_t b = 0; negated && b < BYTES; b++)
        taken[b] = !taken[b];
    return add_pattern_place(c, taken, ret);
}

/* Adds a place that takes the next byte. */
static int read_literal_byte(struct pattern_compiler *c, struct pattern_part *ret)
{
    bool taken[BYTES] = { false };

    taken[(unsigned char)c->text.p[c->at++]] = true;
    return add_pattern_place(c, taken, ret);
}

static int read_escaped_byte(struct pattern_compiler *c, struct pattern_part *ret)
{
    if (!has_more_text(c))
        return fail_at_byte(c, "a lone backslash");
    if (!ispunct((unsigned char)peek_byte(c)))
        return fail_at_byte(c, "a backslash must precede a special character: \\. \\[ \\\\");
    if (strchr("<>`'", peek_byte(c)))
        return fail_at_byte(c,
                            "other engines read this escape as a boundary; remove the backslash");
    return read_literal_byte(c, ret);
}

static int read_pattern_group(struct pattern_compiler *c, struct pattern_part *ret)
{
    int r;

    if (c->depth == PATTERN_DEPTH_MAX)
        return err_set(c->e, ERR_TOO_BIG, "has more than %d groups inside each other",
                       PATTERN_DEPTH_MAX);
    c->depth++;
    r = read_alternatives(c, ret);
    c->depth--;
    if (r < 0)
        return r;
    if (!has_more_text(c))
        return fail_at_byte(c, "a '(' has no ')'");
    c->at++;
    return 0;
}

static int read_any_byte(struct pattern_compiler *c, struct pattern_part *ret)
{
    bool taken[BYTES];

    memset(taken, true, sizeof taken);
    c->at++;
    return add_pattern_place(c, taken, ret);
}

static int read_pattern_atom(struct pattern_compiler *c, struct pattern_part *ret)
{
    char b = peek_byte(c);

    if (++c->work > WORK_MAX)
        return err_set(c->e, ERR_TOO_BIG,
                       "takes more than %d steps to compile; nest fewer repetitions", WORK_MAX);
    if (b == '.')
        return read_any_byte(c, ret);
    if (b == 0)
        return fail_at_byte(c, "a NUL");
    if (strchr("*+?{", b))
        return fail_at_byte(c, "there is nothing to repeat");
    if (strchr("]}^$", b))
        return fail_at_byte(c, "put a backslash before it");
    if (!strchr("([\\", b))
        return read_literal_byte(c, ret);
    c->at++;
    if (b == '(')
        return read_pattern_group(c, ret);
    return b == '[' ? read_bracket_set(c, ret) : read_escaped_byte(c, ret);
}

/* --- how often --- */

struct pattern_repeat {
    unsigned min, max;
    bool endless; /* max is ignored */
};

static bool read_repeat_count(struct pattern_compiler *c, unsigned *ret)
{
    size_t start = c->at;
    unsigned n = 0;

    while (has_more_text(c) && isdigit((unsigned char)peek_byte(c)) && n <= REPEAT_MAX)
        n = n * 10 + (unsigned)(c->text.p[c->at++] - '0');
    *ret = n;
    return c->at > start && n <= REPEAT_MAX;
}

/* Reads "{…}"; c->at is after the brace. */
static int read_repeat_braces(struct pattern_compiler *c, struct pattern_repeat *ret)
{
    bool good = read_repeat_count(c, &ret->min);

    ret->max = ret->min;
    if (good && has_more_text(c) && peek_byte(c) == ',') {
        c->at++;
        ret->endless = has_more_text(c) && peek_byte(c) == '}';
        good = ret->endless || (read_repeat_count(c, &ret->max) && ret->max >= ret->min);
    }
    if (!good || !has_more_text(c) || peek_byte(c) != '}')
        return fail_at_byte(c, "repetitions are {3}, {1,} or {1,64}, up to 255");
    c->at++;
    return 0;
}

/* Returns 1 if there is a repetition. */
static int read_repetition(struct pattern_compiler *c, struct pattern_repeat *ret)
{
    char b = has_more_text(c) ? peek_byte(c) : 0;
    int r = 0;

    *ret = (struct pattern_repeat){ .min = 1, .max = 1 };
    if (!b || !strchr("*+?{", b))
        return 0;
    c->at++;
    if (b == '{')
        r = read_repeat_braces(c, ret);
    else
        *ret = (struct pattern_repeat){ .min = b == '+', .max = 1, .endless = b != '?' };
    if (r >= 0 && has_more_text(c) && peek_byte(c) && strchr("*+?{", peek_byte(c)))
        return fail_at_byte(c, "one repetition behind another; use a group");
    return r < 0 ? r : 1;
}

/* Parses the atom at `start` again and appends it to p. */
static int append_atom_copy(struct pattern_compiler *c, size_t start, bool optional, bool loop,
                            struct pattern_part *p)
{
    size_t end = c->at;
    struct pattern_part next;
    int r;

    c->at = start;
    r = read_pattern_atom(c, &next);
    c->at = end;
    if (r < 0)
        return r;
    if (loop)
        connect_places(c, next.last, next.first);
    next.empty |= optional;
    append_part(c, p, &next);
    return 0;
}

/* Reads an atom with its repetition, expanded to copies; the last copy of an unbounded repetition
 * loops. */
static int read_repeated_atom(struct pattern_compiler *c, struct pattern_part *ret)
{
    size_t start = c->at, places = c->places;
    struct pattern_repeat n;
    struct pattern_part one;
    unsigned copies;
    int r = read_pattern_atom(c, &one);

    if (r >= 0)
        r = read_repetition(c, &n);
    if (r < 0)
        return r;
    if (r == 0) {
        *ret = one;
        return 0;
    }
    /* Discards the places of the first pass: the copies parse the atom again. */
    for (size_t i = places; i < c->places; i++) {
        memset(c->follow[i], 0, sizeof c->follow[i]);
        for (size_t b = 0; b < BYTES; b++)
            c->takes[b][i / WORD_BITS] &= ~(UINT64_C(1) << i % WORD_BITS);
    }
    c->places = places;
    *ret = (struct pattern_part){ .empty = true };
    copies = n.endless && n.min ? n.min : n.endless ? 1 : n.max;
    for (unsigned i = 0; r >= 0 && i < copies; i++)
        r = append_atom_copy(c, start, i >= n.min, n.endless && i + 1 == copies, ret);
    return r;
}

static int read_atom_sequence(struct pattern_compiler *c, struct pattern_part *ret)
{
    struct pattern_part next;
    int r = 0;

    *ret = (struct pattern_part){ .empty = true };
    while (r >= 0 && has_more_text(c) && peek_byte(c) != '|' && peek_byte(c) != ')') {
        r = read_repeated_atom(c, &next);
        if (r >= 0)
            append_part(c, ret, &next);
    }
    return r;
}

static int read_alternatives(struct pattern_compiler *c, struct pattern_part *ret)
{
    struct pattern_part next;
    int r = read_atom_sequence(c, ret);

    while (r >= 0 && has_more_text(c) && peek_byte(c) == '|') {
        c->at++;
        r = read_atom_sequence(c, &next);
        if (r < 0)
            break;
        join_place_sets(ret->first, next.first);
        join_place_sets(ret->last, next.last);
        ret->empty |= next.empty;
    }
    return r;
}

/* --- the result --- */

static uint64_t *copy_place_sets(const uint64_t (*sets)[WORDS_MAX], size_t n, size_t words,
                                 struct arena *a)
{
    uint64_t *to = arena_array(a, n * words + 1, sizeof *to);

    for (size_t i = 0; to && i < n; i++)
        memcpy(to + i * words, sets[i], words * sizeof *to);
    return to;
}

static int copy_pattern(const struct pattern_compiler *c, const struct pattern_part *all,
                        struct arena *a, const struct pattern **ret)
{
    struct pattern *p = arena_alloc(a, sizeof *p);
    size_t words = (c->places + WORD_BITS - 1) / WORD_BITS;

    if (!p)
        return err_set(c->e, ERR_TOO_BIG, "needs more memory than is allowed");
    *p = (struct pattern){
        .words = words,
        .empty = all->empty,
        .first = copy_place_sets(&all->first, 1, words, a),
        .last = copy_place_sets(&all->last, 1, words, a),
        .follow = copy_place_sets(c->follow, c->places, words, a),
        .takes = copy_place_sets(c->takes, BYTES, words, a),
    };
    if (!p->first || !p->last || !p->follow || !p->takes)
        return err_set(c->e, ERR_TOO_BIG, "needs more memory than is allowed");
    *ret = p;
    return 0;
}

/* Strips the anchors. A final $ is an anchor if an even number of backslashes precedes it. */
static struct str strip_anchors(struct str s)
{
    size_t slashes = 0;

    if (s.n && s.p[0] == '^')
        s = (struct str){ s.p + 1, s.n - 1 };
    while (s.n > slashes + 1 && s.p[s.n - 2 - slashes] == '\\')
        slashes++;
    if (s.n && s.p[s.n - 1] == '$' && slashes % 2 == 0)
        s.n--;
    return s;
}

/* The offset after the bracket that begins at i, or the end. */
static size_t skip_bracket_set(struct str s, size_t i)
{
    i++;
    i += i < s.n && s.p[i] == '^';
    i += i < s.n && s.p[i] == ']';
    while (i < s.n && s.p[i] != ']') {
        if (s.p[i] == '[' && i + 1 < s.n && s.p[i + 1] == ':')
            while (i + 1 < s.n && s.p[i + 1] != ']')
                i++;
        i += i < s.n;
    }
    return i < s.n ? i + 1 : s.n;
}

/* Detects "^a|b$", which other engines read as two alternatives with one anchor each. */
static bool has_top_level_choice(struct str s)
{
    unsigned depth = 0;
    size_t i = 0;

    while (i < s.n) {
        char b = s.p[i];

        if (b == '|' && !depth)
            return true;
        depth += b == '(';
        depth -= b == ')' && depth;
        i = b == '[' ? skip_bracket_set(s, i) : i + (b == '\\' ? 2 : 1);
    }
    return false;
}

int pattern_compile(struct str expression, struct arena *a, const struct pattern **ret,
                    struct err *e)
{
    struct str inner = strip_anchors(expression);
    struct pattern_compiler *c;
    struct pattern_part all;
    int r;

    if (expression.n > PATTERN_BYTES_MAX)
        return err_set(e, ERR_TOO_BIG, "has more than %d bytes", PATTERN_BYTES_MAX);
    if (inner.n != expression.n && has_top_level_choice(inner))
        return err_set(e, ERR_INVALID,
                       "^ and $ beside a '|' belong to one alternative only; use a group");
    c = new0(sizeof *c);
    c->text = inner;
    c->e = e;
    r = read_alternatives(c, &all);
    if (r >= 0 && has_more_text(c))
        r = fail_at_byte(c, "a ')' has no '('");
    if (r >= 0)
        r = copy_pattern(c, &all, a, ret);
    free(c);
    return r;
}

/* Computes the places after `now` and the byte; returns the number of places visited. */
static size_t step_automaton(const struct pattern *p, const uint64_t *now, unsigned char b,
                             uint64_t *next)
{
    const uint64_t *takes = p->takes + (size_t)b * p->words;
    size_t seen = p->words;

    memset(next, 0, p->words * sizeof *next);
    for (size_t w = 0; w < p->words; w++)
        for (uint64_t left = now[w]; left; left &= left - 1) {
            size_t i = w * WORD_BITS + (size_t)__builtin_ctzll(left);

            for (size_t k = 0; k < p->words; k++)
                next[k] |= p->follow[i * p->words + k];
            seen += p->words;
        }
    for (size_t k = 0; k < p->words; k++)
        next[k] &= takes[k];
    return seen;
}

int pattern_match(const struct pattern *p, struct str text)
{
    uint64_t sets[2][WORDS_MAX] = { { 0 } };
    size_t steps = 0;
    unsigned at = 0;

    if (text.n == 0)
        return p->empty;
    for (size_t k = 0; k < p->words; k++)
        sets[at][k] = p->first[k] & p->takes[(size_t)(unsigned char)text.p[0] * p->words + k];
    for (size_t i = 1; i < text.n; i++, at = !at) {
        steps += step_automaton(p, sets[at], (unsigned char)text.p[i], sets[!at]);
        if (steps > PATTERN_STEPS_MAX)
            return -(int)ERR_TOO_BIG;
    }
    for (size_t k = 0; k < p->words; k++)
        if (sets[at][k] & p->last[k])
            return 1;
    return 0;
}
