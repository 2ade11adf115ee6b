/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the audit is still what was written. */
#include <fcntl.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/units.h"
#include "cli/run/helper.h"
#include "cli/verbs/verbs.h"
#include "base/rfc3339.h"

/* --- head --- */

static const struct column head_columns[] = {
    COLUMN("SEQ", "seq"),
    COLUMN("DIGEST", "digest"),
    COLUMN("CHAINED FROM", "chained_from"),
};
static const struct answer_kind head = KIND("heads", "digest", head_columns);

const struct verb verb_audit_head = {
    .name = "audit head",
    .summary = "show the last event of the daemon's chain",
    .text = "Keep it on another machine: `audit verify --expect SEQ:DIGEST` then shows whether\n"
            "events up to there were rewritten, also by an attacker who has the daemon's key.\n"
            "\n"
            "  sandboxer audit head\n"
            "  sandboxer audit head -o json\n",
    REQUEST("GET", "/v1/audit/head", .kind = &head),
};

/* --- verify --- */

struct audit_verify_options {
    struct common common;
    const char *since, *expect, *file;
};

#define AT(member) .at = offsetof(struct audit_verify_options, member)
static const struct option_spec options[] = {
    { "since", 0, "DURATION", "leave out what is older, such as 24h", .kind = OPTION_DURATION,
      AT(since) },
    { "expect", 0, "SEQ:DIGEST", "a head that `audit head` showed before", AT(expect) },
    { "file", 0, "FILE", "check an exported egress log, without a daemon ('-' is stdin)", AT(file),
      .complete = COMPLETE_FILE },
};

static const struct column problem_columns[] = {
    COLUMN("CHAIN", "chain"),
    COLUMN("SEQ", "seq"),
    COLUMN("TIME", "time"),
    COLUMN("PROBLEM", "message"),
};
static const struct answer_kind problem = KIND("problems", "seq", problem_columns);

static void print_summary(const struct api_call *c, const char *what)
{
    unsigned long long from = show_count(c->answer, "head.chained_from"),
                       events = show_count(c->answer, "events"),
                       lines = show_count(c->answer, "lines"),
                       logs = show_count(c->answer, "sandboxes"),
                       unchained = show_count(c->answer, "unchained_lines");

    if (show_at(c->answer, "head"))
        printf("%s: intact: %llu event%s up to %llu, %llu line%s of %llu egress log%s\n", what,
               events, units_plural(events), show_count(c->answer, "head.seq"), lines,
               units_plural(lines), logs, units_plural(logs));
    else
        printf("%s: intact: %llu line%s, the last is %llu\n", what, lines, units_plural(lines),
               show_count(c->answer, "last_line"));
    if (from > 1)
        printf("%s: events are not chained before %llu\n", what, from);
    if (unchained)
        printf("%s: %llu line%s from before there was a chain cannot be checked\n", what, unchained,
               units_plural(unchained));
}

/* 0: intact. */
static int show_audit_found(const struct api_call *c, const char *what)
{
    int status = 0;

    if (common_format(c->common) != FORMAT_TEXT)
        status = answer_record(c, c->answer, &problem);
    else if (!show_true(c->answer, "intact"))
        status = answer_list(c, c->answer, &problem);
    else if (!c->common->quiet)
        print_summary(c, what);
    if (!status && !show_true(c->answer, "intact")) {
        cli_report("audit verify: %s: damaged: %llu problem%s", what,
                   show_count(c->answer, "problem_count"),
                   show_count(c->answer, "problem_count") == 1 ? "" : "s");
        status = EXIT_REPORTED;
    }
    return status ? status : answer_flush(c);
}

static int verify_file(struct api_call *c, const char *path)
{
    static const char *const tool[] = { "--verify-log", NULL };
    AUTO(buf_done) struct buf out = BUF_INIT(HELPER_OUT_MAX);
    AUTO_CLOSE int fd =
        strcmp(path, "-") == 0 ? fcntl(0, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    struct err e;
    int r =
        fd < 0 ? err_sys(&e, "opening %s", path) : helper_run(HELPER_EGRESS, tool, fd, &out, &e);

    if (r >= 0)
        r = api_call_read_json(c, buf_str(&out), &c->answer, &e);
    return r < 0 ? api_call_failed(c, &e) : show_audit_found(c, path);
}

/* `id`: its egress log; NULL: the daemon's chain. */
static int verify_one(struct api_call *c, const struct audit_verify_options *o, const char *id)
{
    char since[TIME_TEXT];
    int64_t age;
    int status;

    c->doing = "reading the audit";
    if (id) {
        api_call_path(c, "/v1/sandboxes/%s/audit", id);
    } else {
        api_call_path(c, "/v1/audit/verify");
        if (o->since && units_duration(str_from(o->since), "--since", &age, NULL) >= 0) {
            time_text(clock_wall() - age, since);
            api_call_query(c, "since", since);
        }
        api_call_query(c, "expect", o->expect);
    }
    status = api_call_run(c);
    return status ? status : show_audit_found(c, id ? id : "audit");
}

static int run_audit_verify(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct audit_verify_options *o = options_;
    int worst = 0;

    if ((o->file || o->since || o->expect) && argc)
        return verb_misused(c->verb, "--file, --since and --expect go without sandboxes");
    if (o->file && (o->since || o->expect))
        return verb_misused(c->verb, "--file goes without --since and --expect");
    if (o->file)
        return verify_file(c, o->file);
    if (!argc)
        return verify_one(c, o, NULL);
    for (int i = 0; i < argc; i++) {
        AUTO(api_call_done) struct api_call one;
        int status;

        api_call_init(&one, c->verb, c->common, "GET");
        status = verify_one(&one, o, argv[i]);
        worst = status > worst ? status : worst;
    }
    return worst;
}

const struct verb verb_audit_verify = {
    .name = "audit verify",
    ARGUMENTS("[ID…]", 0, ARGUMENTS_ANY, COMPLETE_SANDBOX),
    .summary = "check the integrity of events and egress logs",
    .text = "Without a sandbox: the daemon's chain of events, and the egress logs of all\n"
            "sandboxes as far as the chain names their lines; for administrators. With\n"
            "sandboxes: their egress logs. The first bad record of each chain comes first: what\n"
            "is changed, missing, inserted, out of order or cut off, and its sequence number and\n"
            "time. Records that retention removed are no damage.\n"
            "\n"
            "A log that `egress log ID -o json` or the state directory gave can be checked\n"
            "anywhere with --file: its lines are linked to each other, but without the daemon's\n"
            "key and chain a log that was rewritten as a whole, or cut off at its end, looks\n"
            "intact.\n"
            "\n"
            "Exit status: 0 if all is intact; 1 if something is damaged.\n"
            "\n"
            "  sandboxer audit verify\n"
            "  sandboxer audit verify sbx_4k7 -o json\n"
            "  sandboxer audit verify --since 24h\n"
            "  sandboxer audit verify --expect 4711:9f86d081884c7d65…\n"
            "  sandboxer audit verify --file egress.jsonl\n",
    OPTIONS(options, struct audit_verify_options),
    .run = run_audit_verify,
    .flags = VERB_ASKS,
};
