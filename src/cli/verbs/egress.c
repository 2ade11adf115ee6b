/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and explains egress policies, of files without a daemon and of sandboxes; shows and changes
 * the policy of a sandbox, and lists its connection attempts. */
#include <unistd.h>

#include "base/own.h"
#include "cli/body.h"
#include "cli/run/helper.h"
#include "cli/text_file.h"
#include "cli/verbs/verbs.h"
#include "domain/model/request.h"
#include "lib/json/writer.h"

enum { OPTIONS_MAX = 16 };

/* Reads the policy of a sandbox; the answer states why a policy is not in force. */
static int read_sandbox_policy(const struct api_call *c, const char *id, int broken,
                               struct buf *out)
{
    AUTO(api_call_done) struct api_call q;
    const struct json *policy;
    struct json_writer w;
    struct str problem;
    struct err e;
    int status;

    api_call_init(&q, c->verb, c->common, "GET");
    api_call_path(&q, "/v1/sandboxes/%s/egress", id);
    status = api_call_run(&q);
    if (status)
        return status;
    problem = show_string(q.answer, "problem");
    if (problem.n) {
        cli_report("%s: %s: " STR_FMT, c->verb->name, id, STR_ARG(problem));
        return broken;
    }
    policy = show_at(q.answer, "policy");
    json_writer_init(&w, out, JSON_COMPACT);
    if (policy)
        json_put_tree(&w, policy);
    return json_writer_finish(&w, &e) < 0 ? api_call_failed(c, &e) : 0;
}

/* Whether it is the id of a sandbox, or can be the name of one of a daemon that runs; a mistyped file
 * starts no daemon. A file takes precedence. */
static bool is_sandbox_word(const struct api_call *c, const char *what)
{
    AUTO(contact_done) struct contact contact = { .fd = -1 };

    if (access(what, F_OK) == 0)
        return false;
    if (str_starts(str_from(what), STR("sbx_")))
        return true;
    return sandbox_name_fits(str_from(what)) &&
           contact_open(&contact, c->common->server, CONTACT_ONLY, NULL) >= 0;
}

/* Returns 0 or an exit status, which is `broken` for a policy that cannot be read. */
static int read_policy_text(const struct api_call *c, const char *what, int broken, struct buf *out)
{
    struct err e;
    int status;

    if (is_sandbox_word(c, what)) {
        status = read_sandbox_policy(c, what, broken, out);
        if (status == EXIT_MISSING)
            cli_report("%s: there is no file '%s' either", c->verb->name, what);
        return status;
    }
    if (text_file_read(what, out, &e) >= 0)
        return 0;
    api_call_failed(c, &e);
    return broken;
}

/* The tool's answer becomes c->answer: 0, or a status, which is `broken` for a file or an option that it
 * cannot take. Problems begin with the file's name. */
static int query_egress_tool(struct api_call *c, const char *file, const char *const *options,
                             int broken)
{
    AUTO(buf_done) struct buf text = BUF_INIT(TEXT_FILE_MAX);
    AUTO(buf_done) struct buf out = BUF_INIT(HELPER_OUT_MAX);
    struct err e;
    int r = read_policy_text(c, file, broken, &text);

    if (r)
        return r;
    r = helper_run_text(HELPER_EGRESS, options, buf_str(&text), &out, &e);
    if (r == -(int)ERR_INVALID) {
        cli_report("%s: %s: %s", c->verb->name, file, e.msg);
        return broken;
    }
    if (r >= 0)
        r = api_call_read_json(c, buf_str(&out), &c->answer, &e);
    return r < 0 ? api_call_failed(c, &e) : 0;
}

/* --- check --- */

static const struct column endpoint_columns[] = {
    COLUMN("POLICY", "policy", .most = 24),
    COLUMN("HOST", "host", .most = 40),
    COLUMN("PORTS", "ports", .most = 24),
    COLUMN("PROTOCOL", "protocol"),
    COLUMN("ACCESS", "access"),
    COLUMN("RULES", "rules"),
    COLUMN("ENFORCEMENT", "enforcement"),
    COLUMN("PROGRAMS", "binaries", .most = 40),
};
static const struct answer_kind endpoints = KIND("endpoints", "host", endpoint_columns);

static void print_policy_notes(const struct api_call *c, const char *file)
{
    const struct json *notes = show_at(c->answer, "notes");

    if (!notes || c->common->quiet || common_format(c->common) != FORMAT_TEXT)
        return;
    for (const struct json *n = json_first(notes); n != json_end(notes); n++)
        if (n->type == JSON_STR)
            cli_report("note: %s: " STR_FMT, file, STR_ARG(n->s));
}

static int run_egress_check(struct api_call *c, void *options, int argc, char **argv)
{
    static const char *const tool[] = { "--check", "-", NULL };
    int status = query_egress_tool(c, argv[0], tool, EXIT_REPORTED);

    if (status)
        return status;
    if (show_true(c->answer, "valid")) {
        print_policy_notes(c, argv[0]);
        return answer_list(c, c->answer, &endpoints);
    }
    if (common_format(c->common) != FORMAT_TEXT)
        status = answer_list(c, c->answer, &endpoints);
    else
        cli_report("%s: " STR_FMT, argv[0], STR_ARG(show_string(c->answer, "problem")));
    return status ? status : EXIT_REPORTED;
}

const struct verb verb_egress_check = {
    .name = "egress check",
    ARGUMENTS("FILE|ID|NAME", 1, 1, COMPLETE_SANDBOX_OR_FILE),
    .summary = "check an egress policy that you are writing, or that of a sandbox",
    .text = "Lists the destinations that the policy allows, or its mistakes with their lines;\n"
            "the exit status is 1 then. '-' is stdin. No daemon is needed for a file.\n"
            "\n"
            "  sandboxer egress check policy.yaml\n"
            "  sandboxer egress check sbx_4k7\n"
            "  sandboxer egress check policy.yaml -o json\n",
    .run = run_egress_check,
    .flags = VERB_ASKS,
};

/* --- explain --- */

struct egress_explain_options {
    struct common common;
    const char *to, *method, *path, *upgrade, *binary;
    bool ceiling;
};

#define AT(member) .at = offsetof(struct egress_explain_options, member)

static const struct option_spec explain_options[] = {
    { "to", 0, "HOST[:PORT]", "where the connection would go (default port: 443)", AT(to) },
    { "method", 0, "METHOD", "of a request (default with --path: GET)", AT(method) },
    { "path", 0, "PATH", "of a request, with its query (default with --method: /)", AT(path) },
    { "upgrade", 0, "PROTOCOL", "protocol of the request's Upgrade field, as websocket",
      AT(upgrade) },
    { "binary", 0, "PATH", "the connecting program, as its path inside", AT(binary),
      .complete = COMPLETE_FILE },
    { "ceiling", 0, NULL, "let the daemon answer, with your ceiling applied", AT(ceiling) },
};

static const struct column verdict_columns[] = {
    COLUMN("VERDICT", "verdict", .state = true),
    COLUMN("REASON", "reason"),
    COLUMN("CODE", "code"),
    COLUMN("DECIDED BY", "stage"),
    COLUMN("POLICY", "policy"),
    COLUMN("RULE", "rule"),
    COLUMN("PROTOCOL", "protocol"),
    COLUMN("TLS", "tls"),
    COLUMN("NEXT", "next"),
    COLUMN("UNKNOWN", "unknown"),
    COLUMN("CEILING", "ceiling"),
    COLUMN("SET BY", "ceiling_from"),
};
static const struct answer_kind verdict = KIND("verdicts", "verdict", verdict_columns);

static void add_option(const char **options, size_t *n, const char *name, const char *value)
{
    if (!value)
        return;
    options[(*n)++] = name;
    options[(*n)++] = value;
}

/* The daemon's answer; 0, or a status. */
static int query_daemon_policy(struct api_call *c, const char *file,
                               const struct egress_explain_options *o)
{
    AUTO(buf_done) struct buf text = BUF_INIT(TEXT_FILE_MAX);
    struct json_writer *w;
    int status = read_policy_text(c, file, EXIT_USAGE, &text);

    if (status)
        return status;
    c->method = "POST";
    api_call_path(c, "/v1/egress/explain");
    w = api_call_json(c);
    json_begin_object(w);
    json_field_str(w, "policy", buf_str(&text));
    body_text(w, "to", o->to);
    body_text(w, "method", o->method);
    body_text(w, "path", o->path);
    body_text(w, "upgrade", o->upgrade);
    body_text(w, "binary", o->binary);
    json_end_object(w);
    return api_call_run(c);
}

static int run_egress_explain(struct api_call *c, void *options, int argc, char **argv)
{
    const struct egress_explain_options *o = options;
    const char *tool[OPTIONS_MAX] = { NULL };
    size_t n = 0;
    int status;

    if (!o->to)
        return verb_misused(c->verb, "name a destination: --to HOST:PORT");
    add_option(tool, &n, "--explain", "-");
    add_option(tool, &n, "--to", o->to);
    add_option(tool, &n, "--method", o->method);
    add_option(tool, &n, "--path", o->path);
    add_option(tool, &n, "--upgrade", o->upgrade);
    add_option(tool, &n, "--binary", o->binary);
    status = o->ceiling ? query_daemon_policy(c, argv[0], o)
                        : query_egress_tool(c, argv[0], tool, EXIT_USAGE);
    if (status == 0)
        status = answer_record(c, c->answer, &verdict);
    if (status == 0 && str_eq(show_string(c->answer, "verdict"), STR("denied")))
        status = EXIT_REPORTED;
    return status;
}

const struct verb verb_egress_explain = {
    .name = "egress explain",
    ARGUMENTS("FILE|ID|NAME", 1, 1, COMPLETE_SANDBOX_OR_FILE),
    .summary = "explain the decision of an egress policy about a destination",
    .text =
        "The answer is what the egress worker does with the same connection or request.\n"
        "Nothing is resolved or sent: UNKNOWN says what the answer leaves open. Where the\n"
        "policy names programs, say which with --binary. The exit status is 1 if it would be\n"
        "refused, and 2 if the policy or an option is wrong. No daemon is needed for a file,\n"
        "and no ceiling counts without one: with --ceiling the daemon answers, and names the\n"
        "ceiling.\n"
        "\n"
        "  sandboxer egress explain policy.yaml --to api.example.com:443\n"
        "  sandboxer egress explain policy.yaml --to api.example.com:80 --method POST --path "
        "/v1/x\n"
        "  sandboxer egress explain policy.yaml --to packages.example.org --binary /usr/bin/pip\n"
        "  sandboxer egress explain policy.yaml --to 127.0.0.1:8099 --ceiling\n"
        "  sandboxer egress explain sbx_4k7 --to api.example.com:443\n",
    OPTIONS(explain_options, struct egress_explain_options),
    .run = run_egress_explain,
    .flags = VERB_ASKS,
};

/* --- the policy of a sandbox --- */

static const struct column policy_columns[] = {
    COLUMN("ID", "sandbox_id"),
    COLUMN("GENERATION", "generation"),
    COLUMN("IN FORCE", "in_force"),
    COLUMN("PROBLEM", "problem", .alone = true),
    COLUMN("ENDPOINTS", "endpoints"),
    COLUMN("ALLOWED", "allowed"),
    COLUMN("DENIED", "denied"),
    COLUMN("SENT", "bytes_out", .show = show_bytes),
    COLUMN("RECEIVED", "bytes_in", .show = show_bytes),
    COLUMN("CEILING", "ceiling.reach", .alone = true),
    COLUMN("SET BY", "ceiling.from", .alone = true),
    COLUMN("POLICY", "policy", .alone = true, .block = true),
};
static const struct answer_kind policy_kind = KIND("egress", "generation", policy_columns);

const struct verb verb_egress_get = {
    .name = "egress get",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "show the egress policy and traffic of a sandbox",
    .text = "  sandboxer egress get sbx_4k7\n"
            "  sandboxer egress get sbx_4k7 -o yaml\n",
    REQUEST("GET", "/v1/sandboxes/%s/egress", .kind = &policy_kind),
};

static int print_generation(const struct api_call *c, const void *options, char **argv)
{
    AUTO(buf_done) struct buf generation = BUF_INIT(32);

    show_text(show_at(c->answer, "generation"), 0, &generation);
    return answer_done(c, c->answer, "%s: generation " STR_FMT " of its policy", argv[0],
                       STR_ARG(buf_str(&generation)));
}

const struct verb verb_egress_set = {
    .name = "egress set",
    ARGUMENTS("ID FILE", 2, 2, COMPLETE_SANDBOX_OR_FILE),
    .summary = "give a sandbox another egress policy, at once",
    .text = "The new policy replaces the old one as a whole; an invalid policy changes nothing.\n"
            "Connections that the new policy does not allow are closed. '-' is stdin.\n"
            "\n"
            "  sandboxer egress set sbx_4k7 policy.yaml\n",
    REQUEST("PUT", "/v1/sandboxes/%s/egress", .body = BODY_YAML, .print = print_generation),
};

/* --- what was tried --- */

/* Which decisions; the daemon checks the values. */
struct decision_options {
    struct common common;
    const char *since, *until, *host, *program, *action, *tail;
    bool denied, allowed, follow;
};

#define DECISION(member) .at = offsetof(struct decision_options, member)
#define DECISION_OPTIONS                                                                              \
    { "since",         0,                                                                             \
      "WHEN",          "begin this long ago (10m, 2h), or at a time: 2026-01-02T03:04:05Z",           \
      DECISION(since), .query = "since" },                                                            \
        { "until", 0, "WHEN", "end this long ago, or at a time", DECISION(until), .query = "until" }, \
        { "host",         0, "HOST", "only this destination: a name or an address", DECISION(host),   \
          .query = "host" },                                                                          \
    {                                                                                                 \
        "program", 0, "PROGRAM", "only this program: a path inside, or its last part",                \
            DECISION(program), .query = "program"                                                     \
    }

/* Restricts the log to one result. */
static int set_log_action(struct api_call *c, void *options, char **argv)
{
    struct decision_options *o = options;

    if (o->denied && o->allowed)
        return verb_misused(c->verb, "--denied and --allowed exclude each other");
    o->action = o->denied ? "denied" : o->allowed ? "allowed" : NULL;
    if (o->follow && !o->tail && !o->since) /* from now on */
        o->tail = "0";
    return 0;
}

static const struct column log_columns[] = {
    COLUMN("TIME", "time", .show = show_moment, .width = 20),
    COLUMN("ACTION", "action", .width = 8),
    COLUMN("ACTIVITY", "activity_name", .width = 8, .wide = 160),
    COLUMN("HOST", "dst_endpoint.hostname", .width = 24),
    COLUMN("ADDRESS", "dst_endpoint.ip", .width = 15, .wide = 160),
    COLUMN("PORT", "dst_endpoint.port", .width = 5),
    COLUMN("CODE", "status_code", .width = 15),
    COLUMN("COUNT", "count", .width = 5, .wide = 120),
    COLUMN("PROGRAM", "actor.process.file.path", .width = 20, .wide = 120),
    COLUMN("MESSAGE", "message", .width = 40, .wide = 160),
};

static const struct option_spec log_options[] = {
    { "follow", 'f', NULL, "follow new decisions", DECISION(follow), .query = "follow" },
    { "tail", 'n', "N", "begin with the last N decisions that are selected", .kind = OPTION_COUNT,
      DECISION(tail), .most = 10000, .query = "tail" },
    DECISION_OPTIONS,
    { "denied", 0, NULL, "only denied ones", DECISION(denied) },
    { "allowed", 0, NULL, "only allowed ones", DECISION(allowed) },
    { "action", 0, "ACTION", NULL, DECISION(action), .query = "action" },
};

static const struct answer_kind log_kind = KIND("", "time", log_columns);

const struct verb verb_egress_log = {
    .name = "egress log",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "show the egress decisions of a sandbox",
    .text = "A line has time, action, destination, reason, and on a wide terminal more: as many\n"
            "columns as fit. With -o json it is the whole event (OCSF), one per line.\n"
            "\n"
            "With -f it begins now, unless -n or --since say where; without, with the oldest.\n"
            "\n"
            "  sandboxer egress log -f sbx_4k7\n"
            "  sandboxer egress log -n 20 --denied sbx_4k7\n"
            "  sandboxer egress log --since 10m --host api.example.com --program curl sbx_4k7\n"
            "  sandboxer egress log sbx_4k7 -o json | jq 'select(.action_id == 2)'\n",
    OPTIONS(log_options, struct decision_options),
    REQUEST_AS(VERB_REMOTE | VERB_FORMAT, "GET", "/v1/sandboxes/%s/egress/log",
               .prepare = set_log_action, .kind = &log_kind, .stream = true),
};

static const struct option_spec denial_options[] = {
    { "limit", 'n', "N", "so many destinations at most (default: 20)", .kind = OPTION_COUNT,
      DECISION(tail), .least = 1, .most = 100, .query = "limit" },
    DECISION_OPTIONS,
};

static const struct column denial_columns[] = {
    COLUMN("COUNT", "count"),
    COLUMN("HOST", "host", .most = 48),
    COLUMN("PORT", "port"),
    COLUMN("CODE", "code"),
    COLUMN("PROGRAM", "program", .most = 40),
    COLUMN("LAST", "last_at", .show = show_age),
    COLUMN("MESSAGE", "message", .most = 80, .wide = 140),
};
static const struct answer_kind denials = KIND("denials", "host", denial_columns);

const struct verb verb_egress_denials = {
    .name = "egress denials",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "show recent egress denials of a sandbox, with reasons",
    .text = "Each destination once, the newest first, with the number of denials.\n"
            "\n"
            "  sandboxer egress denials sbx_4k7\n"
            "  sandboxer egress denials --since 1h --program curl sbx_4k7\n",
    OPTIONS(denial_options, struct decision_options),
    REQUEST("GET", "/v1/sandboxes/%s/egress/denials", .kind = &denials, .list = true),
};
