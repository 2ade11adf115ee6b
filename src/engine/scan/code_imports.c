/* SPDX-License-Identifier: Apache-2.0 */
/* Imports in code, which give names their meanings. */
#include "engine/scan/code.h"

#include <string.h>

#include "base/own.h"

static bool line_ends(const struct code *c)
{
    return c->t.kind == TOKEN_END || c->t.kind == TOKEN_LINE || token_is(&c->t, ";");
}

/* a.b.c, up to what cannot be part of it. */
static void read_dotted(struct code *c, char out[static CHAIN_MAX])
{
    AUTO(buf_done) struct buf all = BUF_INIT(CHAIN_MAX - 1);

    while ((c->t.kind == TOKEN_NAME && !token_is(&c->t, "import") && !token_is(&c->t, "as")) ||
           token_is(&c->t, ".")) {
        (void)buf_add(&all, c->t.text);
        code_next(c);
    }
    out[0] = '\0';
    if (all.n)
        str_copy(buf_str(&all), out, CHAIN_MAX);
}

/* import a.b as c, d; from m import x as y, z. */
static void import_python(struct code *c, bool from)
{
    char module[CHAIN_MAX] = "", name[CHAIN_MAX], as[CHAIN_MAX];

    code_next(c);
    if (from) {
        read_dotted(c, module);
        if (token_is(&c->t, "import"))
            code_next(c);
    }
    while (!line_ends(c)) {
        read_dotted(c, name);
        memcpy(as, name, sizeof as);
        if (token_is(&c->t, "as")) {
            code_next(c);
            read_dotted(c, as);
        }
        if (name[0])
            code_stands_for(c, as, from ? module : name, from ? name : NULL);
        else
            code_next(c); /* a comma, a bracket, anything */
    }
}

struct imported {
    char name[48], as[48];
};

/* import d, { a, b as c } from 'm'; import * as n from 'm'. */
static void import_javascript(struct code *c)
{
    struct imported list[NAMES_MAX] = { 0 };
    size_t n = 0;
    bool braces = false, renamed = false;
    char module[CHAIN_MAX];

    for (code_next(c); c->t.kind != TOKEN_STRING && c->t.kind != TOKEN_END &&
                       !token_is(&c->t, ";") && !token_is(&c->t, "(");
         code_next(c)) {
        braces = token_is(&c->t, "{") || (braces && !token_is(&c->t, "}"));
        if (token_is(&c->t, "as")) {
            renamed = true;
        } else if (c->t.kind == TOKEN_NAME && !token_is(&c->t, "from") &&
                   !token_is(&c->t, "type")) {
            if (renamed && n && braces) {
                str_copy(c->t.text, list[n - 1].as, sizeof list[0].as);
            } else if (n < NAMES_MAX) {
                str_copy(c->t.text, list[n].as, sizeof list[0].as);
                if (braces)
                    str_copy(c->t.text, list[n].name, sizeof list[0].name);
                n++;
            }
            renamed = false;
        }
    }
    if (c->t.kind != TOKEN_STRING || !str_copy(c->t.text, module, sizeof module))
        return;
    for (size_t i = 0; i < n; i++)
        code_stands_for(c, list[i].as, module, list[i].name[0] ? list[i].name : NULL);
}

bool code_read_import(struct code *c)
{
    bool starts = code_top(c)->kind == 0 || code_top(c)->kind == '{';

    if (c->language == SCAN_PYTHON && starts &&
        (token_is(&c->t, "import") || token_is(&c->t, "from")) && !c->chain[0]) {
        import_python(c, token_is(&c->t, "from"));
        return true;
    }
    if (c->language == SCAN_JAVASCRIPT && token_is(&c->t, "import") && tokens_peek(&c->k) != '(') {
        import_javascript(c);
        return true;
    }
    return false;
}
