/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/glob.h"

#include <strings.h>

#include "base/own.h"
#include "domain/policy/glob_program.h"

enum { RANGES_MAX = GLOB_BYTES_MAX };

/* Returns the next character, or a value above all characters for a byte that begins none. */
static uint32_t next_char(struct str *s)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    unsigned char first = (unsigned char)s->p[0];
    size_t n = first < 0x80   ? 1
               : first < 0xc2 ? 0
               : first < 0xe0 ? 2
               : first < 0xf0 ? 3
               : first < 0xf5 ? 4
                              : 0;
    uint32_t c = n == 1 ? first : first & (0xffu >> (n + 1));
    bool good = n > 0 && n <= s->n;

    for (size_t i = 1; good && i < n; i++) {
        good = ((unsigned char)s->p[i] & 0xc0) == 0x80;
        c = c << 6 | ((unsigned char)s->p[i] & 0x3f);
    }
    if (!good || c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
        n = 1;
        c = 0x110000u + first;
    }
    *s = (struct str){ s->p + n, s->n - n };
    return c;
}

struct glob_parser {
    struct str rest;
    bool parts, wide; /* of the dialect */
    char separator;
    unsigned depth; /* of braces */
    struct glob_op ops[GLOB_OPS_MAX];
    struct glob_range ranges[RANGES_MAX];
    size_t n, range_count;
    bool full;
    struct err *e;
};

static size_t emit_op(struct glob_parser *p, enum op_kind kind, uint32_t a, uint32_t b)
{
    if (p->n == GLOB_OPS_MAX) {
        p->full = true;
        return 0;
    }
    p->ops[p->n] = (struct glob_op){ .kind = kind, .a = a, .b = b };
    return p->n++;
}

static void emit_run(struct glob_parser *p, enum op_kind what)
{
    uint32_t at = (uint32_t)p->n;

    emit_op(p, OP_SPLIT, at + 1, at + 3);
    emit_op(p, what, 0, 0);
    emit_op(p, OP_JUMP, at, 0);
}

/* Emits: nothing, or any text that ends with a separator. */
static void emit_parts(struct glob_parser *p)
{
    uint32_t at = (uint32_t)p->n;

    emit_op(p, OP_SPLIT, at + 1, at + 5);
    emit_run(p, OP_ANY);
    emit_op(p, OP_CHAR, (unsigned char)p->separator, 0);
}

static bool at_char(const struct glob_parser *p, size_t i, char c)
{
    return i < p->rest.n && p->rest.p[i] == c;
}

static void skip_pattern(struct glob_parser *p, size_t n)
{
    p->rest = (struct str){ p->rest.p + n, p->rest.n - n };
}

/* Whether the pattern, or the alternative, ends i bytes from here. */
static bool ends_at(const struct glob_parser *p, size_t i)
{
    return i == p->rest.n || (p->depth && (at_char(p, i, ',') || at_char(p, i, '}')));
}

/* Whether "**" is a whole part i bytes from here, given that a part begins there. */
static bool stars_at(const struct glob_parser *p, size_t i)
{
    return at_char(p, i, '*') && at_char(p, i + 1, '*') &&
           (ends_at(p, i + 2) || at_char(p, i + 2, p->separator));
}

/* Parses a separator and the "**" behind it, as a whole part or at the end. */
static void parse_separator(struct glob_parser *p)
{
    bool stars = false;

    while (stars_at(p, 1)) {
        skip_pattern(p, 3);
        stars = true;
    }
    if (!stars || !ends_at(p, 0)) {
        emit_op(p, OP_CHAR, (unsigned char)p->separator, 0);
        if (stars)
            emit_parts(p);
        skip_pattern(p, 1);
        return;
    }
    if (!p->parts || p->wide) /* matches X itself, too */
        emit_op(p, OP_SPLIT, (uint32_t)p->n + 1, (uint32_t)p->n + 5);
    emit_op(p, OP_CHAR, (unsigned char)p->separator, 0);
    emit_run(p, OP_ANY);
}

static void parse_start(struct glob_parser *p)
{
    bool stars = false;

    while (stars_at(p, 0)) {
        stars = true;
        skip_pattern(p, 2);
        if (p->rest.n == 0) {
            emit_run(p, OP_ANY);
            return;
        }
        skip_pattern(p, 1);
    }
    if (stars)
        emit_parts(p);
}

static int add_range(struct glob_parser *p, uint32_t lo, uint32_t hi)
{
    if (lo > hi)
        return err_set(p->e, ERR_INVALID, "a range in [ ] is reversed");
    if (p->range_count == RANGES_MAX)
        return err_set(p->e, ERR_TOO_BIG, "has more than %d ranges in [ ]", RANGES_MAX);
    p->ranges[p->range_count++] = (struct glob_range){ lo, hi };
    return 0;
}

static int parse_class(struct glob_parser *p)
{
    size_t from = p->range_count, op;
    bool negated;
    int r = 0;

    skip_pattern(p, 1);
    negated = at_char(p, 0, '!') || (p->parts && at_char(p, 0, '^'));
    if (negated)
        skip_pattern(p, 1);
    for (bool first = true; r >= 0 && (first || !at_char(p, 0, ']')); first = false) {
        uint32_t lo, hi;

        if (p->rest.n == 0)
            return err_set(p->e, ERR_INVALID, "a '[' has no ']'");
        lo = hi = next_char(&p->rest);
        if (at_char(p, 0, '-') && p->rest.n > 1 && !at_char(p, 1, ']')) {
            skip_pattern(p, 1);
            hi = next_char(&p->rest);
        }
        r = add_range(p, lo, hi);
    }
    if (r < 0)
        return r;
    skip_pattern(p, 1);
    op = emit_op(p, OP_CLASS, (uint32_t)from, (uint32_t)(p->range_count - from));
    p->ops[op].negated = negated;
    return 0;
}

static int parse_items(struct glob_parser *p);

/* Every alternative begins with a SPLIT to the next; the last one's becomes a JUMP. The jumps to
 * the end form a chain until its position is known. */
static int parse_braces(struct glob_parser *p)
{
    uint32_t chain = UINT32_MAX;

    if (++p->depth > GLOB_DEPTH_MAX)
        return err_set(p->e, ERR_INVALID, "braces are nested more than %d deep", GLOB_DEPTH_MAX);
    for (bool last = false; !last;) {
        size_t split, jump;
        int r;

        skip_pattern(p, 1); /* '{' or ',' */
        if (at_char(p, 0, '*') && at_char(p, 1, '*'))
            return err_set(p->e, ERR_INVALID, "an alternative begins with '**'; put it in front");
        split = emit_op(p, OP_SPLIT, (uint32_t)p->n + 1, 0);
        r = parse_items(p);
        if (r < 0)
            return r;
        if (p->rest.n == 0)
            return err_set(p->e, ERR_INVALID, "a '{' has no '}'");
        last = at_char(p, 0, '}');
        jump = emit_op(p, OP_JUMP, chain, 0);
        chain = (uint32_t)jump;
        if (last)
            p->ops[split].kind = OP_JUMP;
        else
            p->ops[split].b = (uint32_t)p->n;
        if (p->full)
            return 0;
    }
    while (chain != UINT32_MAX) {
        uint32_t up = p->ops[chain].a;

        p->ops[chain].a = (uint32_t)p->n;
        chain = up;
    }
    p->depth--;
    skip_pattern(p, 1);
    return 0;
}

static int parse_item(struct glob_parser *p)
{
    char c = p->rest.p[0];
    int r = 0;

    if (c == p->separator) {
        parse_separator(p);
    } else if (c == '*') {
        while (at_char(p, 0, '*'))
            skip_pattern(p, 1);
        emit_run(p, p->parts ? OP_PART : OP_ANY);
    } else if (c == '?') {
        skip_pattern(p, 1);
        emit_op(p, p->parts ? OP_PART : OP_ANY, 0, 0);
    } else if (c == '[') {
        r = parse_class(p);
    } else if (c == '{' && p->parts) {
        r = parse_braces(p);
    } else if (c == '}' && p->parts) {
        r = err_set(p->e, ERR_INVALID, "a '}' has no '{'");
    } else if (c == '\\' && p->parts) {
        skip_pattern(p, 1);
        if (p->rest.n == 0)
            return err_set(p->e, ERR_INVALID, "ends with an incomplete escape '\\'");
        emit_op(p, OP_CHAR, next_char(&p->rest), 0);
    } else {
        emit_op(p, OP_CHAR, next_char(&p->rest), 0);
    }
    return r;
}

static int parse_items(struct glob_parser *p)
{
    int r = 0;

    while (r >= 0 && !p->full && !ends_at(p, 0))
        r = parse_item(p);
    return r;
}

/* Writes the literal characters at the start of the program as bytes. They precede the first split,
 * so nothing jumps into them. */
static size_t prefix_bytes(const struct glob_parser *p, struct str pattern,
                           char out[GLOB_BYTES_MAX])
{
    size_t bytes = 0;
    struct str rest = pattern;

    for (size_t i = 0; i < p->n && p->ops[i].kind == OP_CHAR; i++) {
        const char *from;
        uint32_t c;

        do { /* skips the backslashes */
            from = rest.p;
            c = next_char(&rest);
        } while (c != p->ops[i].a);
        memcpy(out + bytes, from, (size_t)(rest.p - from));
        bytes += (size_t)(rest.p - from);
    }
    return bytes;
}

static int build_glob(const struct glob_parser *p, struct str pattern, struct arena *a,
                      const struct glob **ret, struct err *e)
{
    struct glob *g = arena_alloc(a, sizeof *g);
    struct glob_op *ops = arena_array(a, p->n, sizeof *ops);
    struct glob_range *ranges = arena_array(a, p->range_count + 1, sizeof *ranges);
    char bytes[GLOB_BYTES_MAX];
    size_t n = prefix_bytes(p, pattern, bytes);
    char *prefix = arena_dup(a, (struct str){ bytes, n });

    if (!g || !ops || !ranges || !prefix)
        return err_set(e, ERR_TOO_BIG, "the policy needs more memory than is allowed");
    memcpy(ops, p->ops, p->n * sizeof *ops);
    memcpy(ranges, p->ranges, p->range_count * sizeof *ranges);
    *g = (struct glob){ .ops = ops,
                        .n = p->n,
                        .ranges = ranges,
                        .separator = (unsigned char)p->separator,
                        .parts = p->parts,
                        .wide = p->wide,
                        .prefix = { prefix, n } };
    g->literal = true;
    for (size_t i = 0; i + 1 < p->n; i++)
        g->literal &= ops[i].kind == OP_CHAR;
    *ret = g;
    return 0;
}

int glob_compile(struct str pattern, enum glob_dialect dialect, char separator, struct arena *a,
                 const struct glob **ret, struct err *e)
{
    AUTO_FREE struct glob_parser *p = NULL;
    int r;

    if (pattern.n > GLOB_BYTES_MAX)
        return err_set(e, ERR_INVALID, "is longer than %d bytes", GLOB_BYTES_MAX);
    p = new0(sizeof *p);
    p->rest = pattern;
    p->parts = dialect == GLOB_PARTS || dialect == GLOB_PARTS_WIDE;
    p->wide = dialect == GLOB_PARTS_WIDE || dialect == GLOB_PLAIN_WIDE;
    p->separator = separator;
    p->e = e;
    parse_start(p);
    r = parse_items(p);
    if (r < 0)
        return r;
    emit_op(p, OP_MATCH, 0, 0);
    if (p->full)
        return err_set(e, ERR_INVALID,
                       "needs more than %d steps; use fewer wildcards and alternatives",
                       GLOB_OPS_MAX);
    return build_glob(p, pattern, a, ret, e);
}

struct str glob_prefix(const struct glob *g)
{
    return g->prefix;
}

bool glob_is_literal(const struct glob *g)
{
    return g->literal;
}

void glob_states_add_(const struct glob *g, uint64_t *states, size_t at)
{
    while (!glob_states_have_(states, at)) {
        const struct glob_op *op = &g->ops[at];

        states[at / 64] |= (uint64_t)1 << (at % 64);
        if (op->kind == OP_SPLIT)
            glob_states_add_(g, states, op->b);
        if (op->kind != OP_SPLIT && op->kind != OP_JUMP)
            return;
        at = op->a;
    }
}

static bool class_has(const struct glob *g, const struct glob_op *op, uint32_t c)
{
    bool in = false;

    if (g->parts && c == g->separator)
        return false;
    for (size_t i = 0; i < op->b && !in; i++)
        in = c >= g->ranges[op->a + i].lo && c <= g->ranges[op->a + i].hi;
    return in != op->negated;
}

static bool op_takes_as_is(const struct glob *g, const struct glob_op *op, uint32_t c)
{
    switch (op->kind) {
    case OP_CHAR:
        return op->a == c;
    case OP_ANY:
        return true;
    case OP_PART:
        return c != g->separator;
    case OP_CLASS:
        return class_has(g, op, c);
    default:
        return false;
    }
}

bool glob_op_takes_(const struct glob *g, const struct glob_op *op, uint32_t c)
{
    bool letter = c < 0x80 && (c | 0x20) >= 'a' && (c | 0x20) <= 'z';

    return op_takes_as_is(g, op, c) || (g->wide && letter && op_takes_as_is(g, op, c ^ 0x20));
}

void glob_states_step_(const struct glob *g, const uint64_t *from, uint32_t c, uint64_t *to)
{
    for (size_t w = 0; w < glob_words_(g); w++)
        for (uint64_t bits = from[w]; bits; bits &= bits - 1) {
            size_t at = w * 64 + (size_t)__builtin_ctzll(bits);

            if (glob_op_takes_(g, &g->ops[at], c))
                glob_states_add_(g, to, at + 1);
        }
}

/* An empty text may be NULL, which strncasecmp() does not take. */
static bool has_wide_prefix(const struct glob *g, struct str text)
{
    return g->prefix.n == 0 ||
           (text.n >= g->prefix.n && strncasecmp(text.p, g->prefix.p, g->prefix.n) == 0);
}

bool glob_match(const struct glob *g, struct str text)
{
    uint64_t now[GLOB_WORDS], next[GLOB_WORDS];
    size_t used = glob_words_(g) * sizeof now[0];

    if (!(g->wide ? has_wide_prefix(g, text) : str_starts(text, g->prefix)))
        return false;
    if (g->literal)
        return text.n == g->prefix.n;
    memset(now, 0, used);
    glob_states_add_(g, now, 0);
    while (text.n) {
        memset(next, 0, used);
        glob_states_step_(g, now, next_char(&text), next);
        memcpy(now, next, used);
    }
    return glob_states_have_(now, g->n - 1);
}

/* Characters where a set can begin: its least one, and those behind the ends of other sets. */
static size_t first_chars(const struct glob *g, const struct glob_op *op, size_t i, uint32_t out[2])
{
    if (op->kind == OP_CLASS && i < op->b) {
        out[0] = g->ranges[op->a + i].lo;
        out[1] = g->ranges[op->a + i].hi + 1;
        return 2;
    }
    if (i > (op->kind == OP_CLASS ? op->b : 0))
        return 0;
    out[0] = op->kind == OP_CHAR ? op->a : 1;
    out[1] = g->separator + 1;
    return 2;
}

/* Whether a character matches both operations. */
static bool ops_meet(const struct glob *a, const struct glob_op *x, const struct glob *b,
                     const struct glob_op *y)
{
    uint32_t c[2];

    for (int side = 0; side < 2; side++)
        for (size_t i = 0, n; (n = side ? first_chars(b, y, i, c) : first_chars(a, x, i, c)); i++)
            for (size_t k = 0; k < n; k++)
                if (glob_op_takes_(a, x, c[k]) && glob_op_takes_(b, y, c[k]))
                    return true;
    return false;
}

/* Pairs of states still to be visited; each is added once. */
struct state_pairs {
    const struct glob *a, *b;
    uint64_t *seen;
    uint32_t *todo;
    size_t n;
};

static void pairs_add(struct state_pairs *p, size_t x, size_t y)
{
    size_t at = x * p->b->n + y;

    if (p->seen[at / 64] >> (at % 64) & 1)
        return;
    p->seen[at / 64] |= (uint64_t)1 << (at % 64);
    p->todo[p->n++] = (uint32_t)at;
}

/* Takes the steps that need no character; false if the state has none. */
static bool pairs_slip(struct state_pairs *p, size_t x, size_t y)
{
    const struct glob_op *a = &p->a->ops[x], *b = &p->b->ops[y];
    bool of_a = a->kind == OP_SPLIT || a->kind == OP_JUMP;
    const struct glob_op *op = of_a ? a : b;

    if (!of_a && b->kind != OP_SPLIT && b->kind != OP_JUMP)
        return false;
    pairs_add(p, of_a ? op->a : x, of_a ? y : op->a);
    if (op->kind == OP_SPLIT)
        pairs_add(p, of_a ? op->b : x, of_a ? y : op->b);
    return true;
}

bool glob_overlap(const struct glob *a, const struct glob *b)
{
    AUTO_FREE uint64_t *seen = new0_array(a->n * b->n / 64 + 1, sizeof *seen);
    AUTO_FREE uint32_t *todo = new0_array(a->n * b->n, sizeof *todo);
    struct state_pairs p = { .a = a, .b = b, .seen = seen, .todo = todo };

    pairs_add(&p, 0, 0);
    while (p.n) {
        size_t at = p.todo[--p.n], x = at / b->n, y = at % b->n;
        const struct glob_op *of_a = &a->ops[x], *of_b = &b->ops[y];

        if (pairs_slip(&p, x, y))
            continue;
        if (of_a->kind == OP_MATCH && of_b->kind == OP_MATCH)
            return true;
        if (of_a->kind != OP_MATCH && of_b->kind != OP_MATCH && ops_meet(a, of_a, b, of_b))
            pairs_add(&p, x + 1, y + 1);
    }
    return false;
}
