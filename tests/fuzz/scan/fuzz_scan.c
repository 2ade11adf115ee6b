/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/own.h"
#include "engine/scan/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever the text: findings are of known rules, in order, and in the text. */
static void check(const struct scan_report *r, struct str text)
{
    uint32_t lines = 1;

    for (size_t i = 0; i < text.n; i++)
        lines += text.p[i] == '\n';
    if (r->n > SCAN_FINDINGS_MAX)
        abort();
    for (size_t i = 0; i < r->n; i++) {
        const struct scan_finding *f = &r->findings[i];

        if (f->rule < scan_rules || f->rule >= scan_rules + scan_rule_count)
            abort();
        if (f->line < 1 || f->line > lines || f->column < 1 || f->column > text.n + 1)
            abort();
        if (i && f->line < f[-1].line)
            abort();
    }
}

/* The first byte chooses the language, by the file's name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "x.sh", "x.py", "x.js", "x.c", "x" };
    static struct scan_report report;
    struct str text = { (const char *)data + 1, size ? size - 1 : 0 };

    if (!size)
        return 0;
    if (scan_text(names[data[0] % COUNT_OF(names)], text, &report, NULL) < 0)
        abort();
    check(&report, text);
    return 0;
}
