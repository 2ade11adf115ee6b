/* Policies that are tried before they are used: without a daemon, without any traffic. */
#include <stdio.h>

#include "base/own.h"
#include "cli/answer.h"
#include "cli/body.h"
#include "cli/egress_tool.h"
#include "cli/text_file.h"
#include "cli/verbs.h"

enum { OPTIONS_MAX = 16 };

/* The tool's answer as a tree: 0, or a status, which is `broken` for a file or an option that it
 * cannot take. Problems begin with the file's name. */
static int ask(struct call *c, const char *file, const char *const *options, int broken,
               const struct json **ret)
{
    AUTO(buf_done) struct buf text = BUF_INIT(TEXT_FILE_MAX);
    AUTO(buf_done) struct buf out = BUF_INIT(EGRESS_TOOL_OUT_MAX);
    struct err e;
    int r = text_file_read(file, &text, &e);

    if (r < 0) {
        call_failed(c, &e);
        return broken;
    }
    r = egress_tool_run(options, buf_str(&text), &out, &e);
    if (r == -(int)ERR_INVALID) {
        say("%s: %s: %s", c->verb->name, file, e.msg);
        return broken;
    }
    if (r >= 0)
        r = call_read_json(c, buf_str(&out), ret, &e);
    return r < 0 ? call_failed(c, &e) : 0;
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
static const struct kind endpoints = { "endpoints", "host", endpoint_columns,
                                       COUNT_OF(endpoint_columns) };

static void say_notes(const struct call *c, const char *file, const struct json *answer)
{
    const struct json *notes = show_at(answer, "notes");

    if (!notes || c->common->quiet || common_format(c->common) != FORMAT_TEXT)
        return;
    for (const struct json *n = json_first(notes); n != json_end(notes); n++)
        if (n->type == JSON_STR)
            say("note: %s: " STR_FMT, file, STR_ARG(n->s));
}

static int run_check(const struct verb *v, int argc, char **argv)
{
    static const char *const options[] = { "--check", "-", NULL };
    struct common common = { 0 };
    AUTO(call_done) struct call c;
    const struct json *answer = NULL, *valid;
    int status;

    call_init(&c, v, &common, "GET");
    if (!verb_parse(v, &argc, &argv, &common, &status))
        return status;
    status = ask(&c, argv[0], options, EXIT_REPORTED, &answer);
    if (status)
        return status;
    valid = show_at(answer, "valid");
    if (valid && valid->type == JSON_BOOL && valid->b) {
        say_notes(&c, argv[0], answer);
        return answer_list(&c, answer, &endpoints);
    }
    if (common_format(&common) != FORMAT_TEXT)
        status = answer_list(&c, answer, &endpoints);
    else
        say("%s: " STR_FMT, argv[0], STR_ARG(show_string(answer, "problem")));
    return status ? status : EXIT_REPORTED;
}

const struct verb verb_egress_check = {
    .name = "egress check",
    .arguments = "FILE",
    .summary = "check an egress policy that you are writing",
    .text = "Lists what the policy lets out, or says what is wrong with it, and where; the exit\n"
            "status is 1 then. '-' is stdin. No daemon is needed.\n"
            "\n"
            "  sandboxer egress check policy.yaml\n"
            "  sandboxer egress check policy.yaml -o json\n",
    .run = run_check,
    .flags = VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_FILE,
};

/* --- explain --- */

struct explain_options {
    struct common common;
    const char *to, *method, *path, *upgrade, *binary;
    bool ceiling;
};

#define AT(member) .at = offsetof(struct explain_options, member)

static const struct option_spec explain_options[] = {
    { "to", 0, "HOST[:PORT]", "where the connection would go (default port: 443)",
      .kind = OPTION_TEXT, AT(to) },
    { "method", 0, "METHOD", "of a request (default with --path: GET)", .kind = OPTION_TEXT,
      AT(method) },
    { "path", 0, "PATH", "of a request, with its query (default with --method: /)",
      .kind = OPTION_TEXT, AT(path) },
    { "upgrade", 0, "PROTOCOL", "that a request asks for in its Upgrade field, as websocket",
      .kind = OPTION_TEXT, AT(upgrade) },
    { "binary", 0, "PATH", "the program that asks, as it is called inside", .kind = OPTION_TEXT,
      AT(binary), .complete = COMPLETE_FILE },
    { "ceiling", 0, NULL, "ask the daemon, under the ceiling that it has for you",
      .kind = OPTION_FLAG, AT(ceiling) },
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
static const struct kind verdict = { "verdicts", "verdict", verdict_columns,
                                     COUNT_OF(verdict_columns) };

static void add_option(const char **options, size_t *n, const char *name, const char *value)
{
    if (!value)
        return;
    options[(*n)++] = name;
    options[(*n)++] = value;
}

/* The daemon's answer; 0, or a status. */
static int ask_daemon(struct call *c, const char *file, const struct explain_options *o,
                      const struct json **ret)
{
    AUTO(buf_done) struct buf text = BUF_INIT(TEXT_FILE_MAX);
    struct json_writer *w;
    struct err e;
    int status;

    if (text_file_read(file, &text, &e) < 0) {
        call_failed(c, &e);
        return EXIT_USAGE;
    }
    call_path(c, "/v1/egress/explain");
    w = call_json(c);
    json_begin_object(w);
    json_key(w, STR("policy"));
    json_put_str(w, buf_str(&text));
    body_text(w, "to", o->to);
    body_text(w, "method", o->method);
    body_text(w, "path", o->path);
    body_text(w, "upgrade", o->upgrade);
    body_text(w, "binary", o->binary);
    json_end_object(w);
    status = call_run(c);
    *ret = c->answer;
    return status;
}

static int run_explain(const struct verb *v, int argc, char **argv)
{
    struct explain_options o = { 0 };
    AUTO(call_done) struct call c;
    const char *options[OPTIONS_MAX] = { NULL };
    const struct json *answer = NULL;
    size_t n = 0;
    int status;

    call_init(&c, v, &o.common, "POST");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    if (!o.to)
        return verb_misused(v, "say where to: --to HOST:PORT");
    add_option(options, &n, "--explain", "-");
    add_option(options, &n, "--to", o.to);
    add_option(options, &n, "--method", o.method);
    add_option(options, &n, "--path", o.path);
    add_option(options, &n, "--upgrade", o.upgrade);
    add_option(options, &n, "--binary", o.binary);
    status = o.ceiling ? ask_daemon(&c, argv[0], &o, &answer)
                       : ask(&c, argv[0], options, EXIT_USAGE, &answer);
    if (status == 0)
        status = answer_record(&c, answer, &verdict);
    if (status == 0 && str_eq(show_string(answer, "verdict"), STR("denied")))
        status = EXIT_REPORTED;
    return status;
}

const struct verb verb_egress_explain = {
    .name = "egress explain",
    .arguments = "FILE",
    .summary = "say what an egress policy would decide, and why",
    .text =
        "The answer is what the egress worker does with the same connection or request. Nothing "
        "is\n"
        "resolved or sent: UNKNOWN says what the answer leaves open. Where the policy names\n"
        "programs, say which with --binary.\n"
        "The exit status is 1 if it would be refused, and 2 if the policy or an option is wrong. "
        "No\n"
        "daemon is needed, and no ceiling counts without one: with --ceiling the daemon answers,\n"
        "and names the ceiling.\n"
        "\n"
        "  sandboxer egress explain policy.yaml --to api.example.com:443\n"
        "  sandboxer egress explain policy.yaml --to api.example.com:80 --method POST --path "
        "/v1/x\n"
        "  sandboxer egress explain policy.yaml --to packages.example.org --binary /usr/bin/pip\n"
        "  sandboxer egress explain policy.yaml --to 127.0.0.1:8099 --ceiling\n",
    .options = explain_options,
    .n_options = COUNT_OF(explain_options),
    .run = run_explain,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_FILE,
};
