/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/scan/rules.h"

static void write_report_member(struct json_writer *w, struct str key, const char *text)
{
    json_key(w, key);
    json_put_lossy(w, str_from(text));
}

static void write_finding(const struct scan_finding *f, struct json_writer *w)
{
    json_begin_object(w);
    write_report_member(w, STR("rule"), f->rule->id);
    write_report_member(w, STR("severity"), scan_severities[f->rule->severity]);
    write_report_member(w, STR("class"), scan_classes[f->rule->class]);
    json_key(w, STR("line"));
    json_put_uint(w, f->line);
    json_key(w, STR("column"));
    json_put_uint(w, f->column);
    write_report_member(w, STR("message"), f->rule->message);
    write_report_member(w, STR("advice"), f->rule->advice);
    json_end_object(w);
}

void scan_write(const struct scan_report *r, const char *file, struct json_writer *w)
{
    json_begin_object(w);
    write_report_member(w, STR("file"), file);
    write_report_member(w, STR("language"), scan_languages[r->language]);
    json_key(w, STR("findings"));
    json_begin_array(w);
    for (size_t i = 0; i < r->n; i++)
        write_finding(&r->findings[i], w);
    json_end_array(w);
    json_key(w, STR("more"));
    json_put_bool(w, r->more);
    json_end_object(w);
}
