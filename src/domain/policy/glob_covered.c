/* SPDX-License-Identifier: Apache-2.0 */
/* Searches, breadth first, for a text that one glob matches and none of the others. */
#include "base/own.h"
#include "domain/policy/glob_program.h"

enum {
    NODES_MAX = 4096,
    SLOTS = 2 * NODES_MAX,
    WORDS_MAX = 1 << 17, /* of all nodes */
    CHARS_MAX = 512,
};

/* A node is a state of `a`, and the states in which each of the others can be after the same
 * text. */
struct cover_search {
    const struct glob *a, *const *by;
    size_t n, width; /* width: words of the states of all others */
    uint32_t *state; /* of each node */
    uint64_t *words; /* `width` of each node, and of one more, which is being made */
    uint16_t *slots; /* hash table of nodes, which count from 1; 0: free */
    size_t count, max;
    uint32_t *chars; /* one of each class of characters that all globs treat alike, sorted */
    size_t char_count;
    size_t *work;
    bool given_up;
};

static bool take_work(struct cover_search *c, size_t n)
{
    c->given_up |= *c->work < n;
    *c->work = c->given_up ? 0 : *c->work - n;
    return !c->given_up;
}

static void add_char(struct cover_search *c, uint32_t ch)
{
    size_t low = 0, high = c->char_count;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (c->chars[mid] < ch)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < c->char_count && c->chars[low] == ch)
        return;
    c->given_up |= c->char_count == CHARS_MAX;
    if (c->given_up)
        return;
    memmove(c->chars + low + 1, c->chars + low, (c->char_count - low) * sizeof *c->chars);
    c->chars[low] = ch;
    c->char_count++;
}

/* A class begins with this character, and with the letter that wide globs treat like it. */
static void add_border(struct cover_search *c, uint32_t ch)
{
    add_char(c, ch);
    if (ch >= 'A' && ch <= 'Z' + 1)
        add_char(c, ch + 0x20);
    if (ch >= 'a' && ch <= 'z' + 1)
        add_char(c, ch - 0x20);
}

static void add_borders_of(struct cover_search *c, const struct glob *g)
{
    if (!take_work(c, g->n))
        return;
    add_border(c, g->separator);
    add_border(c, g->separator + 1);
    for (size_t i = 0; i < g->n; i++) {
        const struct glob_op *op = &g->ops[i];

        if (op->kind == OP_CHAR) {
            add_border(c, op->a);
            add_border(c, op->a + 1);
        }
        for (size_t k = 0; op->kind == OP_CLASS && k < op->b; k++) {
            add_border(c, g->ranges[op->a + k].lo);
            add_border(c, g->ranges[op->a + k].hi + 1);
        }
    }
}

static uint64_t *cover_words(const struct cover_search *c, size_t node)
{
    return c->words + node * c->width;
}

static size_t hash_node(const struct cover_search *c, uint32_t state, const uint64_t *words)
{
    uint64_t h = 0xcbf29ce484222325u ^ state;

    for (size_t i = 0; i < c->width; i++) {
        h = (h ^ words[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    return (size_t)h % SLOTS;
}

/* Adds a node with the words that were made, unless it is there. */
static void add_cover_node(struct cover_search *c, uint32_t state)
{
    const uint64_t *made = cover_words(c, c->max);
    size_t slot = hash_node(c, state, made);

    for (; c->slots[slot]; slot = (slot + 1) % SLOTS) {
        size_t node = c->slots[slot] - 1u;

        if (c->state[node] == state &&
            memcmp(cover_words(c, node), made, c->width * sizeof *made) == 0)
            return;
    }
    c->given_up |= c->count == c->max;
    if (c->given_up)
        return;
    c->state[c->count] = state;
    memcpy(cover_words(c, c->count), made, c->width * sizeof *made);
    c->slots[slot] = (uint16_t)++c->count;
}

/* Adds the nodes for a state of `a` and those that it reaches without a character. */
static void add_cover_nodes(struct cover_search *c, size_t state)
{
    uint64_t states[GLOB_WORDS];

    memset(states, 0, glob_words_(c->a) * sizeof *states);
    glob_states_add_(c->a, states, state);
    for (size_t w = 0; w < glob_words_(c->a); w++)
        for (uint64_t bits = states[w]; bits; bits &= bits - 1) {
            size_t at = w * 64 + (size_t)__builtin_ctzll(bits);

            if (c->a->ops[at].kind != OP_SPLIT && c->a->ops[at].kind != OP_JUMP)
                add_cover_node(c, (uint32_t)at);
        }
}

static void begin_search(struct cover_search *c)
{
    uint64_t *made = cover_words(c, c->max);

    add_border(c, 0);
    add_border(c, 'A');
    add_border(c, 'Z' + 1);
    add_borders_of(c, c->a);
    for (size_t i = 0; i < c->n; made += glob_words_(c->by[i]), i++) {
        add_borders_of(c, c->by[i]);
        glob_states_add_(c->by[i], made, 0);
    }
    add_cover_nodes(c, 0);
}

static bool is_matched(const struct cover_search *c, const uint64_t *words)
{
    for (size_t i = 0; i < c->n; words += glob_words_(c->by[i]), i++)
        if (glob_states_have_(words, c->by[i]->n - 1))
            return true;
    return false;
}

static void step_over(struct cover_search *c, size_t node, uint32_t ch)
{
    const uint64_t *from = cover_words(c, node);
    uint64_t *made = cover_words(c, c->max);

    if (!take_work(c, c->width))
        return;
    memset(made, 0, c->width * sizeof *made);
    for (size_t i = 0; i < c->n; i++) {
        glob_states_step_(c->by[i], from, ch, made);
        from += glob_words_(c->by[i]);
        made += glob_words_(c->by[i]);
    }
    add_cover_nodes(c, c->state[node] + 1u);
}

/* False: a text that leads to this node is matched by `a` alone. */
static bool visit_node(struct cover_search *c, size_t node)
{
    const struct glob_op *op = &c->a->ops[c->state[node]];

    if (op->kind == OP_MATCH)
        return is_matched(c, cover_words(c, node));
    for (size_t i = 0; i < c->char_count && take_work(c, 1); i++)
        if (glob_op_takes_(c->a, op, c->chars[i]))
            step_over(c, node, c->chars[i]);
    return true;
}

/* `c` with its bounds. False: given up, or a text was found. */
static bool search_cover(struct cover_search *c)
{
    AUTO_FREE uint32_t *state = new0_array(c->max, sizeof *state);
    AUTO_FREE uint32_t *chars = new0_array(CHARS_MAX, sizeof *chars);
    AUTO_FREE uint64_t *words = new0_array((c->max + 1) * c->width, sizeof *words);
    AUTO_FREE uint16_t *slots = new0_array(SLOTS, sizeof *slots);
    bool covered = true;

    c->state = state;
    c->chars = chars;
    c->words = words;
    c->slots = slots;
    begin_search(c);
    for (size_t i = 0; i < c->count && covered && !c->given_up; i++)
        covered = visit_node(c, i);
    return covered && !c->given_up;
}

bool glob_covered(const struct glob *a, const struct glob *const *by, size_t n, size_t *work)
{
    struct cover_search c = { .a = a, .by = by, .n = n, .work = work };

    for (size_t i = 0; i < n; i++)
        c.width += glob_words_(by[i]);
    if (n == 0 || c.width > WORDS_MAX / 2)
        return false;
    c.max = WORDS_MAX / c.width < NODES_MAX ? WORDS_MAX / c.width : NODES_MAX;
    return search_cover(&c);
}
