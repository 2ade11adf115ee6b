#include "trust/pattern.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/own.h"

/* Each byte or bracket of the expression is a place. What may follow a place, which places can come
 * first and last, and which take a byte, are sets of places: an automaton without empty moves. */
enum {
    WORD_BITS = 64,
    WORDS_MAX = PATTERN_PLACES_MAX / WORD_BITS,
    BYTES = 256,
    REPEAT_MAX = 255,
    WORK_MAX = 1 << 16, /* things read, with their repetitions: () takes no place and some time */
};

struct pattern {
    size_t words; /* of a set */
    bool empty;   /* takes the empty text */
    const uint64_t *first, *last;
    const uint64_t *follow; /* a set a place */
    const uint64_t *takes;  /* a set a byte */
};

/* What a part of the expression is to what is around it. */
struct part {
    bool empty;
    uint64_t first[WORDS_MAX], last[WORDS_MAX];
};

struct compiler {
    struct str text;
    size_t at;
    size_t places, work;
    unsigned depth;
    struct err *e;
    uint64_t follow[PATTERN_PLACES_MAX][WORDS_MAX];
    uint64_t takes[BYTES][WORDS_MAX];
};

static int read_choice(struct compiler *c, struct part *ret);

static int fail(struct compiler *c, const char *why)
{
    return err_set(c->e, ERR_INVALID, "byte %zu: %s", c->at + 1, why);
}

static bool more(const struct compiler *c)
{
    return c->at < c->text.n;
}

static char peek(const struct compiler *c)
{
    return c->text.p[c->at];
}

/* --- sets --- */

static void set_add(uint64_t *set, size_t i)
{
    set[i / WORD_BITS] |= UINT64_C(1) << i % WORD_BITS;
}

static void set_join(uint64_t *to, const uint64_t *from)
{
    for (size_t i = 0; i < WORDS_MAX; i++)
        to[i] |= from[i];
}

/* Behind each of `from` comes any of `to`. */
static void connect(struct compiler *c, const uint64_t *from, const uint64_t *to)
{
    for (size_t i = 0; i < c->places; i++)
        if (from[i / WORD_BITS] >> i % WORD_BITS & 1)
            set_join(c->follow[i], to);
}

static void append(struct compiler *c, struct part *p, const struct part *next)
{
    connect(c, p->last, next->first);
    if (p->empty)
        set_join(p->first, next->first);
    if (next->empty)
        set_join(p->last, next->last);
    else
        memcpy(p->last, next->last, sizeof p->last);
    p->empty = p->empty && next->empty;
}

/* --- one byte --- */

static int new_place(struct compiler *c, const bool taken[static BYTES], struct part *ret)
{
    size_t i = c->places;

    if (i == PATTERN_PLACES_MAX)
        return err_set(c->e, ERR_TOO_BIG, "is longer than %d bytes, counted with repetitions",
                       PATTERN_PLACES_MAX);
    c->places++;
    *ret = (struct part){ .empty = false };
    set_add(ret->first, i);
    set_add(ret->last, i);
    for (size_t b = 0; b < BYTES; b++)
        if (taken[b])
            set_add(c->takes[b], i);
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

/* "[:alpha:]", c->at behind its first bracket and colon. */
static int read_class(struct compiler *c, bool taken[static BYTES])
{
    struct str rest = { c->text.p + c->at, c->text.n - c->at };

    for (size_t i = 0; i < COUNT_OF(classes); i++) {
        struct str name = str_from(classes[i].name);

        if (!str_starts(rest, name) || rest.n < name.n + 2 || rest.p[name.n] != ':' ||
            rest.p[name.n + 1] != ']')
            continue;
        for (int b = 0; b < 128; b++) /* the same in every locale */
            if (classes[i].has(b))
                taken[b] = true;
        c->at += name.n + 2;
        return 0;
    }
    return fail(c, "there is no such class of characters; [:alpha:], [:digit:] are some");
}

/* An end of a range, or a byte alone. */
static int read_member(struct compiler *c, bool first, unsigned char *ret)
{
    char b = peek(c);

    if (b == '\\')
        return fail(c, "a backslash in brackets means different things to different readers");
    if (b == '-' && !first && !(c->at + 1 < c->text.n && c->text.p[c->at + 1] == ']'))
        return fail(c, "a '-' in brackets stands first, last, or between the ends of a range");
    if (b == '[' && c->at + 1 < c->text.n && strchr(".=", c->text.p[c->at + 1]))
        return fail(c, "names of characters are not understood");
    c->at++;
    *ret = (unsigned char)b;
    return 0;
}

static bool at_range(const struct compiler *c)
{
    return c->at + 1 < c->text.n && peek(c) == '-' && c->text.p[c->at + 1] != ']';
}

static int read_range(struct compiler *c, bool first, bool taken[static BYTES])
{
    unsigned char from = 0, to;
    int r = read_member(c, first, &from);

    to = from;
    if (r >= 0 && at_range(c)) {
        c->at++;
        if (peek(c) == '[')
            return fail(c, "a range ends with a byte, not with '['");
        r = read_member(c, true, &to);
        if (r >= 0 && to < from)
            return fail(c, "the range goes backwards");
    }
    for (unsigned b = from; r >= 0 && b <= to; b++)
        taken[b] = true;
    return r;
}

/* c->at is behind the opening bracket. */
static int read_bracket(struct compiler *c, struct part *ret)
{
    bool taken[BYTES] = { false }, negated = more(c) && peek(c) == '^';
    int r = 0;

    c->at += negated;
    for (bool first = true; r >= 0; first = false) {
        if (!more(c))
            return fail(c, "the bracket has no end");
        if (peek(c) == ']' && !first)
            break;
        if (peek(c) == '[' && c->at + 1 < c->text.n && c->text.p[c->at + 1] == ':') {
            c->at += 2;
            r = read_class(c, taken);
        } else {
            r = read_range(c, first, taken);
        }
    }
    if (r < 0)
        return r;
    c->at++;
    for (size_t b = 0; negated && b < BYTES; b++)
        taken[b] = !taken[b];
    return new_place(c, taken, ret);
}

static int read_escape(struct compiler *c, struct part *ret)
{
    bool taken[BYTES] = { false };

    if (!more(c))
        return fail(c, "a lone backslash");
    if (!ispunct((unsigned char)peek(c)))
        return fail(c, "a backslash stands before what would mean something else: \\. \\[ \\\\");
    if (strchr("<>`'", peek(c)))
        return fail(c, "a backslash before it means a boundary to some readers; leave it out");
    taken[(unsigned char)peek(c)] = true;
    c->at++;
    return new_place(c, taken, ret);
}

static int read_group(struct compiler *c, struct part *ret)
{
    int r;

    if (c->depth == PATTERN_DEPTH_MAX)
        return err_set(c->e, ERR_TOO_BIG, "has more than %d groups inside each other",
                       PATTERN_DEPTH_MAX);
    c->depth++;
    r = read_choice(c, ret);
    c->depth--;
    if (r < 0)
        return r;
    if (!more(c))
        return fail(c, "a '(' has no ')'");
    c->at++;
    return 0;
}

static int read_plain(struct compiler *c, char b, struct part *ret)
{
    bool taken[BYTES] = { false };

    if (strchr("*+?{", b))
        return fail(c, "there is nothing to repeat");
    if (strchr("]}^$", b))
        return fail(c, "put a backslash before it");
    taken[(unsigned char)b] = true;
    c->at++;
    return new_place(c, taken, ret);
}

static int read_any(struct compiler *c, struct part *ret)
{
    bool taken[BYTES];

    memset(taken, true, sizeof taken);
    c->at++;
    return new_place(c, taken, ret);
}

static int read_atom(struct compiler *c, struct part *ret)
{
    char b = peek(c);

    if (++c->work > WORK_MAX)
        return err_set(c->e, ERR_TOO_BIG, "has too many repetitions inside each other");
    if (b == '.')
        return read_any(c, ret);
    if (b == 0)
        return fail(c, "a NUL");
    if (!strchr("([\\", b))
        return read_plain(c, b, ret);
    c->at++;
    if (b == '(')
        return read_group(c, ret);
    return b == '[' ? read_bracket(c, ret) : read_escape(c, ret);
}

/* --- how often --- */

struct repeat {
    unsigned min, max;
    bool endless; /* instead of max */
};

static bool read_count(struct compiler *c, unsigned *ret)
{
    size_t start = c->at;
    unsigned n = 0;

    while (more(c) && isdigit((unsigned char)peek(c)) && n <= REPEAT_MAX)
        n = n * 10 + (unsigned)(c->text.p[c->at++] - '0');
    *ret = n;
    return c->at > start && n <= REPEAT_MAX;
}

/* c->at is behind the brace. */
static int read_braces(struct compiler *c, struct repeat *ret)
{
    bool good = read_count(c, &ret->min);

    ret->max = ret->min;
    if (good && more(c) && peek(c) == ',') {
        c->at++;
        ret->endless = more(c) && peek(c) == '}';
        good = ret->endless || (read_count(c, &ret->max) && ret->max >= ret->min);
    }
    if (!good || !more(c) || peek(c) != '}')
        return fail(c, "repetitions are {3}, {1,} or {1,64}, up to 255");
    c->at++;
    return 0;
}

/* 1 if there is a repetition. */
static int read_repeat(struct compiler *c, struct repeat *ret)
{
    char b = more(c) ? peek(c) : 0;
    int r = 0;

    *ret = (struct repeat){ .min = 1, .max = 1 };
    if (!b || !strchr("*+?{", b))
        return 0;
    c->at++;
    if (b == '{')
        r = read_braces(c, ret);
    else
        *ret = (struct repeat){ .min = b == '+', .max = 1, .endless = b != '?' };
    if (r >= 0 && more(c) && peek(c) && strchr("*+?{", peek(c)))
        return fail(c, "one repetition behind another; use a group");
    return r < 0 ? r : 1;
}

/* The atom from `start` once more, behind what is in p. */
static int add_copy(struct compiler *c, size_t start, bool optional, bool loop, struct part *p)
{
    size_t end = c->at;
    struct part next;
    int r;

    c->at = start;
    r = read_atom(c, &next);
    c->at = end;
    if (r < 0)
        return r;
    if (loop)
        connect(c, next.last, next.first);
    next.empty |= optional;
    append(c, p, &next);
    return 0;
}

/* An atom and how often, as so many atoms: the last of an endless one leads back to itself. */
static int read_piece(struct compiler *c, struct part *ret)
{
    size_t start = c->at, places = c->places;
    struct repeat n;
    struct part one;
    unsigned copies;
    int r = read_atom(c, &one);

    if (r >= 0)
        r = read_repeat(c, &n);
    if (r < 0)
        return r;
    if (r == 0) {
        *ret = one;
        return 0;
    }
    /* Once more from the start: the place that it took first is the one of the first copy. */
    for (size_t i = places; i < c->places; i++) {
        memset(c->follow[i], 0, sizeof c->follow[i]);
        for (size_t b = 0; b < BYTES; b++)
            c->takes[b][i / WORD_BITS] &= ~(UINT64_C(1) << i % WORD_BITS);
    }
    c->places = places;
    *ret = (struct part){ .empty = true };
    copies = n.endless && n.min ? n.min : n.endless ? 1 : n.max;
    for (unsigned i = 0; r >= 0 && i < copies; i++)
        r = add_copy(c, start, i >= n.min, n.endless && i + 1 == copies, ret);
    return r;
}

static int read_sequence(struct compiler *c, struct part *ret)
{
    struct part next;
    int r = 0;

    *ret = (struct part){ .empty = true };
    while (r >= 0 && more(c) && peek(c) != '|' && peek(c) != ')') {
        r = read_piece(c, &next);
        if (r >= 0)
            append(c, ret, &next);
    }
    return r;
}

static int read_choice(struct compiler *c, struct part *ret)
{
    struct part next;
    int r = read_sequence(c, ret);

    while (r >= 0 && more(c) && peek(c) == '|') {
        c->at++;
        r = read_sequence(c, &next);
        if (r < 0)
            break;
        set_join(ret->first, next.first);
        set_join(ret->last, next.last);
        ret->empty |= next.empty;
    }
    return r;
}

/* --- the result --- */

static uint64_t *keep_sets(const uint64_t (*sets)[WORDS_MAX], size_t n, size_t words,
                           struct arena *a)
{
    uint64_t *to = arena_array(a, n * words + 1, sizeof *to);

    for (size_t i = 0; to && i < n; i++)
        memcpy(to + i * words, sets[i], words * sizeof *to);
    return to;
}

static int keep(const struct compiler *c, const struct part *all, struct arena *a,
                const struct pattern **ret)
{
    struct pattern *p = arena_alloc(a, sizeof *p);
    size_t words = (c->places + WORD_BITS - 1) / WORD_BITS;

    if (!p)
        return err_set(c->e, ERR_TOO_BIG, "needs more memory than is allowed");
    *p = (struct pattern){
        .words = words,
        .empty = all->empty,
        .first = keep_sets(&all->first, 1, words, a),
        .last = keep_sets(&all->last, 1, words, a),
        .follow = keep_sets(c->follow, c->places, words, a),
        .takes = keep_sets(c->takes, BYTES, words, a),
    };
    if (!p->first || !p->last || !p->follow || !p->takes)
        return err_set(c->e, ERR_TOO_BIG, "needs more memory than is allowed");
    *ret = p;
    return 0;
}

/* A $ at the end that is not escaped: an even number of backslashes before it. */
static struct str without_anchors(struct str s)
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

static int compile(struct compiler *c, struct arena *a, const struct pattern **ret)
{
    struct part all;
    int r = read_choice(c, &all);

    if (r >= 0 && more(c))
        r = fail(c, "a ')' has no '('");
    return r < 0 ? r : keep(c, &all, a, ret);
}

/* Behind the bracket that begins at i, or the end. */
static size_t skip_bracket(struct str s, size_t i)
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

/* "^a|b$" would be read by others as two halves with an anchor each. */
static bool is_split(struct str s)
{
    unsigned depth = 0;
    size_t i = 0;

    while (i < s.n) {
        char b = s.p[i];

        if (b == '|' && !depth)
            return true;
        depth += b == '(';
        depth -= b == ')' && depth;
        i = b == '[' ? skip_bracket(s, i) : i + (b == '\\' ? 2 : 1);
    }
    return false;
}

int pattern_compile(struct str expression, struct arena *a, const struct pattern **ret,
                    struct err *e)
{
    struct str inner = without_anchors(expression);
    struct compiler *c;
    int r;

    if (expression.n > PATTERN_BYTES_MAX)
        return err_set(e, ERR_TOO_BIG, "has more than %d bytes", PATTERN_BYTES_MAX);
    if (inner.n != expression.n && is_split(inner))
        return err_set(e, ERR_INVALID,
                       "^ and $ beside a '|' belong to one alternative only; use a group");
    c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->text = inner;
    c->e = e;
    r = compile(c, a, ret);
    free(c);
    return r;
}

/* Where the automaton can be behind `now` and the byte; how many places were looked at. */
static size_t step(const struct pattern *p, const uint64_t *now, unsigned char b, uint64_t *next)
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

static bool meets(const struct pattern *p, const uint64_t *a, const uint64_t *b)
{
    for (size_t k = 0; k < p->words; k++)
        if (a[k] & b[k])
            return true;
    return false;
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
        steps += step(p, sets[at], (unsigned char)text.p[i], sets[!at]);
        if (steps > PATTERN_STEPS_MAX)
            return -(int)ERR_TOO_BIG;
    }
    return meets(p, sets[at], p->last);
}
