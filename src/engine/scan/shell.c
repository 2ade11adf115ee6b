/* SPDX-License-Identifier: Apache-2.0 */
/* Shell text into commands: lists, redirections, here-documents. Substitutions are read in
 * place, by the same functions. */
#include "engine/scan/shell.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"

/* --- Redirections and here-documents --- */

static void skip_shell_blanks(struct shell *sh)
{
    while (shell_peek(sh, 0) == ' ' || shell_peek(sh, 0) == '\t' ||
           (shell_peek(sh, 0) == '\\' && shell_peek(sh, 1) == '\n')) {
        if (shell_peek(sh, 0) == '\\')
            shell_step(sh);
        shell_step(sh);
    }
}

static void read_heredoc_mark(struct shell *sh, char until)
{
    struct heredoc h = { .tabs = shell_peek(sh, 0) == '-' };
    struct shell_word w;

    if (h.tabs)
        shell_step(sh);
    skip_shell_blanks(sh);
    w = shell_read_word(sh, until);
    if (sh->n_heredocs < HEREDOCS_MAX && str_copy(shell_text(sh, &w), h.end, sizeof h.end))
        sh->heredocs[sh->n_heredocs++] = h;
}

static void read_heredoc(struct shell *sh, const struct heredoc *h)
{
    size_t from = sh->at, end = sh->at;
    struct scan_place at = shell_place(sh);
    struct str line;

    while (!shell_at_end(sh)) {
        end = sh->at;
        str_cut((struct str){ sh->t.p + sh->at, sh->t.n - sh->at }, '\n', &line);
        sh->at += line.n;
        if (!shell_at_end(sh))
            shell_step(sh);
        while (h->tabs && line.n && line.p[0] == '\t')
            line = (struct str){ line.p + 1, line.n - 1 };
        if (str_eq(line, str_from(h->end)))
            break;
        end = sh->at;
    }
    scan_nested(sh->s, h->language, (struct str){ sh->t.p + from, end - from }, at);
}

/* <<<: a shell reads the word as its program. */
static void read_here_string(struct shell *sh, struct shell_command *c, char until)
{
    AUTO(buf_done) struct buf copy = BUF_INIT(64 << 10);
    struct scan_place at = shell_place(sh);
    size_t name = shell_find_name(sh, c);
    struct shell_word w;

    skip_shell_blanks(sh);
    w = shell_read_word(sh, until);
    c->in |= w.in;
    if (name < c->n && buf_add(&copy, shell_text(sh, &w)) == 0)
        scan_nested(sh->s, scan_interpreter(shell_base_name(shell_text(sh, &c->words[name]))),
                    buf_str(&copy), at);
}

static void read_redirection(struct shell *sh, struct shell_command *c, char until)
{
    char kind = shell_peek(sh, 0);
    struct shell_word w = { 0 };

    shell_step(sh);
    if (shell_peek(sh, 0) == '(') { /* <(list): a file with what the list yields */
        w.from = sh->words.n;
        shell_read_substitution(sh, &w, 1, ')');
        w.n = sh->words.n - w.from;
        shell_add_word(sh, c, w);
        return;
    }
    if (kind == '<' && shell_peek(sh, 0) == '<') {
        shell_step(sh);
        if (shell_peek(sh, 0) == '<') {
            shell_step(sh);
            read_here_string(sh, c, until);
        } else {
            read_heredoc_mark(sh, until);
        }
        return;
    }
    if (shell_peek(sh, 0) == '>') /* <> writes, too */
        kind = '>';
    while (shell_peek(sh, 0) == '>' || shell_peek(sh, 0) == '&' || shell_peek(sh, 0) == '|')
        shell_step(sh);
    skip_shell_blanks(sh);
    w = shell_read_word(sh, until);
    if (kind == '<') {
        shell_add_word(sh, c, w);
    } else if (!shell_is_option_or_number(shell_text(sh, &w))) { /* 2>&1 is no file */
        shell_judge_target(sh, c, c->in, sh->loops);
        if (!str_copy(shell_text(sh, &w), c->target, sizeof c->target))
            c->target[0] = '\0';
    }
}

/* --- Lists --- */

/* name ( ) : a function; its body follows. */
static bool read_function(struct shell *sh, struct shell_command *c)
{
    size_t i = 1;

    while (shell_peek(sh, i) == ' ')
        i++;
    if (c->n == 0 || shell_peek(sh, i) != ')')
        return false;
    if (!str_copy(shell_text(sh, &c->words[c->n - 1]), sh->function, sizeof sh->function))
        sh->function[0] = '\0';
    sh->at += i + 1;
    return true;
}

/* The end of a command by an operator; sets the input of the next one. */
static void end_shell_command(struct shell *sh, struct shell_command *c, bool piped)
{
    flows out = c->n || c->target[0] ? shell_judge(sh, c) : c->in;

    if (!piped) {
        c->group |= out;
        c->before[0] = '\0';
    }
    sh->words.n = c->mark;
    c->n = 0;
    c->in = piped ? out : 0;
    c->target[0] = '\0';
}

static void read_operator(struct shell *sh, struct shell_command *c)
{
    char op = shell_peek(sh, 0);
    bool twice = shell_peek(sh, 1) == op && op != '\n';
    struct scan_place at = shell_place(sh);
    size_t n_heredocs;

    if (op == '&' && shell_peek(sh, 1) == '>') {
        shell_step(sh);
        return; /* &>file: the next turn reads it */
    }
    if (op == '&' && !twice && sh->loops && c->n) {
        const struct act start = { .name = STR("&"), .at = at, .endless = true };

        scan_act(sh->s, &start);
    }
    end_shell_command(sh, c, op == '|' && !twice);
    n_heredocs = sh->n_heredocs;
    shell_step(sh);
    if (twice || (op == '|' && shell_peek(sh, 0) == '&'))
        shell_step(sh);
    if (op != '\n')
        return;
    sh->n_heredocs = 0;
    for (size_t i = 0; i < n_heredocs; i++)
        read_heredoc(sh, &sh->heredocs[i]);
}

static void read_subshell(struct shell *sh, struct shell_command *c)
{
    struct shell_word w = { .from = sh->words.n };

    if (shell_peek(sh, 1) == '(') {
        shell_skip_arithmetic(sh);
        shell_add(sh, STR("1"));
    } else {
        shell_read_substitution(sh, &w, 1, ')');
        c->in |= w.in;
        sh->words.n = w.from;
        shell_add(sh, STR("()"));
    }
    w.n = sh->words.n - w.from;
    w.in = 0;
    shell_add_word(sh, c, w);
}

static void read_part(struct shell *sh, struct shell_command *c, char until)
{
    char ch = shell_peek(sh, 0);

    if (!c->n)
        c->at = shell_place(sh);
    if (ch == '#') {
        while (!shell_at_end(sh) && shell_peek(sh, 0) != '\n')
            shell_step(sh);
    } else if (strchr("\n;|&", ch) && ch) {
        read_operator(sh, c);
    } else if (ch == '<' || ch == '>') {
        read_redirection(sh, c, until);
    } else if (ch == '(' && !read_function(sh, c)) {
        read_subshell(sh, c);
    } else if (ch == ')' || ch == '\r') {
        shell_step(sh); /* of a case, or a stray one */
    } else if (ch != '(') {
        struct shell_word w = shell_read_word(sh, until);

        if (w.n == 0 && !w.quoted && !w.expanded && sh->at < sh->t.n && shell_peek(sh, 0) == ch)
            shell_step(sh); /* always on */
        else
            shell_add_word(sh, c, w);
    }
}

flows shell_read_list(struct shell *sh, char until)
{
    struct shell_command *c = new0(sizeof *c);
    flows out;

    c->mark = sh->words.n;
    for (;;) {
        skip_shell_blanks(sh);
        if (shell_at_end(sh) || (until && shell_peek(sh, 0) == until))
            break;
        read_part(sh, c, until);
    }
    end_shell_command(sh, c, false);
    out = c->group;
    free(c);
    return out;
}

flows scan_shell(struct scan_state *s, struct str text)
{
    AUTO_FREE struct shell *sh = new0(sizeof *sh);
    flows out;

    sh->s = s;
    sh->t = text;
    sh->line = 1;
    sh->depth = s->depth;
    buf_init(&sh->words, WORDS_MAX);
    out = shell_read_list(sh, '\0');
    if (sh->loops)
        scan_loop_end(s, sh->calm);
    buf_done(&sh->words);
    return out;
}
