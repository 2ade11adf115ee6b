/* SPDX-License-Identifier: Apache-2.0 */
/* Scans code before it runs for destructive, exfiltrating, obfuscated and exhausting actions.
 *
 * It reads shell, Python, JavaScript and C with a small lexer each, so that comments and plain
 * strings raise no alarm and quoting hides nothing, and compares commands and calls with one table
 * of rules (engine/scan/rules.h). It follows values through pipes, substitutions, nested calls and
 * plain variables, but runs nothing: values computed in other ways are unknown to it. A finding is
 * a reason to inspect the code, and no finding is no proof of innocence; docs/scan.md has the
 * numbers.
 *
 * Any bytes may come in. Time is linear in them, memory is bounded. */
#ifndef ENGINE_SCAN_SCAN_H
#define ENGINE_SCAN_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/json/writer.h"

enum scan_language {
    SCAN_UNKNOWN, /* text of any other kind */
    SCAN_SHELL,
    SCAN_PYTHON,
    SCAN_JAVASCRIPT,
    SCAN_C,
    SCAN_BINARY,
};

enum scan_severity { SCAN_INFO, SCAN_LOW, SCAN_MEDIUM, SCAN_HIGH, SCAN_CRITICAL };

enum scan_class { SCAN_DESTRUCTIVE, SCAN_EXFILTRATING, SCAN_OBFUSCATED, SCAN_EXHAUSTING };

enum {
    SCAN_INPUT_MAX = 16 << 20,
    SCAN_FINDINGS_MAX = 512,
    SCAN_PER_RULE_MAX = 16, /* findings of one rule; the first ones of a file are reported */
};

struct scan_rule;

struct scan_finding {
    const struct scan_rule *rule;
    uint32_t line, column; /* from 1; columns count bytes */
};

struct scan_report {
    enum scan_language language;
    struct scan_finding findings[SCAN_FINDINGS_MAX]; /* by line and column */
    size_t n;
    bool more; /* there were more findings than reported */
};

/* Fills the report for a text that has this file name, or NULL. Only a text beyond SCAN_INPUT_MAX
 * fails: -ERR_TOO_BIG. */
int scan_text(const char *name, struct str text, struct scan_report *ret, struct err *e);

/* Whether any finding is as severe. */
bool scan_blocks(const struct scan_report *r, enum scan_severity least);

/* By shebang, by the file's name, by what is in it. */
enum scan_language scan_language_of(const char *name, struct str text);

/* The report as a JSON object, for this file. */
void scan_write(const struct scan_report *r, const char *file, struct json_writer *w);

/* Words of the enums, for people and JSON; the lists end with NULL. */
#define SCAN_SEVERITY_WORDS "info low medium high critical"
enum scan_severity scan_severity_of(const char *word); /* SCAN_INFO for an unknown word */

extern const char *const scan_languages[], *const scan_severities[], *const scan_classes[];

#endif
