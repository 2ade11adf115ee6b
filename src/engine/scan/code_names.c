/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of code that can be known without running anything. */
#include "engine/scan/code.h"

#include <string.h>

#include "base/own.h"

/* --- Known names --- */

struct known *code_known(struct code *c, const char *name)
{
    for (size_t i = 0; i < c->n_known; i++)
        if (strcmp(c->known[i].name, name) == 0)
            return &c->known[i];
    return NULL;
}

struct known *code_make_known(struct code *c, const char *name)
{
    struct known *k = code_known(c, name);

    if (!k && c->n_known < KNOWN_MAX && name[0]) {
        k = &c->known[c->n_known++];
        str_copy(str_from(name), k->name, sizeof k->name);
    }
    if (k) {
        k->stands_for[0] = '\0';
        k->has_text = false;
    }
    return k;
}

void code_stands_for(struct code *c, const char *name, const char *module, const char *member)
{
    struct known *k = code_make_known(c, name);
    AUTO(buf_done) struct buf full = BUF_INIT(CHAIN_MAX - 1);

    if (!strncmp(module, "node:", 5))
        module += 5;
    if (k && buf_addf(&full, "%s%s%s", module, member ? "." : "", member ? member : "") == 0)
        str_copy(buf_str(&full), k->stands_for, sizeof k->stands_for);
}

/* --- Texts --- */

struct str code_text(const struct code *c, const struct text *t)
{
    return (struct str){ c->texts.p ? c->texts.p + t->from : "", t->n };
}

void code_add_text(struct code *c, struct str s, bool more)
{
    struct code_frame *f = code_top(c);

    if (s.n > SCAN_WORD_MAX * 8)
        s.n = SCAN_WORD_MAX * 8;
    if (more && f->n && f->args[f->n - 1].from + f->args[f->n - 1].n == c->texts.n) {
        if (buf_add(&c->texts, s) == 0)
            f->args[f->n - 1].n += s.n;
    } else if (f->n < FRAME_ARGS_MAX) {
        size_t from = c->texts.n;

        if (buf_add(&c->texts, s) == 0)
            f->args[f->n++] = (struct text){ from, s.n };
    }
    c->text_last = true;
    c->plus = false;
}

flows code_held(const struct code *c, struct str s)
{
    flows in = 0;

    for (size_t i = 0; i < s.n; i++) {
        size_t from = i + 1, to = from;

        if (s.p[i] != '{')
            continue;
        while (to < s.n && (s.p[to] == '_' || ((s.p[to] | 32) >= 'a' && (s.p[to] | 32) <= 'z')))
            to++;
        in |= scan_carried(c->s, (struct str){ s.p + from, to - from });
    }
    return in;
}

/* --- The chain --- */

void code_clear_chain(struct code *c)
{
    c->chain[0] = '\0';
    c->dot = false;
}

void code_set_chain(struct code *c, const char *a, const char *dot, struct str b)
{
    size_t a_n = strlen(a), dot_n = strlen(dot);

    c->dot = false;
    if (a_n + dot_n + b.n >= CHAIN_MAX || (b.n && memchr(b.p, '\0', b.n))) {
        c->chain[0] = '\0';
        return;
    }
    memmove(c->chain, a, a_n); /* it may be the chain itself */
    memcpy(c->chain + a_n, dot, dot_n);
    if (b.n)
        memcpy(c->chain + a_n + dot_n, b.p, b.n);
    c->chain[a_n + dot_n + b.n] = '\0';
}
