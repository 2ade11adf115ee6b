/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress_explain.h"

#include <stdio.h>
#include <strings.h>

#include "domain/policy/egress_ceiling.h"

static const char *const verdicts[] = {
    [EGRESS_DENIED] = "denied",
    [EGRESS_ALLOWED] = "allowed",
    [EGRESS_AUDITED] = "audited",
    NULL,
};
static const char *const stages[] = {
    [EGRESS_STAGE_CONNECT] = "connect",
    [EGRESS_STAGE_ADDRESSES] = "addresses",
    [EGRESS_STAGE_REQUEST] = "request",
    NULL,
};

int egress_explain_read(const struct egress_question *q, struct egress_explain_input *ret,
                        struct err *e)
{
    struct str target = str_from(q->path ? q->path : "/");
    struct egress_http *http = &ret->action.http;
    struct host *host = &ret->host_;
    uint16_t port;
    int r = authority_parse(str_from(q->to), EGRESS_QUESTION_PORT, host, &port, e);

    if (r < 0)
        return r;
    ret->query = (struct egress_connect_query){ .host = str_from(host->name),
                                                .host_is_address = host->is_address,
                                                .address = host->address,
                                                .port = port,
                                                .identity_known = q->binary,
                                                .binary = str_from(q->binary) };
    if (host->is_address) {
        ret->addresses = &host->address;
        ret->n_addresses = 1;
    }
    if (!q->method && !q->path && !q->upgrade)
        return 0;
    http->method = str_from(q->method ? q->method : "GET");
    http->query = str_cut(target, '?', &http->path);
    if (target.n > 0 && target.p[0] == '?')
        http->path = STR("/");
    /* An offer of h2c is removed: engine/egress/relays/rewrite.h. */
    http->upgrades = q->upgrade && strcasecmp(q->upgrade, "h2c") != 0;
    ret->action.kind = EGRESS_ACTION_HTTP;
    return 0;
}

/* Notes inputs that the question does not give and the answer depends on. */
static void note_unknown(const struct egress_explain_input *trial, struct egress_explanation *x)
{
    struct address known;
    bool addresses = x->verdict != EGRESS_DENIED && !trial->n_addresses &&
                     !egress_match_addresses(&x->match, &known, 1);
    bool program = x->verdict == EGRESS_DENIED && x->match.needs_identity;
    bool request =
        x->verdict != EGRESS_DENIED && x->match.protocol != EGRESS_TCP && !trial->action.kind;

    snprintf(x->unknown, sizeof x->unknown, "%s%s%s",
             program ? "the answer depends on the program: give it; " : "",
             addresses ? "the addresses of the name are not looked up; " : "",
             request ? "each request is judged, and none was given; " : "");
    if (*x->unknown)
        x->unknown[strlen(x->unknown) - 2] = '\0';
}

static void explain_stages(const struct egress_snapshot *s,
                           const struct egress_explain_input *trial, struct egress_explanation *ret)
{
    struct address known[EGRESS_ADDRESSES_MAX];
    const struct address *list = trial->addresses;
    size_t n = trial->n_addresses;

    ret->verdict = egress_connect(s, &trial->query, &ret->match, &ret->why);
    if (ret->verdict == EGRESS_DENIED)
        return;
    if (!n) {
        n = egress_match_addresses(&ret->match, known, EGRESS_ADDRESSES_MAX);
        list = known;
    }
    if (n) {
        ret->stage = EGRESS_STAGE_ADDRESSES;
        ret->verdict = egress_addresses(&ret->match, list, n, &ret->why);
    }
    if (ret->verdict == EGRESS_DENIED || !trial->action.kind)
        return;
    ret->request_judged = ret->match.protocol != EGRESS_TCP;
    if (ret->request_judged)
        ret->stage = EGRESS_STAGE_REQUEST;
    ret->verdict = egress_judge(&ret->match, &trial->action, &ret->why);
}

void egress_explain(const struct egress_snapshot *s, const struct egress_explain_input *trial,
                    struct egress_explanation *ret)
{
    *ret = (struct egress_explanation){ .stage = EGRESS_STAGE_CONNECT,
                                        .ceiling = egress_snapshot_ceiling(s) };
    explain_stages(s, trial, ret);
    note_unknown(trial, ret);
}

/* The texts of an explanation; empty ones are left out. */
struct explained {
    struct str verdict, stage, code, reason, rule, policy, protocol, tls, next, unknown, ceiling,
        ceiling_from;
    uint64_t generation;
};

#define TEXT(member) JSON_KIND_SLICE, JSON_AT(struct explained, member), .optional = true

static const struct json_field fields[] = {
    { "verdict", TEXT(verdict), .required = true, .names = verdicts },
    { "stage", TEXT(stage), .required = true, .names = stages },
    { "code", TEXT(code) },
    { "reason", TEXT(reason) },
    { "rule", TEXT(rule) },
    { "policy", TEXT(policy) },
    { "protocol", TEXT(protocol) },
    { "tls", TEXT(tls) },
    { "next", TEXT(next) },
    { "unknown", TEXT(unknown) },
    { "ceiling", TEXT(ceiling) },
    { "ceiling_from", TEXT(ceiling_from) },
    { "generation", JSON_KIND_UINT, JSON_AT(struct explained, generation) },
};
const struct json_shape egress_explanation_answer = { "EgressExplanation", JSON_FIELDS(fields) };

void egress_explain_json(const struct egress_explanation *x, struct json_writer *w)
{
    const struct str none = { 0 };
    struct str tls = x->match.tls == EGRESS_TLS_SKIP ? STR("skip") : STR("auto");
    bool matched = x->match.policy.n > 0;
    const struct explained words = {
        .verdict = str_from(verdicts[x->verdict]),
        .stage = str_from(stages[x->stage]),
        .code = str_from(x->why.code),
        .reason = str_from(x->why.text),
        .rule = x->why.rule,
        .policy = x->match.policy,
        .protocol = matched ? str_from(egress_protocol_names[x->match.protocol]) : none,
        .tls = matched ? tls : none,
        .next = str_from(x->why.next),
        .unknown = str_from(x->unknown),
        .ceiling = x->ceiling ? str_from(egress_reach_names[x->ceiling->reach]) : none,
        .ceiling_from = x->ceiling ? str_from(x->ceiling->from) : none,
        .generation = x->match.generation,
    };

    json_put_shape(w, &egress_explanation_answer, &words);
}
