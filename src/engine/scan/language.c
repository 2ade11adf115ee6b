/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/own.h"
#include "engine/scan/internal.h"

enum { INSPECTED_BYTES = 64 << 10 };

const char *const scan_languages[] = { "unknown", "shell",  "python", "javascript",
                                       "c",       "binary", NULL };

static const struct {
    const char *ends;
    enum scan_language language;
} names[] = {
    { "*.sh|*.bash|*.zsh|*.ksh|*.dash|*.bats|*.profile|*.bashrc|*.command", SCAN_SHELL },
    { "*.py|*.pyw|*.pyi", SCAN_PYTHON },
    { "*.js|*.mjs|*.cjs|*.ts|*.mts|*.cts|*.jsx|*.tsx", SCAN_JAVASCRIPT },
    { "*.c|*.h|*.cc|*.cpp|*.cxx|*.hpp", SCAN_C },
};

static const struct {
    const char *commands;
    enum scan_language language;
} interpreters[] = {
    { "sh|bash|zsh|ksh|dash|ash|mksh|rbash", SCAN_SHELL },
    { "python|python2*|python3*|pypy|pypy3*", SCAN_PYTHON },
    { "node|nodejs|deno|bun|ts-node|tsx", SCAN_JAVASCRIPT },
};

/* Lines that are typical of one language; the language with the most hits wins. */
static const struct {
    const char *line;
    enum scan_language language;
} signs[] = {
    { "#include*<*>*|#include*\"*|#define *|#ifdef *|#ifndef *|int main(*", SCAN_C },
    { "static *(*|struct * {|typedef *;|void *(*)|return 0;", SCAN_C },
    { "import *|from * import *|def *:|class *:|if *:|for *:|elif *:|else:|try:|except*:|with *:",
      SCAN_PYTHON },
    { "print(*)|return self.*|@*|    pass", SCAN_PYTHON },
    { "const *=*|let *=*|var *=*|function *{|import * from *|export *|*=> "
      "{*|*require(*)*|});|async *",
      SCAN_JAVASCRIPT },
    { "console.*(*|module.exports*|'use strict'*|\"use strict\"*", SCAN_JAVASCRIPT },
    { "fi|done|esac|then|do|if [*|if * then|* then|while *; do|for *; do|echo *|set -*|export *=*",
      SCAN_SHELL },
    { "case * in|*() {|sudo *|rm *|cd *|curl *|wget *|local *|* && *", SCAN_SHELL },
};

enum scan_language scan_interpreter(struct str name)
{
    for (size_t i = 0; i < COUNT_OF(interpreters); i++)
        if (scan_like(interpreters[i].commands, name))
            return interpreters[i].language;
    return SCAN_UNKNOWN;
}

/* "#!/usr/bin/env -S python3 -u": the last part of the first word that is a program. */
static enum scan_language language_by_shebang(struct str text)
{
    struct str line, word, base;
    enum scan_language found = SCAN_UNKNOWN;

    if (!str_starts(text, STR("#!")))
        return SCAN_UNKNOWN;
    str_cut(text, '\n', &line);
    line = str_trim((struct str){ line.p + 2, line.n - 2 });
    if (line.n > 256)
        line.n = 256;
    while (line.p && found == SCAN_UNKNOWN) {
        line = str_cut(line, ' ', &word);
        for (base = word; base.n && memchr(base.p, '/', base.n);)
            base = str_cut(base, '/', &word);
        found = scan_interpreter(base.p ? base : word);
    }
    return found;
}

static enum scan_language language_by_content(struct str text)
{
    unsigned counts[SCAN_BINARY + 1] = { 0 };
    enum scan_language best = SCAN_UNKNOWN;
    struct str line;

    if (text.n > INSPECTED_BYTES)
        text.n = INSPECTED_BYTES;
    while (text.p) {
        text = str_cut(text, '\n', &line);
        line = str_trim(line);
        if (line.n > 200)
            line.n = 200;
        for (size_t i = 0; i < COUNT_OF(signs); i++)
            counts[signs[i].language] += scan_like(signs[i].line, line);
    }
    for (enum scan_language l = SCAN_SHELL; l <= SCAN_C; l++)
        if (counts[l] > counts[best])
            best = l;
    return best;
}

static bool is_binary(struct str text)
{
    size_t n = text.n < INSPECTED_BYTES ? text.n : INSPECTED_BYTES, odd = 0;

    if (str_starts(text, STR("\177ELF")))
        return true;
    for (size_t i = 0; i < n; i++)
        odd += (unsigned char)text.p[i] < 9;
    return odd > n / 16;
}

enum scan_language scan_language_of(const char *name, struct str text)
{
    enum scan_language found = language_by_shebang(text);

    if (found == SCAN_UNKNOWN && is_binary(text))
        return SCAN_BINARY;
    for (size_t i = 0; i < COUNT_OF(names) && name && found == SCAN_UNKNOWN; i++)
        if (scan_like(names[i].ends, str_from(name)))
            found = names[i].language;
    return found != SCAN_UNKNOWN ? found : language_by_content(text);
}
