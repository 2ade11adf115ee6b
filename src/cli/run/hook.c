/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/hook.h"

#include <string.h>

#include "base/own.h"
#include "cli/run/helper.h"
#include "cli/show.h"
#include "cli/verb.h"
#include "lib/json/bind.h"
#include "lib/json/reader.h"

enum { SAID_MAX = 8 << 20, FINDINGS_MAX = 1000 };

/* The output of sandboxer-step. */
struct hook_output {
    const char *error, *by;
    unsigned block;
    const struct json *result;
};

struct hook_answer {
    unsigned verdict;
    bool has_verdict;
    const char *reason;
    const struct json *findings;
};

static const char *const verdicts[] = { "deny", "allow", NULL };
enum { DENY, ALLOW };

static const struct json_field said_fields[] = {
    { "error", JSON_KIND_STR, JSON_AT(struct hook_output, error), .max = 4096 },
    { "by", JSON_KIND_STR, JSON_AT(struct hook_output, by), .max = 16 },
    { "block", JSON_KIND_ENUM, JSON_AT(struct hook_output, block), .names = scan_severities },
    { "result", JSON_KIND_ANY, JSON_AT(struct hook_output, result) },
};

static const struct json_field answer_fields[] = {
    { "verdict", JSON_KIND_ENUM, JSON_AT(struct hook_answer, verdict), .names = verdicts,
      .seen = offsetof(struct hook_answer, has_verdict) },
    { "reason", JSON_KIND_STR, JSON_AT(struct hook_answer, reason), .max = 4096 },
    { "findings", JSON_KIND_ANY, JSON_AT(struct hook_answer, findings) },
};

/* Prints findings that are at least as severe as `block` and returns their number. Entries without
 * a known severity are ignored. */
static int judge_findings(const struct json *list, enum scan_severity block, struct err *e)
{
    int denied = 0;

    if (list->type != JSON_ARRAY || json_end(list) - json_first(list) > FINDINGS_MAX)
        return err_set(e, ERR_INVALID, "findings: must be a list of at most %d", FINDINGS_MAX);
    for (const struct json *f = json_first(list); f != json_end(list); f++) {
        struct str severity = show_string(f, "severity");
        unsigned i = 0;

        while (scan_severities[i] && !str_eq(severity, str_from(scan_severities[i])))
            i++;
        if (!scan_severities[i])
            return err_set(e, ERR_INVALID,
                           "findings: each needs a severity, from info to critical");
        if (i < (unsigned)block)
            continue;
        denied++;
        cli_report("%s: " STR_FMT " (" STR_FMT ")", scan_severities[i],
                   STR_ARG(show_string(f, "message")), STR_ARG(show_string(f, "rule")));
    }
    return denied;
}

static int judge_hook_answer(const struct json *result, enum scan_severity block, struct arena *a,
                             struct err *e)
{
    struct hook_answer answer = { 0 };
    int r = json_bind(result, answer_fields, COUNT_OF(answer_fields), &answer, a, e);

    if (r >= 0 && !answer.has_verdict && !answer.findings)
        r = err_set(e, ERR_INVALID, "the answer has neither a verdict nor findings");
    if (r >= 0 && answer.findings)
        r = judge_findings(answer.findings, block, e);
    if (r < 0)
        return r;
    if (r > 0)
        return err_set(e, ERR_DENIED,
                       "denied by the findings above (--block sets the severity that denies)");
    if (answer.has_verdict && answer.verdict == DENY)
        return err_set(e, ERR_DENIED, "denied: %.120s",
                       answer.reason ? answer.reason : "no reason is given");
    return 0;
}

static int run_hook_tool(const char *step, const struct step_options *o, struct str question,
                         struct arena *a, struct hook_output *ret, struct err *e)
{
    const struct step_choice *c = strcmp(step, "preflight") == 0 ? &o->preflight : &o->postflight;
    const char *arguments[] = { step,    o->config,  c->command, c->mcp,
                                c->tool, o->timeout, o->block,   NULL };
    const struct json_limits limits = { .bytes = SAID_MAX, .depth = 34 };
    AUTO(buf_done) struct buf out = BUF_INIT(SAID_MAX);
    const struct json *tree;
    int r;

    for (size_t i = 0; i + 1 < COUNT_OF(arguments); i++)
        arguments[i] = arguments[i] ? arguments[i] : "";
    r = helper_run_text(HELPER_STEP, arguments, question, &out, e);
    if (r >= 0)
        r = json_read(buf_str(&out), limits, a, &tree, e);
    if (r >= 0)
        r = json_bind(tree, said_fields, COUNT_OF(said_fields), ret, a, e);
    if (r >= 0 && (ret->error || !ret->by))
        r = err_set(e, ERR_UPSTREAM, "%.200s",
                    ret->error ? ret->error
                               : "internal error: no handler in the output of sandboxer-step");
    return r;
}

int step_take(const char *step, const struct step_options *o, struct str question, struct arena *a,
              struct step_answer *ret, struct err *e)
{
    struct hook_output said = { 0 };
    int r = run_hook_tool(step, o, question, a, &said, e);

    if (r < 0)
        return err_wrap(e, r, "%s", step);
    *ret = (struct step_answer){ .built_in = strcmp(said.by, "sandboxer") == 0,
                                 .by = str_from(said.by),
                                 .block = (enum scan_severity)said.block,
                                 .result = said.result };
    if (ret->built_in)
        return 0;
    if (!said.result)
        return err_set(e, ERR_UPSTREAM, "%s: the hook gave no answer", step);
    return err_wrap(e, judge_hook_answer(said.result, ret->block, a, e), "%s", step);
}
