/* SPDX-License-Identifier: Apache-2.0 */
/* State of the scanner for Python, JavaScript and C, shared by code*.c. */
#ifndef ENGINE_SCAN_CODE_H
#define ENGINE_SCAN_CODE_H

#include "engine/scan/tokens.h"

enum {
    FRAMES_MAX = 192,
    CHAIN_MAX = 96,
    NAMES_MAX = 8,
    NUMBERS_MAX = 64,
    KNOWN_MAX = 256,
    VALUE_MAX = 512,
    TEXTS_MAX = 1 << 20,
    FRAME_ARGS_MAX = 48,
};

/* The meaning of a name: another name (os.system), or a text. */
struct known {
    char name[48];
    char stands_for[CHAIN_MAX];
    char text[VALUE_MAX];
    bool has_text;
};

struct text {
    size_t from, n;
};

/* An open bracket, or the current statement. */
struct code_frame {
    char kind;              /* '(' '[' '{', or 0 for the file */
    char callee[CHAIN_MAX]; /* '(': the callee; '[': the indexed name; "" without one */
    struct scan_place at;
    struct text args[FRAME_ARGS_MAX];
    size_t n;
    size_t mark; /* where its texts begin */
    char names[NAMES_MAX][48];
    size_t n_names;
    char first[CHAIN_MAX]; /* the first chain in it */
    unsigned char numbers[NUMBERS_MAX];
    size_t n_numbers;
    unsigned tokens, semicolons, colons;
    bool minus, after_text; /* '[': of 'text'[::-1] */
    bool more;              /* behind a plus: its text continues the last one */
    flows in;
    /* Of a statement: */
    char left[NAMES_MAX][48]; /* names that are assigned to */
    size_t n_left;
    bool destructured, called;
};

struct code {
    struct scan_state *s;
    enum scan_language language;
    struct scan_tokens k;
    struct scan_token t;
    struct code_frame *frames;
    size_t n;    /* frames; the last one is open */
    size_t lost; /* brackets beyond FRAMES_MAX */
    struct buf texts;
    char chain[CHAIN_MAX]; /* the name that was read so far: a.b.c */
    bool dot, plus, text_last;
    struct known *known;
    size_t n_known;
    bool loop, loop_next, calm; /* a loop without end: in it; its body follows; something waits */
    size_t loop_frame;
    unsigned loop_indent, indent;
};

static inline struct scan_place code_place(const struct code *c, struct scan_place at)
{
    return c->s->fixed ? *c->s->fixed : at;
}

static inline struct code_frame *code_top(struct code *c)
{
    return &c->frames[c->n - 1];
}

/* The frame of the statement: the innermost block. */
static inline bool code_is_statement(const struct code_frame *f)
{
    return f->kind == 0 || f->kind == '{';
}

static inline bool token_is(const struct scan_token *t, const char *text)
{
    return (t->kind == TOKEN_NAME || t->kind == TOKEN_SIGN) && str_eq(t->text, str_from(text));
}

static inline void code_next(struct code *c)
{
    tokens_next(&c->k, &c->t);
}

/* --- code_names.c: meanings of names, texts, and the name that is being read --- */
struct known *code_known(struct code *c, const char *name); /* NULL: nothing */
struct known *code_make_known(struct code *c, const char *name);
void code_stands_for(struct code *c, const char *name, const char *module, const char *member);
struct str code_text(const struct code *c, const struct text *t);
/* Adds a literal or a known text: a new argument, or a continuation of the last. */
void code_add_text(struct code *c, struct str s, bool more);
/* Values that a text holds in braces. */
flows code_held(const struct code *c, struct str s);
void code_clear_chain(struct code *c);
void code_set_chain(struct code *c, const char *a, const char *dot, struct str b);

/* --- code_calls.c: calls, as acts that rules are compared with --- */
flows code_judge(struct code *c, struct code_frame *f); /* returns the flows of its result */
/* True if the call evaluates to a name, which is the chain now, or to a text, which may be in
 * room. */
bool code_resolve(struct code *c, const struct code_frame *f, struct str *ret_text, char *room,
                  size_t cap);

/* --- code_frames.c: brackets, statements and loops --- */
void code_push(struct code *c, char kind);
void code_pop(struct code *c, char kind);
void code_note_left(struct code *c); /* the names so far are assigned to */
void code_end_statement(struct code *c);
void code_end_loop(struct code *c);

/* --- code_imports.c --- */
bool code_read_import(struct code *c); /* false: not an import */

#endif
