/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/preflight.h"

#include "base/own.h"
#include "cli/verb.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"
#include "engine/scan/scan.h"

enum { REPORT_MAX = 4 << 20 };

static int scan_program(const char *file, struct str text, struct arena *a, struct step_answer *ret,
                        struct err *e)
{
    const struct json_limits limits = { .bytes = REPORT_MAX, .depth = 32 };
    AUTO_FREE struct scan_report *report = new0(sizeof *report);
    AUTO(buf_done) struct buf out = BUF_INIT(REPORT_MAX);
    struct json_writer w;
    int r;

    r = scan_text(file, text, report, e);
    if (r < 0)
        return r;
    if (scan_blocks(report, ret->block)) {
        for (const struct scan_finding *f = report->findings; f < report->findings + report->n; f++)
            if (f->rule->severity >= ret->block)
                cli_report("%s:%u: %s: %s (%s)", file, f->line, scan_severities[f->rule->severity],
                           f->rule->message, f->rule->id);
        return err_set(
            e, ERR_DENIED,
            "%s is not run because of the findings above (--block sets the severity that denies)",
            file);
    }
    json_writer_init(&w, &out, JSON_COMPACT);
    scan_write(report, file, &w);
    r = json_writer_finish(&w, e);
    return r < 0 ? r : json_read(buf_str(&out), limits, a, &ret->result, e);
}

static int write_preflight_question(const char *file, struct str text, struct buf *out,
                                    struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_str(&w, "step", STR("preflight"));
    json_field_text(&w, "file", file);
    json_field_cstr(&w, "language", scan_languages[scan_language_of(file, text)]);
    json_field_lossy(&w, "text", text);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

int preflight_check(const char *file, struct str text, const struct step_options *o,
                    struct arena *a, struct step_answer *ret, struct err *e)
{
    AUTO(buf_done) struct buf asked = BUF_INIT(4 * (SCAN_INPUT_MAX + 4096));
    int r = write_preflight_question(file, text, &asked, e);

    if (r >= 0)
        r = step_take("preflight", o, buf_str(&asked), a, ret, e);
    return r < 0 || !ret->built_in ? r : scan_program(file, text, a, ret, e);
}
