/* SPDX-License-Identifier: Apache-2.0 */
/* Variables and words of shell text. */
#include "base/hex.h"
#include "engine/scan/shell.h"

#include <string.h>

/* --- Variables --- */

static struct shell_variable *find_shell_variable(struct shell *sh, struct str name)
{
    for (size_t i = 0; i < sh->n_variables; i++)
        if (str_eq(str_from(sh->variables[i].name), name))
            return &sh->variables[i];
    return NULL;
}

void shell_assign(struct shell *sh, struct str name, struct str value, flows in)
{
    struct shell_variable *v = find_shell_variable(sh, name);

    scan_carry(sh->s, name, in);
    if (!v && sh->n_variables < VARIABLES && name.n < sizeof v->name) {
        v = &sh->variables[sh->n_variables++];
        str_copy(name, v->name, sizeof v->name);
    }
    if (v && !str_copy(value, v->value, sizeof v->value))
        v->value[0] = '\0';
}

/* --- Words --- */

void shell_add(struct shell *sh, struct str s)
{
    (void)buf_add(&sh->words, s); /* beyond a mebibyte of one command nothing is compared */
}

static void add_word_char(struct shell *sh, char c)
{
    shell_add(sh, (struct str){ &c, 1 });
}

static void add_variable_value(struct shell *sh, struct shell_word *w, struct str name)
{
    const struct shell_variable *v = find_shell_variable(sh, name);

    w->in |= scan_carried(sh->s, name);
    if (v && v->value[0]) {
        shell_add(sh, str_from(v->value));
        return;
    }
    if (str_eq(name, STR("IFS")))
        w->pieces |= 1u << 16;
    add_word_char(sh, '$');
    shell_add(sh, name);
}

/* ${name…}: the expansion behind the name is not computed. */
static void read_shell_braces(struct shell *sh, struct shell_word *w)
{
    size_t from;
    unsigned open = 1;

    sh->at += 2;
    while (shell_peek(sh, 0) == '#' || shell_peek(sh, 0) == '!')
        shell_step(sh);
    from = sh->at;
    while (shell_is_name_char(shell_peek(sh, 0)))
        shell_step(sh);
    add_variable_value(sh, w, (struct str){ sh->t.p + from, sh->at - from });
    if (shell_peek(sh, 0) == ':' &&
        (shell_is_name_char(shell_peek(sh, 1)) || shell_peek(sh, 1) == '$'))
        w->pieces++;
    while (!shell_at_end(sh) && open) {
        open += shell_peek(sh, 0) == '{';
        open -= shell_peek(sh, 0) == '}';
        shell_step(sh);
    }
}

/* Up to `most` digits of a base: \x72, \162. */
static void read_escaped_number(struct shell *sh, unsigned base, unsigned most)
{
    unsigned value = 0;

    for (unsigned i = 0; i < most && (unsigned)hex_digit(shell_peek(sh, 0)) < base; i++) {
        value = value * base + (unsigned)hex_digit(shell_peek(sh, 0));
        shell_step(sh);
    }
    add_word_char(sh, (char)value);
}

static void read_ansi_c(struct shell *sh)
{
    sh->at += 2; /* $' */
    while (!shell_at_end(sh) && shell_peek(sh, 0) != '\'') {
        if (shell_peek(sh, 0) != '\\') {
            add_word_char(sh, shell_peek(sh, 0));
            shell_step(sh);
            continue;
        }
        shell_step(sh);
        if (shell_peek(sh, 0) == 'x') {
            shell_step(sh);
            read_escaped_number(sh, 16, 2);
        } else if ((unsigned)hex_digit(shell_peek(sh, 0)) < 8) {
            read_escaped_number(sh, 8, 3);
        } else if (!shell_at_end(sh)) {
            add_word_char(sh, shell_peek(sh, 0) == 'n' ? '\n' : shell_peek(sh, 0));
            shell_step(sh);
        }
    }
    if (!shell_at_end(sh))
        shell_step(sh);
}

void shell_read_substitution(struct shell *sh, struct shell_word *w, size_t opening, char until)
{
    size_t mark;

    w->expanded = true;
    if (sh->depth == SCAN_DEPTH_MAX) {
        scan_add_special(sh->s, SPECIAL_DEPTH, shell_place(sh));
        sh->at += opening;
        return;
    }
    sh->at += opening;
    mark = sh->words.n;
    sh->depth++;
    w->in |= shell_read_list(sh, until);
    sh->depth--;
    sh->words.n = mark;
    shell_add(sh, STR("$()"));
    if (!shell_at_end(sh))
        shell_step(sh);
}

void shell_skip_arithmetic(struct shell *sh)
{
    unsigned open = 0;

    do {
        open += shell_peek(sh, 0) == '(';
        open -= open && shell_peek(sh, 0) == ')';
        shell_step(sh);
    } while (!shell_at_end(sh) && open);
}

static bool read_dollar(struct shell *sh, struct shell_word *w)
{
    size_t from;

    if (shell_peek(sh, 0) == '`') {
        shell_read_substitution(sh, w, 1, '`');
    } else if (shell_peek(sh, 1) == '(' && shell_peek(sh, 2) == '(') {
        sh->at++;
        shell_skip_arithmetic(sh);
        shell_add(sh, STR("$(())"));
    } else if (shell_peek(sh, 1) == '(') {
        shell_read_substitution(sh, w, 2, ')');
    } else if (shell_peek(sh, 1) == '{') {
        read_shell_braces(sh, w);
    } else if (shell_is_name_char(shell_peek(sh, 1))) {
        from = ++sh->at;
        while (shell_is_name_char(shell_peek(sh, 0)))
            sh->at++;
        add_variable_value(sh, w, (struct str){ sh->t.p + from, sh->at - from });
    } else if (shell_peek(sh, 1) == '@' || shell_peek(sh, 1) == '*') {
        sh->at += 2; /* no arguments are known: r$@m is rm */
    } else {
        return false;
    }
    return true;
}

static void read_double_quoted(struct shell *sh, struct shell_word *w)
{
    shell_step(sh);
    while (!shell_at_end(sh) && shell_peek(sh, 0) != '"') {
        char c = shell_peek(sh, 0);

        if (c == '\\' && sh->at + 1 < sh->t.n) {
            shell_step(sh);
            if (!strchr("$`\"\\\n", shell_peek(sh, 0)))
                add_word_char(sh, '\\');
            if (shell_peek(sh, 0) != '\n')
                add_word_char(sh, shell_peek(sh, 0));
            shell_step(sh);
        } else if ((c != '$' && c != '`') || !read_dollar(sh, w)) {
            add_word_char(sh, c);
            shell_step(sh);
        }
    }
    if (!shell_at_end(sh))
        shell_step(sh);
}

static void read_single_quoted(struct shell *sh)
{
    shell_step(sh);
    while (!shell_at_end(sh) && shell_peek(sh, 0) != '\'') {
        add_word_char(sh, shell_peek(sh, 0));
        shell_step(sh);
    }
    if (!shell_at_end(sh))
        shell_step(sh);
}

static void read_shell_escape(struct shell *sh)
{
    shell_step(sh);
    if (shell_at_end(sh))
        return;
    if (shell_peek(sh, 0) != '\n')
        add_word_char(sh, shell_peek(sh, 0));
    shell_step(sh);
}

struct shell_word shell_read_word(struct shell *sh, char until)
{
    struct shell_word w = { .from = sh->words.n };

    while (!shell_at_end(sh)) {
        char c = shell_peek(sh, 0);

        if (c && (strchr(" \t\r\n|&;<>()", c) || c == until))
            break;
        if (c == '\\') {
            read_shell_escape(sh);
        } else if (c == '\'') {
            w.quoted = true;
            read_single_quoted(sh);
        } else if (c == '"') {
            w.quoted = true;
            read_double_quoted(sh, &w);
        } else if (c == '$' && shell_peek(sh, 1) == '\'') {
            read_ansi_c(sh);
        } else if (c == '$' && shell_peek(sh, 1) == '"') {
            shell_step(sh);
        } else if ((c != '$' && c != '`') || !read_dollar(sh, &w)) {
            add_word_char(sh, c);
            shell_step(sh);
        }
    }
    w.n = sh->words.n - w.from;
    return w;
}

struct str shell_text(const struct shell *sh, const struct shell_word *w)
{
    size_t n = w->n < SCAN_WORD_MAX ? w->n : SCAN_WORD_MAX;

    return (struct str){ sh->words.p ? sh->words.p + w->from : "", n };
}
