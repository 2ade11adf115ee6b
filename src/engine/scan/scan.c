/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/scan/scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "engine/scan/internal.h"

enum { LONG_LINE = 4096, NESTED_BYTES = 64 << 10 };

const char *const scan_severities[] = { "info", "low", "medium", "high", "critical", NULL };
const char *const scan_classes[] = { "destructive", "exfiltrating", "obfuscated", "exhausting",
                                     NULL };

void scan_add(struct scan_state *s, const struct scan_rule *rule, struct scan_place at)
{
    struct scan_report *r = s->report;
    struct scan_finding f = { .rule = rule, .line = at.line, .column = at.column };

    for (size_t i = r->n, back = 0; i > 0 && back < SCAN_PER_RULE_MAX; i--, back++)
        if (r->findings[i - 1].rule == rule && r->findings[i - 1].line == f.line)
            return; /* once a line is enough */
    if (s->counts[rule - scan_rules] >= SCAN_PER_RULE_MAX || r->n == SCAN_FINDINGS_MAX) {
        r->more = true;
        return;
    }
    s->counts[rule - scan_rules]++;
    r->findings[r->n++] = f;
}

void scan_add_special(struct scan_state *s, enum scan_special what, struct scan_place at)
{
    for (size_t i = 0; i < scan_rule_count; i++)
        if (scan_rules[i].match == MATCH_CODE && scan_rules[i].special == what &&
            (scan_rules[i].languages & s->language))
            scan_add(s, &scan_rules[i], at);
}

/* --- Flows of values --- */

static uint64_t name_hash(struct str name)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < name.n; i++)
        h = (h ^ (unsigned char)name.p[i]) * UINT64_C(1099511628211);
    return h ? h : 1;
}

flows scan_carried(const struct scan_state *s, struct str name)
{
    uint64_t h = name_hash(name);
    const struct taint *t = &s->taints[(h >> 16) & (SCAN_TAINTS - 1)];

    return t->name == h ? t->carries : 0;
}

void scan_carry(struct scan_state *s, struct str name, flows what)
{
    uint64_t h = name_hash(name);
    struct taint *t = &s->taints[(h >> 16) & (SCAN_TAINTS - 1)];

    if (what)
        *t = (struct taint){ .name = h, .carries = what };
    else if (t->name == h)
        t->carries = 0;
}

/* --- Acts against rules --- */

static void first_bytes(const char *pattern, unsigned char set[32])
{
    struct str rest = str_from(pattern), one;

    while (rest.p) {
        rest = str_cut(rest, '|', &one);
        if (one.n && (one.p[0] == '*' || one.p[0] == '^'))
            memset(set, 0xff, 32);
        else if (one.n)
            set[(unsigned char)one.p[0] / 8] |= (unsigned char)(1u << (one.p[0] & 7));
    }
}

static bool any_argument_like(const char *pattern, const struct act *a)
{
    size_t i = 0;

    while (i < a->n && !scan_like(pattern, a->args[i]))
        i++;
    return i < a->n;
}

static bool has_letters(const char *letters, const struct act *a)
{
    for (; *letters; letters++)
        if (!(a->letters & UINT64_C(1) << (*letters & 63)))
            return false;
    return true;
}

static bool act_matches_rule(const struct scan_rule *rule, const struct act *a)
{
    return scan_like(rule->name, a->name) && (!rule->flags || has_letters(rule->flags, a)) &&
           (!rule->args || any_argument_like(rule->args, a)) &&
           (!rule->also || any_argument_like(rule->also, a));
}

static void note_half(struct scan_state *s, size_t i, const struct act *a)
{
    if (act_matches_rule(&scan_rules[i], a)) {
        s->halves[i] |= 1;
        s->half_at[i] = a->at;
    }
    if (scan_like(scan_rules[i].into, a->name))
        s->halves[i] |= 2;
}

/* True for the act itself; for an act that a flow reaches; or for an act that reads and sends at
 * once. */
static bool is_hit(const struct scan_rule *rule, flows mine, const struct act *a)
{
    if (rule->match == MATCH_ACT)
        return act_matches_rule(rule, a);
    if (!mine || !scan_like(rule->into, a->name))
        return false;
    return (a->in & mine) || (rule->args && act_matches_rule(rule, a));
}

flows scan_act(struct scan_state *s, const struct act *a)
{
    unsigned char first = a->name.n ? (unsigned char)a->name.p[0] : 0;
    flows bit = 1, out = 0;

    for (size_t i = 0; i < scan_rule_count; i++) {
        const struct scan_rule *rule = &scan_rules[i];
        flows mine = rule->match == MATCH_INTO ? bit : 0;

        bit <<= rule->match == MATCH_INTO;
        if (!(rule->languages & s->language) || !(s->first[i][first / 8] >> (first & 7) & 1))
            continue;
        if (is_hit(rule, mine, a)) {
            scan_add(s, rule, a->at);
        } else if (rule->match == MATCH_LOOP && a->endless && s->n_waiting < SCAN_LOOPS_MAX &&
                   act_matches_rule(rule, a)) {
            s->waiting[s->n_waiting].rule = rule;
            s->waiting[s->n_waiting++].at = a->at;
        } else if (rule->match == MATCH_BOTH) {
            note_half(s, i, a);
        }
        if (mine && act_matches_rule(rule, a))
            out |= mine;
    }
    return out;
}

void scan_loop_end(struct scan_state *s, bool calm)
{
    for (size_t i = 0; i < s->n_waiting && !calm; i++)
        scan_add(s, s->waiting[i].rule, s->waiting[i].at);
    s->n_waiting = 0;
}

flows scan_nested(struct scan_state *s, enum scan_language language, struct str text,
                  struct scan_place at)
{
    const struct scan_place *fixed = s->fixed;
    int before = s->language;
    flows out = 0;

    if (s->depth == SCAN_DEPTH_MAX || s->nested == SCAN_NESTED_MAX || language == SCAN_UNKNOWN)
        return 0;
    if (text.n > NESTED_BYTES)
        text.n = NESTED_BYTES;
    if (!fixed)
        s->fixed = &at;
    s->depth++;
    s->nested++;
    s->language = 1 << language;
    if (language == SCAN_SHELL)
        out = scan_shell(s, text);
    else
        scan_code(s, text);
    s->language = before;
    s->depth--;
    s->fixed = fixed;
    return out;
}

/* --- The whole --- */

/* Marks that turn the order of what is shown around: U+202A … U+202E, U+2066 … U+2069. */
static bool is_bidi(const unsigned char *p)
{
    return p[0] == 0xe2 && ((p[1] == 0x80 && p[2] >= 0xaa && p[2] <= 0xae) ||
                            (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9));
}

static void scan_lines(struct scan_state *s, struct str text)
{
    uint32_t line = 1;
    size_t from = 0;

    for (size_t i = 0; i < text.n; i++) {
        struct scan_place at = { line, (uint32_t)(i - from + 1) };

        if (text.p[i] == '\0')
            scan_add_special(s, SPECIAL_NUL, at);
        else if ((unsigned char)text.p[i] == 0xe2 && i + 2 < text.n &&
                 is_bidi((const unsigned char *)text.p + i))
            scan_add_special(s, SPECIAL_BIDI, at);
        else if (i - from == LONG_LINE)
            scan_add_special(s, SPECIAL_LONG_LINE, (struct scan_place){ line, 1 });
        if (text.p[i] == '\n') {
            line++;
            from = i + 1;
        }
    }
}

static int compare_findings(const void *a, const void *b)
{
    const struct scan_finding *x = a, *y = b;

    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    return x->rule < y->rule ? -1 : x->rule > y->rule;
}

int scan_text(const char *name, struct str text, struct scan_report *ret, struct err *e)
{
    AUTO_FREE struct scan_state *s = NULL;

    if (text.n > SCAN_INPUT_MAX)
        return err_set(e, ERR_TOO_BIG, "the file is larger than the limit of %d MiB for a scan",
                       SCAN_INPUT_MAX >> 20);
    s = new0(sizeof *s);
    *ret = (struct scan_report){ .language = scan_language_of(name, text) };
    s->report = ret;
    s->language = 1 << ret->language;
    for (size_t i = 0; i < scan_rule_count; i++) {
        first_bytes(scan_rules[i].name, s->first[i]);
        first_bytes(scan_rules[i].into, s->first[i]);
    }
    if (ret->language == SCAN_BINARY) {
        scan_add_special(s, SPECIAL_BINARY, (struct scan_place){ 1, 1 });
        return 0;
    }
    scan_lines(s, text);
    if (ret->language == SCAN_SHELL || ret->language == SCAN_UNKNOWN) {
        s->language |= IN_SHELL; /* a shell would run a file of an unknown language */
        scan_shell(s, text);
    } else {
        scan_code(s, text);
    }
    for (size_t i = 0; i < scan_rule_count; i++)
        if (s->halves[i] == 3)
            scan_add(s, &scan_rules[i], s->half_at[i]);
    qsort(ret->findings, ret->n, sizeof ret->findings[0], compare_findings);
    return 0;
}

enum scan_severity scan_severity_of(const char *word)
{
    enum scan_severity s = SCAN_CRITICAL;

    while (s > SCAN_INFO && strcmp(scan_severities[s], word) != 0)
        s--;
    return s;
}

bool scan_blocks(const struct scan_report *r, enum scan_severity least)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->findings[i].rule->severity >= least)
            return true;
    return false;
}

void scan_write(const struct scan_report *r, const char *file, struct json_writer *w)
{
    json_begin_object(w);
    json_field_text(w, "file", file);
    json_field_text(w, "language", scan_languages[r->language]);
    json_field_begin_array(w, "findings");
    for (const struct scan_finding *f = r->findings; f < r->findings + r->n; f++) {
        json_begin_object(w);
        json_field_text(w, "rule", f->rule->id);
        json_field_text(w, "severity", scan_severities[f->rule->severity]);
        json_field_text(w, "class", scan_classes[f->rule->class]);
        json_field_uint(w, "line", f->line);
        json_field_uint(w, "column", f->column);
        json_field_text(w, "message", f->rule->message);
        json_field_text(w, "advice", f->rule->advice);
        json_end_object(w);
    }
    json_end_array(w);
    json_field_bool(w, "more", r->more);
    json_end_object(w);
}
