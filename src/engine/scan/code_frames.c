/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of code: an open bracket, or the current statement. */
#include "engine/scan/code.h"

#include <string.h>

/* The end of `left = …`: sets the flows and meanings of the names. */
static void assign_left(struct code *c, struct code_frame *f)
{
    for (size_t i = 0; i < f->n_left; i++) {
        scan_carry(c->s, str_from(f->left[i]), f->in);
        if (c->chain[0] && !f->called) {
            code_stands_for(c, f->left[i], c->chain,
                            f->destructured || f->n_left > 1 ? f->left[i] : NULL);
        } else if (f->n == 1 && !f->called) {
            struct known *k = code_make_known(c, f->left[i]);

            if (k)
                k->has_text = str_copy(code_text(c, &f->args[0]), k->text, sizeof k->text);
        } else {
            code_make_known(c, f->left[i]);
        }
    }
    f->n_left = f->n = f->n_names = f->n_numbers = 0;
    f->in = 0;
    f->called = f->destructured = false;
    f->first[0] = '\0';
    c->texts.n = f->kind == 0 ? 0 : f->mark;
}

static void note_loop_header(struct code *c, const struct code_frame *f)
{
    bool one = f->tokens == 1 && (f->n_numbers || scan_like("true|True", str_from(f->first)));

    if (c->loop || c->language == SCAN_PYTHON)
        return;
    if ((!strcmp(f->callee, "while") && one) ||
        (!strcmp(f->callee, "for") && f->tokens == 2 && f->semicolons == 2))
        c->loop_next = true;
}

void code_push(struct code *c, char kind)
{
    struct code_frame *f;

    if (c->n == FRAMES_MAX) {
        if (!c->lost++)
            scan_add_special(c->s, SPECIAL_DEPTH, code_place(c, c->t.at));
        return;
    }
    f = &c->frames[c->n++];
    f->n = f->n_names = f->n_numbers = f->n_left =
        0; /* not all of it: brackets are many, and it is big */
    f->tokens = f->semicolons = f->colons = 0;
    f->minus = f->destructured = f->called = false;
    f->callee[0] = f->first[0] = '\0';
    f->in = 0;
    f->kind = kind;
    f->at = c->t.at;
    f->mark = c->texts.n;
    f->after_text = c->text_last;
    f->more = c->plus;
    if (kind != '{')
        memcpy(f->callee, c->chain, sizeof f->callee);
    if (kind == '{' && c->loop_next) {
        c->loop = true;
        c->calm = c->loop_next = false;
        c->loop_frame = c->n;
    }
    code_clear_chain(c);
    c->text_last = c->plus = false;
}

void code_end_loop(struct code *c)
{
    c->loop = false;
    scan_loop_end(c->s, c->calm);
}

static void reverse_last(struct code *c)
{
    struct code_frame *f = code_top(c);
    struct text *t;

    if (!f->n)
        return;
    t = &f->args[f->n - 1];
    for (size_t i = 0; i < t->n / 2; i++) {
        char *a = c->texts.p + t->from + i, *b = c->texts.p + t->from + t->n - 1 - i, keep = *a;

        *a = *b;
        *b = keep;
    }
}

/* The contents of a bracket that is not a call belong to the surrounding expression. */
static void merge_frame(struct code *c, const struct code_frame *f)
{
    struct code_frame *above = code_top(c);

    above->in |= f->in;
    for (size_t i = 0; i < f->n && above->n < FRAME_ARGS_MAX; i++)
        above->args[above->n++] = f->args[i];
    for (size_t i = 0; i < f->n_names && above->n_names < NAMES_MAX; i++)
        memcpy(above->names[above->n_names++], f->names[i], sizeof f->names[i]);
    for (size_t i = 0; i < f->n_numbers && above->n_numbers < NUMBERS_MAX; i++)
        above->numbers[above->n_numbers++] = f->numbers[i];
}

static void pop_call(struct code *c, struct code_frame *f)
{
    struct code_frame *above = code_top(c);
    char room[VALUE_MAX];
    struct str text = { 0 };
    flows out = code_judge(c, f);

    above->in |= out;
    above->called = true;
    note_loop_header(c, f);
    if (!code_resolve(c, f, &text, room, sizeof room)) {
        code_set_chain(c, f->callee, "()", STR(""));
        c->texts.n = f->mark;
        return;
    }
    c->texts.n = f->mark;
    if (text.p) {
        if (str_eq(str_from(f->callee), STR("''.join")) && above->n)
            above->n--; /* the separator of the pieces */
        code_add_text(c, text, f->more);
        code_clear_chain(c);
    } else {
        above->called = false; /* a name, still */
    }
}

static void pop_index(struct code *c, struct code_frame *f)
{
    if (f->after_text && f->colons == 2 && f->minus) {
        reverse_last(c);
        c->text_last = true;
    } else if (f->callee[0] && f->n == 1) { /* window['eval'] */
        code_set_chain(c, f->callee, ".", code_text(c, &f->args[0]));
        c->texts.n = f->mark;
    } else {
        merge_frame(c, f);
        code_clear_chain(c);
    }
}

void code_pop(struct code *c, char kind)
{
    struct code_frame *f;

    if (c->lost) {
        c->lost--;
        return;
    }
    if (c->n == 1)
        return;              /* a stray one */
    if (code_top(c)->n_left) /* a block's last statement; the rest of an object's names is merged */
        assign_left(c, code_top(c));
    f = &c->frames[--c->n];
    if (c->loop && c->language != SCAN_PYTHON && c->n + 1 == c->loop_frame && c->loop_frame)
        code_end_loop(c);
    c->text_last = c->plus = false;
    if (f->kind == '(' && f->callee[0] && kind == ')') {
        pop_call(c, f);
    } else if (f->kind == '[' && kind == ']') {
        pop_index(c, f);
    } else {
        merge_frame(c, f);
        code_clear_chain(c);
        code_top(c)->destructured = f->kind == '{';
    }
}

void code_end_statement(struct code *c)
{
    if (!code_is_statement(code_top(c)))
        return;
    assign_left(c, code_top(c));
    code_clear_chain(c);
    c->text_last = c->plus = false;
    if (c->loop && c->language != SCAN_PYTHON && !c->loop_frame)
        code_end_loop(c); /* its body was one statement */
}

void code_note_left(struct code *c)
{
    struct code_frame *f = code_top(c);

    if (!code_is_statement(f))
        return;
    f->n_left = 0;
    for (size_t i = f->destructured || c->language == SCAN_PYTHON ? 0
                    : f->n_names                                  ? f->n_names - 1
                                                                  : 0;
         i < f->n_names; i++)
        memcpy(f->left[f->n_left++], f->names[i], sizeof f->names[i]);
    f->n_names = f->n = 0;
    f->in = 0;
    f->called = false;
    code_clear_chain(c);
}
