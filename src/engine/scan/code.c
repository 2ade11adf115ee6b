/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in Python, JavaScript and C, with the names and texts that can be known without running
 * anything: token by token. */
#include "engine/scan/code.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"

static const char keywords[] =
    "new|return|await|not|in|and|or|typeof|yield|else|case|lambda|const|let|var|async|"
    "delete|void|int|char|static|struct|unsigned|const|if|elif|switch|do|is|del|assert|raise|"
    "throw|FILE|size_t|long|short|pid_t|def|function|class|export|default|try|print_";

static void read_name_token(struct code *c)
{
    struct code_frame *f = code_top(c);
    struct known *k;
    char name[48];

    f->tokens++;
    if (scan_like("break|return|throw", c->t.text))
        c->calm = true;
    if (scan_like(keywords, c->t.text) && !c->dot) {
        code_clear_chain(c);
        return;
    }
    if (c->dot) {
        code_set_chain(c, c->chain, ".", c->t.text);
        c->dot = false;
        return;
    }
    f->in |= scan_carried(c->s, c->t.text);
    if (!str_copy(c->t.text, name, sizeof name)) {
        code_clear_chain(c);
        return;
    }
    if (f->n_names < NAMES_MAX)
        memcpy(f->names[f->n_names++], name, sizeof name);
    k = code_known(c, name);
    if (k && k->has_text) {
        code_add_text(c, str_from(k->text), c->plus);
        code_clear_chain(c);
        return;
    }
    code_set_chain(c, k && k->stands_for[0] ? k->stands_for : name, "", STR(""));
    if (!f->first[0])
        memcpy(f->first, c->chain, sizeof f->first);
    c->text_last = c->plus = false;
}

static void read_string_token(struct code *c)
{
    bool joined = c->plus || (c->text_last && c->language != SCAN_JAVASCRIPT);

    code_top(c)->tokens++;
    if (c->t.holds)
        code_top(c)->in |= code_held(c, c->t.text);
    code_add_text(c, c->t.text, joined);
    code_clear_chain(c);
}

static void read_number_token(struct code *c)
{
    struct code_frame *f = code_top(c);
    char digits[24];
    unsigned long value;

    f->tokens++;
    code_clear_chain(c);
    c->text_last = false;
    if (!str_copy(c->t.text, digits, sizeof digits))
        return;
    value = strtoul(digits, NULL, 0);
    if (f->n_numbers < NUMBERS_MAX)
        f->numbers[f->n_numbers++] = value < 128 ? (unsigned char)value : '?';
}

/* Signs that are part of no bracket. */
static void read_plain_sign(struct code *c)
{
    struct code_frame *f = code_top(c);
    char sign = c->t.text.p[0];

    f->tokens++;
    if (token_is(&c->t, ".") || token_is(&c->t, "->") || token_is(&c->t, "?.")) {
        if (c->text_last)
            code_set_chain(c, "''", "", STR(""));
        c->dot = c->chain[0] != '\0';
        return;
    }
    f->colons += sign == ':' ? (unsigned)c->t.text.n : 0; /* :: is two */
    f->minus |= sign == '-';
    f->semicolons += sign == ';';
    if (token_is(&c->t, "="))
        code_note_left(c);
    else if (sign == ';')
        code_end_statement(c);
    c->plus = token_is(&c->t, "+") && c->text_last;
    if (!c->plus)
        c->text_last = false;
    if (sign != ';' || !code_is_statement(f))
        code_clear_chain(c);
}

/* Names that are significant as bare values, and their text in rules. */
static const struct {
    const char *chain, *means;
} value_names[] = {
    { "os.environ", "(environ)" },     { "process.env", "(environ)" },
    { "document.cookie", "(cookie)" }, { "__filename", "(self)" },
    { "PROT_EXEC", "(exec)" },         { "SOCK_RAW", "(raw)" },
    { "process.argv[1]", "(self)" },   { "environ", "(environ)" },
};

static void read_sign_token(struct code *c)
{
    char sign = c->t.text.p[0];

    if (!strchr(".[(=?", sign) && code_top(c)->kind)
        for (size_t i = 0; i < COUNT_OF(value_names) && c->chain[0]; i++)
            if (strcmp(value_names[i].chain, c->chain) == 0)
                code_add_text(c, str_from(value_names[i].means), false);
    if (c->t.text.n == 1 && strchr("([{", sign)) {
        code_top(c)->tokens++;
        code_push(c, sign);
    } else if (c->t.text.n == 1 && strchr(")]}", sign)) {
        code_pop(c, sign);
    } else {
        read_plain_sign(c);
    }
}

/* A new line of Python: its indentation decides whether the loop's body continues. */
static void begin_line(struct code *c)
{
    bool brackets =
        !code_is_statement(code_top(c)) || (c->language == SCAN_PYTHON && code_top(c)->kind == '{');

    if (brackets || c->language == SCAN_C || tokens_peek(&c->k) == '.')
        return;
    code_end_statement(c);
    if (c->language == SCAN_PYTHON && c->loop && c->k.indent_ <= c->loop_indent &&
        tokens_peek(&c->k) != '#' && tokens_peek(&c->k) != '\0' && c->k.at < c->k.t.n &&
        c->k.t.p[c->k.at] != '\n')
        code_end_loop(c);
}

/* while True: — Python has no bracket to wait for. */
static bool read_while(struct code *c)
{
    unsigned indent = c->t.indent;

    if (c->language != SCAN_PYTHON || !token_is(&c->t, "while") || c->loop)
        return false;
    code_next(c);
    if (!token_is(&c->t, "True") && !(c->t.kind == TOKEN_NUMBER && str_eq(c->t.text, STR("1"))))
        return true; /* and its condition is read as the rest */
    c->loop = true;
    c->calm = false;
    c->loop_indent = indent;
    code_next(c);
    return true;
}

/* with … as f: the name gets what the statement has. */
static bool read_as(struct code *c)
{
    if (c->language != SCAN_PYTHON || !token_is(&c->t, "as") || code_top(c)->kind != 0)
        return false;
    code_next(c);
    if (c->t.kind == TOKEN_NAME)
        scan_carry(c->s, c->t.text, code_top(c)->in);
    return true;
}

static void dispatch_token(struct code *c)
{
    if (c->loop_next && c->t.kind != TOKEN_LINE &&
        !(c->t.kind == TOKEN_SIGN && c->t.text.p[0] == '{')) {
        c->loop = true; /* the body is one statement */
        c->calm = c->loop_next = false;
        c->loop_frame = 0;
    }
    switch (c->t.kind) {
    case TOKEN_NAME:
        read_name_token(c);
        break;
    case TOKEN_STRING:
        read_string_token(c);
        break;
    case TOKEN_NUMBER:
        read_number_token(c);
        break;
    case TOKEN_SIGN:
        read_sign_token(c);
        break;
    case TOKEN_LINE:
        begin_line(c);
        break;
    case TOKEN_END:
        break;
    }
}

static void read_code_tokens(struct code *c)
{
    for (code_next(c); c->t.kind != TOKEN_END; code_next(c)) {
        while (code_read_import(c) || read_while(c) || read_as(c))
            ;
        if (c->t.kind == TOKEN_END)
            break;
        dispatch_token(c);
    }
    while (c->n > 1)
        code_pop(c, code_top(c)->kind == '(' ? ')' : code_top(c)->kind == '[' ? ']' : '}');
    code_end_statement(c);
    if (c->loop)
        code_end_loop(c);
}

void scan_code(struct scan_state *s, struct str text)
{
    AUTO_FREE struct code_frame *frames = new0_array(FRAMES_MAX, sizeof *frames);
    AUTO_FREE struct known *names = new0_array(KNOWN_MAX, sizeof *names);
    struct code c = { .s = s, .n = 1, .frames = frames, .known = names };

    c.language = s->language & IN_PYTHON       ? SCAN_PYTHON
                 : s->language & IN_JAVASCRIPT ? SCAN_JAVASCRIPT
                                               : SCAN_C;
    tokens_init(&c.k, c.language, text);
    buf_init(&c.texts, TEXTS_MAX);
    read_code_tokens(&c);
    tokens_done(&c.k);
    buf_done(&c.texts);
}
