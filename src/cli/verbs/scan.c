/* SPDX-License-Identifier: Apache-2.0 */
/* Scans code before it runs. */
#include <stdio.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/text_file.h"
#include "cli/verbs/verbs.h"
#include "base/io.h"
#include "engine/scan/rules.h"

enum { OUT_MAX = 64 << 20 };

struct scan_options {
    struct common common;
    const char *block;
};

static const struct option_spec options[] = {
    { "block", 0, "SEVERITY", "the exit status is 1 from this severity on (default: high)",
      .at = offsetof(struct scan_options, block), .words = SCAN_SEVERITY_WORDS },
};

static void print_report(const char *file, const struct scan_report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct scan_finding *f = &r->findings[i];

        printf("%s:%u:%u: %s: %s (%s)\n", file, f->line, f->column,
               scan_severities[f->rule->severity], f->rule->message, f->rule->id);
        printf("    %s\n", f->rule->advice);
    }
    if (r->more)
        printf("%s: more findings of this kind are not shown\n", file);
}

/* Scans all files and returns the worst status. */
static int scan_files(char **files, int n, const struct scan_options *o, struct json_writer *w)
{
    enum scan_severity block = scan_severity_of(o->block ? o->block : "high");
    static struct scan_report report;
    int status = 0;
    struct err e;

    for (int i = 0; i < n; i++) {
        AUTO(buf_done) struct buf text = BUF_INIT(SCAN_INPUT_MAX);

        if (text_file_read(files[i], &text, &e) < 0 ||
            scan_text(files[i], buf_str(&text), &report, &e) < 0) {
            cli_report("scan: %s", e.msg);
            status = e.code == ERR_TOO_BIG ? EXIT_USAGE : EXIT_MISSING;
            continue;
        }
        if (w)
            scan_write(&report, files[i], w);
        else
            print_report(files[i], &report);
        if (scan_blocks(&report, block) && !status)
            status = EXIT_REPORTED;
    }
    return status;
}

static int run_scan(struct api_call *c, void *options_, int argc, char **argv)
{
    AUTO(buf_done) struct buf out = BUF_INIT(OUT_MAX);
    struct json_writer w;
    struct err e;
    int status;

    if (common_format(c->common) == FORMAT_TEXT)
        return scan_files(argv, argc, options_, NULL);
    json_writer_init(&w, &out, JSON_PRETTY);
    json_begin_array(&w);
    status = scan_files(argv, argc, options_, &w);
    json_end_array(&w);
    if (json_writer_finish(&w, &e) < 0 || buf_add_c(&out, '\n') < 0 ||
        write_all(STDOUT_FILENO, buf_str(&out), &e) < 0)
        return api_call_failed(c, &e);
    return status;
}

const struct verb verb_scan = {
    .name = "scan",
    ARGUMENTS("FILE…", 1, ARGUMENTS_ANY, COMPLETE_FILE),
    .summary = "scan code for destructive, leaking, hidden or exhausting operations",
    .text = "Reads shell, Python, JavaScript and C, and reports the line, severity and remedy of\n"
            "each finding. '-' is stdin. Nothing is run. A clean report is no proof: run\n"
            "untrusted code in a sandbox all the same.\n"
            "\n"
            "Exit status: 0 without findings at or above --block; 1 with such findings; 2 if a\n"
            "file is too long, 3 if it cannot be read.\n"
            "\n"
            "  sandboxer scan install.sh\n"
            "  sandboxer scan --block critical -o json *.py\n",
    OPTIONS(options, struct scan_options),
    .run = run_scan,
    .flags = VERB_FORMAT,
};
