#include "cli/step.h"

#include <string.h>

#include "base/own.h"
#include "cli/seal_tool.h"
#include "cli/verb.h"
#include "json/bind.h"
#include "json/reader.h"

enum { SAID_MAX = 8 << 20, FINDINGS_MAX = 1000 };

/* What sandboxer-step says. */
struct said {
    const char *error, *by;
    unsigned block;
    const struct json *result;
};

struct answer {
    unsigned verdict;
    bool has_verdict;
    const char *reason;
    const struct json *findings;
};

static const char *const verdicts[] = { "deny", "allow", NULL };
enum { DENY, ALLOW };

static const struct json_field said_fields[] = {
    { "error", JSON_KIND_STR, JSON_AT(struct said, error), .max = 4096 },
    { "by", JSON_KIND_STR, JSON_AT(struct said, by), .max = 16 },
    { "block", JSON_KIND_ENUM, JSON_AT(struct said, block), .names = scan_severities },
    { "result", JSON_KIND_ANY, JSON_AT(struct said, result) },
};

static const struct json_field answer_fields[] = {
    { "verdict", JSON_KIND_ENUM, JSON_AT(struct answer, verdict), .names = verdicts,
      .seen = offsetof(struct answer, has_verdict) },
    { "reason", JSON_KIND_STR, JSON_AT(struct answer, reason), .max = 4096 },
    { "findings", JSON_KIND_ANY, JSON_AT(struct answer, findings) },
};

static struct str text_of(const struct json *object, struct str key)
{
    const struct json *v = json_get(object, key);

    return v && v->type == JSON_STR ? v->s : STR("");
}

/* Tells of those that are too severe: how many. What has no severity that we know is no finding. */
static int judge_findings(const struct json *list, enum scan_severity block, struct err *e)
{
    int denied = 0;

    if (list->type != JSON_ARRAY || json_end(list) - json_first(list) > FINDINGS_MAX)
        return err_set(e, ERR_INVALID, "findings: must be a list of at most %d", FINDINGS_MAX);
    for (const struct json *f = json_first(list); f != json_end(list); f++) {
        struct str severity = f->type == JSON_OBJECT ? text_of(f, STR("severity")) : STR("");
        unsigned i = 0;

        while (scan_severities[i] && !str_eq(severity, str_from(scan_severities[i])))
            i++;
        if (!scan_severities[i])
            return err_set(e, ERR_INVALID, "findings: each has a severity, from info to critical");
        if (i < (unsigned)block)
            continue;
        denied++;
        say("%s: " STR_FMT " (" STR_FMT ")", scan_severities[i],
            STR_ARG(text_of(f, STR("message"))), STR_ARG(text_of(f, STR("rule"))));
    }
    return denied;
}

static int judge(const struct json *result, enum scan_severity block, struct arena *a,
                 struct err *e)
{
    struct answer answer = { 0 };
    int r = json_bind(result, answer_fields, COUNT_OF(answer_fields), &answer, a, e);

    if (r >= 0 && !answer.has_verdict && !answer.findings)
        r = err_set(e, ERR_INVALID, "an answer has a verdict, findings or both");
    if (r >= 0 && answer.findings)
        r = judge_findings(answer.findings, block, e);
    if (r < 0)
        return r;
    if (r > 0)
        return err_set(e, ERR_DENIED, "denied: see above; --block says what is too severe");
    if (answer.has_verdict && answer.verdict == DENY)
        return err_set(e, ERR_DENIED, "denied: %.120s",
                       answer.reason ? answer.reason : "no reason is given");
    return 0;
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static int ask(const char *step, const struct step_options *o, struct str question, struct arena *a,
               struct said *ret, struct err *e)
{
    const struct step_choice *c = strcmp(step, "preflight") == 0 ? &o->preflight : &o->postflight;
    const char *const arguments[] = { step,
                                      or_empty(o->config),
                                      or_empty(c->command),
                                      or_empty(c->mcp),
                                      or_empty(c->tool),
                                      or_empty(o->timeout),
                                      or_empty(o->block),
                                      NULL };
    const struct json_limits limits = { .bytes = SAID_MAX, .depth = 34 };
    AUTO(buf_done) struct buf out = BUF_INIT(SAID_MAX);
    const struct json *tree;
    int r = step_tool_run(arguments, question, &out, e);

    if (r >= 0)
        r = json_read(buf_str(&out), limits, a, &tree, e);
    if (r >= 0)
        r = json_bind(tree, said_fields, COUNT_OF(said_fields), ret, a, e);
    if (r >= 0 && (ret->error || !ret->by))
        r = err_set(e, ERR_UPSTREAM, "%.200s", ret->error ? ret->error : "nobody took it");
    return r;
}

int step_take(const char *step, const struct step_options *o, struct str question, struct arena *a,
              struct step_answer *ret, struct err *e)
{
    struct said said = { 0 };
    int r = ask(step, o, question, a, &said, e);

    if (r < 0)
        return err_wrap(e, r, "%s", step);
    *ret = (struct step_answer){ .ours = strcmp(said.by, "sandboxer") == 0,
                                 .by = str_from(said.by),
                                 .block = (enum scan_severity)said.block,
                                 .result = said.result };
    if (ret->ours)
        return 0;
    if (!said.result)
        return err_set(e, ERR_UPSTREAM, "%s: there is no answer", step);
    return err_wrap(e, judge(said.result, ret->block, a, e), "%s", step);
}
