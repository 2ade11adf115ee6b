/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rules. A pattern is a list of alternatives separated by '|', each a text in which
 * '*' matches any bytes, '^' any bytes except slashes, and '%' a '*' itself. */
#ifndef ENGINE_SCAN_RULES_H
#define ENGINE_SCAN_RULES_H

#include "engine/scan/scan.h"

/* How a rule is recognised. An act is a command with its words or a call with its literal
 * arguments. */
enum scan_match {
    MATCH_ACT, /* an act with this name; if given: with an argument like `args`, one like `also` and
                 all of the option letters in `flags` */
    MATCH_INTO, /* the same, and its result reaches an act with a name like `into` */
    MATCH_LOOP, /* the same, in a loop without end in which nothing waits */
    MATCH_BOTH, /* the same, and an act with a name like `into` anywhere in the file */
    MATCH_CODE, /* the scanner says so: enum scan_special */
};

enum scan_special {
    SPECIAL_NONE,
    SPECIAL_FORK_BOMB,
    SPECIAL_IFS,
    SPECIAL_PIECES,
    SPECIAL_DEPTH,
    SPECIAL_LONG_LINE,
    SPECIAL_BINARY,
    SPECIAL_NUL,
    SPECIAL_BIDI,
};

enum {
    IN_SHELL = 1 << SCAN_SHELL,
    IN_PYTHON = 1 << SCAN_PYTHON,
    IN_JAVASCRIPT = 1 << SCAN_JAVASCRIPT
};
enum { IN_C = 1 << SCAN_C, IN_ANY = ~0 };

struct scan_rule {
    const char *id;
    int languages; /* IN_… */
    enum scan_severity severity;
    enum scan_class class;
    enum scan_match match;
    enum scan_special special;
    const char *name, *args, *also, *into, *flags;
    const char *message, *advice;
};

enum { SCAN_RULES_MAX = 256, SCAN_FLOWS_MAX = 64 };

extern const struct scan_rule scan_rules[];
extern const size_t scan_rule_count;

bool scan_like(const char *pattern, struct str s);

#endif
