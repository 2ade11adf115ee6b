/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/ending.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "cli/verbs/verbs.h"
#include "base/io.h"

struct logs_options {
    struct common common;
    bool follow, raw;
    const char *process, *tail;
};

#define AT(member) .at = offsetof(struct logs_options, member)

static const struct option_spec options[] = {
    { "follow", 'f', NULL, "follow new output", AT(follow) },
    { "process", 'p', "N", "only of this process (see 'ps')", .kind = OPTION_COUNT, AT(process) },
    { "tail", 'n', "LINES", "only the last lines", .kind = OPTION_COUNT, AT(tail) },
    { "raw", 0, NULL, "let control sequences through to a terminal", AT(raw) },
};

/* An answer_row_fn. */
static int print_output(const void *user, const struct json *event, struct err *e)
{
    const struct logs_options *o = user;
    AUTO(buf_done) struct buf bytes = BUF_INIT(LINES_MAX);
    AUTO(buf_done) struct buf clean = BUF_INIT(4 * LINES_MAX);
    int fd = output_line(event, &bytes, e);

    if (fd <= 0)
        return fd;
    if (o->raw || isatty(fd) != 1)
        return write_all(fd, buf_str(&bytes), e);
    output_clean(buf_str(&bytes), &clean);
    return write_all(fd, buf_str(&clean), e);
}

static void note_oom(const struct json *p, const char *only)
{
    int64_t n = show_int(p, "process", -1);
    char number[24], limit[ENDING_LIMIT_MAX];

    snprintf(number, sizeof number, "%lld", (long long)n);
    if (n < 0 || !show_is_oom(p) || (only && strcmp(number, only) != 0))
        return;
    ending_limit(show_count(p, "memory_limit"), limit);
    cli_report("process %s was killed: out of memory%s", number, limit);
}

/* Prints the reason last when a process was killed by the memory limit, because its output ends
 * without one. */
static int note_ends(const struct api_call *like, const char *process, const char *sandbox)
{
    AUTO(api_call_done) struct api_call c;
    const struct json *all;
    int status;

    api_call_init(&c, like->verb, like->common, "GET");
    api_call_path(&c, "/v1/sandboxes/%s/processes", sandbox);
    status = api_call_run(&c);
    if (status)
        return status;
    all = answer_rows(c.answer, &kind_process);
    for (const struct json *p = json_first(all); p != json_end(all); p++)
        note_oom(p, process);
    return 0;
}

static int check_process(const struct api_call *like, const char *process, const char *sandbox)
{
    AUTO(api_call_done) struct api_call c;

    api_call_init(&c, like->verb, like->common, "GET");
    api_call_path(&c, "/v1/sandboxes/%s/processes/%s", sandbox, process);
    return api_call_run(&c);
}

static int run_logs(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct logs_options *o = options_;
    int status = 0;

    if (o->process && !o->follow) /* where it is followed, it may be one that is yet to start */
        status = check_process(c, o->process, argv[0]);
    if (status)
        return status;
    api_call_path(c, "/v1/sandboxes/%s/logs", argv[0]);
    api_call_query(c, "follow", o->follow ? "true" : NULL);
    api_call_query(c, "process", o->process);
    api_call_query(c, "tail", o->tail);
    status = answer_stream(c, STR(""), print_output, o);
    return status || common_format(c->common) != FORMAT_TEXT ? status
                                                             : note_ends(c, o->process, argv[0]);
}

const struct verb verb_logs = {
    .name = "logs",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "show the output of background processes",
    .text = "The last mebibyte of each is kept. A terminal gets it without control sequences.\n"
            "\n"
            "  sandboxer logs -f sbx_4k7\n"
            "  sandboxer logs --process 3 --tail 20 sbx_4k7\n",
    OPTIONS(options, struct logs_options),
    .run = run_logs,
    .flags = VERB_REMOTE | VERB_FORMAT,
};
