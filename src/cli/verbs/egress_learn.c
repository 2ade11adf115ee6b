/* SPDX-License-Identifier: Apache-2.0 */
/* Proposes the least egress policy: of a command that runs in a sandbox, or of a sandbox's log. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/connect.h"
#include "cli/learn/learner.h"
#include "cli/learn/policy_file.h"
#include "cli/learn/report.h"
#include "cli/run/run_options.h"
#include "cli/terminal.h"
#include "cli/verbs/verbs.h"
#include "base/io.h"

struct learn_options {
    struct common common;
    struct run_options run;
    const char *ceiling, *merge, *write, *since, *until;
    bool programs, suspicious, denied, keep, apply;
};

#define AT(member) .at = offsetof(struct learn_options, member)

static const struct option_spec learn_options[] = {
    { "ceiling", 0, "REACH",
      "how far COMMAND may reach while it is recorded: public, every public destination (default: "
      "the hosts of --allow and --policy; without these, asks on a terminal)",
      AT(ceiling), .words = "public" },
    NETWORK_OPTION_ROWS(struct learn_options, run.network),
    { "write", 0, "FILE", "write the policy to FILE, which must not exist, or be that of --policy",
      AT(write), .complete = COMPLETE_FILE },
    { "apply", 0, NULL, "give the sandbox ID the policy at once, as 'egress set' does", AT(apply) },
    { "merge", 0, "N", "propose *.DOMAIN in place of N or more names directly below a domain",
      .kind = OPTION_COUNT, AT(merge), .least = 2, .most = 1000 },
    { "programs", 0, NULL, "name the programs that connected; of ID, where the log has them",
      AT(programs) },
    { "include-suspicious", 0, NULL, "also propose names that look as if they carried data",
      AT(suspicious) },
    { "include-denied", 0, NULL, "also propose public destinations that the policy denied",
      AT(denied) },
    { "keep-unused", 0, NULL, "keep endpoints of the policy that were not used", AT(keep) },
    { "since", 0, "WHEN", "of ID: begin this long ago (10m, 2h), or at a time", AT(since) },
    { "until", 0, "WHEN", "of ID: end this long ago, or at a time", AT(until) },
    { "image", 0, "PATH|REF", "root file system of COMMAND, as for 'run'", .set = run_set_image,
      AT(run), .complete = COMPLETE_FILE },
    { "writable", 0, NULL, "system directories take writes, kept in the sandbox",
      AT(run.writable) },
    { "env", 'e', "NAME[=VALUE]", "set a variable, or pass the caller's on", .set = run_set_env,
      AT(run) },
    BOX_OPTION_ROWS(struct learn_options, run.box),
    { "timeout", 0, "DURATION", "end COMMAND after 2s, 5m, 1h30m", .set = run_set_timeout,
      AT(run) },
    { "resolver", 0, "ADDR[:PORT]", "DNS server for what it may reach (default: the host's)",
      .kind = OPTION_LIST, AT(run.network.resolvers) },
    { "upstream", 0, "URL", "go out through http://ADDR:PORT or socks5://ADDR:PORT",
      AT(run.network.upstream) },
    { "tty", 't', NULL, "run COMMAND in a terminal of its own", AT(run.tty) },
};

static struct learn_question question_of(const struct learn_options *o, struct str base)
{
    return (struct learn_question){ .base = base,
                                    .merge = o->merge,
                                    .programs = o->programs,
                                    .suspicious = o->suspicious,
                                    .denied = o->denied,
                                    .keep = o->keep };
}

/* Waits for the proposal: c->answer. */
static int receive_proposal(struct api_call *c, struct learner *l, struct err *e)
{
    AUTO(buf_done) struct buf out = BUF_INIT(HELPER_OUT_MAX);
    int r = learner_finish(l, &out, e);

    return r < 0 ? r : api_call_read_json(c, buf_str(&out), &c->answer, e);
}

/* ---- a command ---- */

/* The policy of the run in the place of --policy, which is the base of the proposal. */
static int open_to_public(struct api_call *c, struct learn_options *o, struct err *e)
{
    AUTO(buf_done) struct buf out = BUF_INIT(HELPER_OUT_MAX);
    struct network_options *n = &o->run.network;
    const struct json *answer;
    int r = learner_audit_policy(buf_str(&n->text), &out, e);

    if (r >= 0)
        r = api_call_read_json(c, buf_str(&out), &answer, e);
    if (r < 0)
        return r;
    buf_clear(&n->text);
    n->policy = n->policy ? n->policy : "--ceiling public";
    if (buf_add(&n->text, show_string(answer, "policy")) < 0)
        return err_set(e, ERR_TOO_BIG, "%s: the policy is too large to be recorded under",
                       n->policy);
    return 0;
}

/* Nothing is run elsewhere, and nothing passes that no person has agreed to. A status. */
static int agree_on_ceiling(const struct api_call *c, struct learn_options *o)
{
    struct daemon_address place;
    struct err e;

    if (place_find(NULL, &place, &e) < 0)
        return verb_misused(c->verb, "%s", e.msg);
    if (place.tcp)
        return verb_misused(c->verb,
                            "SANDBOXER_URL names the daemon at %.100s, and a command is recorded "
                            "on this machine only: unset SANDBOXER_URL, or name a sandbox there",
                            place.authority);
    if (o->ceiling || network_is_requested(&o->run.network))
        return 0;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return verb_misused(c->verb, "nothing says how far the command may reach: add --ceiling "
                                     "public for every public destination, or --allow "
                                     "'*.example.com', or --policy FILE");
    if (!terminal_confirm("Let the command reach every public destination while it is recorded?"))
        return verb_failed(c->verb, "the command was not run; --allow HOST lets it reach less");
    o->ceiling = "public";
    return 0;
}

static int prepare_learning(struct api_call *c, struct learn_options *o, struct buf *base,
                            struct err *e)
{
    struct network_options *n = &o->run.network;
    int r = 0;

    if (n->policy)
        r = text_file_read(n->policy, &n->text, e);
    if (r >= 0 && n->policy && !n->text.n)
        r = err_set(e, ERR_INVALID, "%s: is empty; a policy needs at least 'version: 1'",
                    n->policy);
    if (r >= 0)
        r = buf_add(base, buf_str(&n->text));
    if (r >= 0 && o->write)
        r = policy_file_check(o->write, n->policy, e);
    if (r >= 0 && o->ceiling)
        r = open_to_public(c, o, e);
    return r;
}

/* Its output goes to stderr, so that stdout has the proposal alone. A status. */
static int run_with_stderr(struct api_call *c, struct learn_options *o, int argc, char **argv,
                           struct err *e)
{
    AUTO_CLOSE int out = -1;
    int status;

    fflush(stdout);
    out = dup(STDOUT_FILENO);
    if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return err_sys(e, "redirecting the command's output");
    status = verb_run.run(c, &o->run, argc, argv);
    fflush(stdout);
    if (dup2(out, STDOUT_FILENO) < 0)
        return err_sys(e, "restoring stdout");
    return status;
}

static int show_learned(struct api_call *c, const struct learn_options *o, const char *policy,
                        struct str base)
{
    struct err e;
    int status = 0;

    learn_report_lists(c);
    if (!o->write || policy || common_format(c->common) != FORMAT_TEXT)
        status = learn_report_policy(c, policy);
    if (status || !o->write)
        return status;
    if (policy_file_write(o->write, policy, base, show_string(c->answer, "policy"), &e) < 0)
        return api_call_failed(c, &e);
    if (!c->common->quiet)
        cli_report("the policy is in %s", o->write);
    return 0;
}

/* Without any, the statuses of a command that could not be started are not the command's own. */
static bool made_no_connection(const struct api_call *c)
{
    return show_int(c->answer, "connections", 0) == 0;
}

static int learn_command(struct api_call *c, struct learn_options *o, int argc, char **argv)
{
    AUTO(learner_done) struct learner l = LEARNER_NONE;
    AUTO(buf_done) struct buf base = BUF_INIT(TEXT_FILE_MAX);
    const char *policy = o->run.network.policy;
    struct learn_question q;
    struct err e;
    int status = agree_on_ceiling(c, o), shown, r;

    if (status)
        return status;
    r = prepare_learning(c, o, &base, &e);
    q = question_of(o, buf_str(&base));
    if (r >= 0)
        r = learner_start(&l, &q, &e);
    if (r < 0)
        return api_call_failed(c, &e);
    o->run.network.record = &l.log;
    o->run.network.identify = o->programs;
    o->run.quiet = true; /* the report says more */
    status = run_with_stderr(c, o, argc, argv, &e);
    if (status < 0 || receive_proposal(c, &l, &e) < 0)
        return api_call_failed(c, &e);
    if (status >= EXIT_TOOL_FAILED && status <= EXIT_NOT_FOUND && made_no_connection(c)) {
        verb_failed(c->verb, "the command did not run: there is nothing to propose");
        return status;
    }
    shown = show_learned(c, o, policy, buf_str(&base));
    return status ? status : shown;
}

/* ---- a sandbox ---- */

/* Its policy as text, and the policy's number. A status. */
static int fetch_policy(const struct api_call *c, const char *id, struct buf *out,
                        int64_t *ret_generation)
{
    AUTO(api_call_done) struct api_call q;
    const struct json *policy;
    struct json_writer w;
    struct err e;
    int status;

    api_call_init(&q, c->verb, c->common, "GET");
    api_call_path(&q, "/v1/sandboxes/%s/egress", id);
    status = api_call_run(&q);
    if (status)
        return status;
    *ret_generation = show_int(q.answer, "generation", 0);
    policy = show_at(q.answer, "policy");
    if (!policy)
        return 0;
    json_writer_init(&w, out, JSON_COMPACT);
    json_put_tree(&w, policy);
    return json_writer_finish(&w, &e) < 0 ? api_call_failed(c, &e) : 0;
}

static int feed_log(const struct api_call *c, const struct learn_options *o, const char *id,
                    const struct learner *l)
{
    AUTO(api_call_done) struct api_call q;
    struct str piece;
    int status;

    api_call_init(&q, c->verb, c->common, "GET");
    api_call_path(&q, "/v1/sandboxes/%s/egress/log", id);
    api_call_query(&q, "since", o->since);
    api_call_query(&q, "until", o->until);
    status = api_call_open(&q);
    while (status == 0 && api_call_next(&q, &piece, &status) > 0)
        if (write_all(l->log, piece, NULL) < 0)
            break; /* its end says why */
    return status;
}

/* Another policy may have been set since ours was read. */
static int check_generation(const struct api_call *c, const char *id, int64_t generation)
{
    AUTO(buf_done) struct buf text = BUF_INIT(TEXT_FILE_MAX);
    int64_t now;
    int status = fetch_policy(c, id, &text, &now);

    if (status || now == generation)
        return status;
    verb_failed(c->verb, "%s: its policy was changed meanwhile, and is left as it is; learn again",
                id);
    return EXIT_CONFLICT;
}

static int apply_policy(const struct api_call *c, const char *id, int64_t generation)
{
    AUTO(api_call_done) struct api_call q;
    int status = check_generation(c, id, generation);

    if (status)
        return status;
    api_call_init(&q, c->verb, c->common, "PUT");
    api_call_path(&q, "/v1/sandboxes/%s/egress", id);
    api_call_field(&q, "Content-Type", "application/yaml");
    if (buf_add(&q.body, show_string(c->answer, "policy")) < 0)
        return verb_failed(c->verb, "%s: the policy is too large", id);
    status = api_call_run(&q);
    if (status == 0 && !c->common->quiet)
        cli_report("%s: the policy is in force", id);
    return status;
}

static int check_sandbox_options(const struct api_call *c, const struct learn_options *o)
{
    if (o->ceiling || network_touched(&o->run.network))
        return verb_misused(c->verb, "--ceiling, --allow, --allow-packages, --policy, --resolver "
                                     "and --upstream are for a command that is run: '-- COMMAND'");
    return 0;
}

static int learn_sandbox(struct api_call *c, struct learn_options *o, const char *id)
{
    AUTO(learner_done) struct learner l = LEARNER_NONE;
    AUTO(buf_done) struct buf base = BUF_INIT(TEXT_FILE_MAX);
    struct learn_question q;
    struct err e = { 0 };
    int64_t generation = 0;
    int status = check_sandbox_options(c, o);

    if (status == 0 && o->write && policy_file_check(o->write, NULL, &e) < 0)
        status = api_call_failed(c, &e);
    if (status == 0)
        status = fetch_policy(c, id, &base, &generation);
    if (status)
        return status;
    q = question_of(o, buf_str(&base));
    if (learner_start(&l, &q, &e) < 0)
        return api_call_failed(c, &e);
    status = feed_log(c, o, id, &l);
    if (status)
        return status;
    if (receive_proposal(c, &l, &e) < 0)
        return api_call_failed(c, &e);
    learn_report_lists(c);
    status = learn_report_policy(c, base.n ? id : NULL);
    if (status == 0 && o->write &&
        policy_file_write(o->write, NULL, (struct str){ 0 }, show_string(c->answer, "policy"), &e) <
            0)
        status = api_call_failed(c, &e);
    return status || !o->apply ? status : apply_policy(c, id, generation);
}

static int run_egress_learn(struct api_call *c, void *options, int argc, char **argv)
{
    struct learn_options *o = options;

    if (argc && strcmp(argv[0], "--") == 0) {
        if (argc == 1)
            return verb_misused(c->verb, "give a command to run behind '--'");
        if (o->apply || o->since || o->until || o->common.server)
            return verb_misused(c->verb, "--apply, --since, --until and --server need the ID of a "
                                         "sandbox");
        return learn_command(c, o, argc - 1, argv + 1);
    }
    if (argc != 1)
        return verb_misused(c->verb, "give the ID of a sandbox, or '--' and a command to run");
    return learn_sandbox(c, o, argv[0]);
}

const struct verb verb_egress_learn = {
    .name = "egress learn",
    ARGUMENTS("ID | -- COMMAND [ARGUMENT…]", 1, ARGUMENTS_ANY, COMPLETE_SANDBOX),
    .summary = "propose the least egress policy for a command, or for a sandbox's log",
    .text = "Runs COMMAND in a sandbox as 'run' does, and records where it connects to. Or reads\n"
            "the log of a sandbox of the daemon. The proposal has the hosts and ports that were\n"
            "reached, and nothing wider. It is checked, and each decision is made again under it,\n"
            "before it is printed; if one comes out otherwise, nothing is proposed.\n"
            "\n"
            "With --policy, or of a sandbox, it begins with the policy that there is: endpoints\n"
            "that were used stay as they are written, others go, and the differences are printed.\n"
            "Comments of FILE are not kept. COMMAND writes to stderr; stdout has the proposal.\n"
            "\n"
            "Refused destinations, names that look as if they carried data, and names that were\n"
            "only looked up are reported on stderr, and not proposed.\n"
            "\n"
            "Exit status: COMMAND's own, as of 'run'; 125 if no proposal could be made. Of ID: 0.\n"
            "\n"
            "  sandboxer egress learn --ceiling public -- npm ci > policy.yaml\n"
            "  sandboxer egress learn --allow '*.example.com' --write policy.yaml -- ./job\n"
            "  sandboxer egress learn --ceiling public --policy policy.yaml --write policy.yaml -- "
            "./job\n"
            "  sandboxer egress learn --since 1h sbx_4k7\n"
            "  sandboxer egress learn --include-denied --apply sbx_4k7\n",
    OPTIONS(learn_options, struct learn_options),
    .defaults = &(const struct learn_options){ .run = RUN_OPTIONS_DEFAULT },
    .run = run_egress_learn,
    .flags = VERB_ASKS | VERB_DASHES,
};
