#include "cli/preflight.h"

#include <stdlib.h>

#include "base/own.h"
#include "cli/seal_tool.h"
#include "cli/verb.h"
#include "json/bind.h"
#include "json/reader.h"
#include "scan/rules.h"

enum { TREE_MAX = 64 << 20 };

struct answer {
    unsigned verdict;
    const char *reason;
    const struct json *findings;
};

static const char *const verdicts[] = { "deny", "allow", NULL };

static const struct json_field answer_fields[] = {
    { "verdict", JSON_KIND_ENUM, JSON_AT(struct answer, verdict), .required = true,
      .names = verdicts },
    { "reason", JSON_KIND_STR, JSON_AT(struct answer, reason), .max = 4096 },
    { "findings", JSON_KIND_ANY, JSON_AT(struct answer, findings) },
};

int step_ask(const char *step, const char *command, struct str question, int64_t timeout_ns,
             struct buf *out, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
    const struct json_limits limits = { .bytes = STEP_ANSWER_MAX, .depth = 32 };
    struct answer answer = { 0 };
    const struct json *tree;
    int r = step_command_run(command, question, timeout_ns, out, e);

    if (r >= 0)
        r = json_read(buf_str(out), limits, &a, &tree, e);
    if (r >= 0)
        r = json_bind(tree, answer_fields, COUNT_OF(answer_fields), &answer, &a, e);
    if (r < 0)
        return err_wrap(e, r, "the command for %s", step);
    if (answer.verdict == 0)
        return err_set(e, ERR_DENIED, "the command for %s denies it: %.120s", step,
                       answer.reason ? answer.reason : "no reason is given");
    return 0;
}

static void tell(const char *file, const struct scan_report *r, enum scan_severity least)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->findings[i].rule->severity >= least)
            say("%s:%u: %s: %s (%s)", file, r->findings[i].line,
                scan_severities[r->findings[i].rule->severity], r->findings[i].rule->message,
                r->findings[i].rule->id);
}

static int look(const char *file, struct str text, enum scan_severity block, struct buf *out,
                struct err *e)
{
    AUTO_FREE struct scan_report *report = calloc(1, sizeof *report);
    struct json_writer w;
    int r;

    if (!report)
        abort();
    r = scan_text(file, text, report, e);
    if (r < 0)
        return r;
    if (scan_blocks(report, block)) {
        tell(file, report, block);
        return err_set(e, ERR_DENIED, "%s is not run: see above; --block says what is too severe",
                       file);
    }
    json_writer_init(&w, out, JSON_COMPACT);
    scan_write(report, file, &w);
    return json_writer_finish(&w, e);
}

static int question(const char *file, struct str text, struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("step"));
    json_put_str(&w, STR("preflight"));
    json_key(&w, STR("file"));
    json_put_lossy(&w, str_from(file));
    json_key(&w, STR("language"));
    json_put_str(&w, str_from(scan_languages[scan_language_of(file, text)]));
    json_key(&w, STR("text"));
    json_put_lossy(&w, text);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

int preflight(const char *file, struct str text, const char *block, const char *command,
              int64_t timeout_ns, struct buf *out, struct err *e)
{
    AUTO(buf_done) struct buf asked = BUF_INIT(4 * (SCAN_INPUT_MAX + 4096));
    int r;

    if (!command)
        return look(file, text, scan_severity_of(block), out, e);
    r = question(file, text, &asked, e);
    return r < 0 ? r : step_ask("pre-flight", command, buf_str(&asked), timeout_ns, out, e);
}
