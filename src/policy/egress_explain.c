#include "policy/egress_explain.h"

#include "policy/egress_ceiling.h"

static const char *const verdicts[] = {
    [EGRESS_DENIED] = "denied",
    [EGRESS_ALLOWED] = "allowed",
    [EGRESS_AUDITED] = "audited",
};
static const char *const stages[] = {
    [EGRESS_STAGE_CONNECT] = "connect",
    [EGRESS_STAGE_ADDRESSES] = "addresses",
    [EGRESS_STAGE_REQUEST] = "request",
};
static const char *const protocols[] = {
    [EGRESS_TCP] = "tcp",
    [EGRESS_REST] = "rest",
};

void egress_explain(const struct egress_snapshot *s, const struct egress_trial *trial,
                    struct egress_explanation *ret)
{
    *ret = (struct egress_explanation){ .stage = EGRESS_STAGE_CONNECT,
                                        .ceiling = egress_snapshot_ceiling(s) };
    ret->verdict = egress_connect(s, &trial->ask, &ret->match, &ret->why);
    if (ret->verdict == EGRESS_DENIED)
        return;
    if (trial->n_addresses) {
        ret->stage = EGRESS_STAGE_ADDRESSES;
        ret->verdict =
            egress_addresses(&ret->match, trial->addresses, trial->n_addresses, &ret->why);
    }
    if (ret->verdict == EGRESS_DENIED || !trial->method.n || ret->match.protocol == EGRESS_TCP)
        return;
    ret->stage = EGRESS_STAGE_REQUEST;
    ret->request_judged = true;
    ret->verdict = egress_request(&ret->match, trial->method, trial->path, trial->query, &ret->why);
}

/* The lines of the text and the members of the object, which are the same. */
struct row {
    const char *name;
    struct str value;
};

enum { ROWS = 11 };

static size_t make_rows(const struct egress_explanation *x, struct row rows[ROWS])
{
    const struct str none = { 0 };
    struct str tls = x->match.tls == EGRESS_TLS_SKIP ? STR("skip") : STR("auto");
    bool matched = x->match.policy.n > 0;
    const struct row all[ROWS] = {
        { "verdict", str_from(verdicts[x->verdict]) },
        { "stage", str_from(stages[x->stage]) },
        { "code", str_from(x->why.code) },
        { "reason", str_from(x->why.text) },
        { "rule", x->why.rule },
        { "policy", x->match.policy },
        { "protocol", matched ? str_from(protocols[x->match.protocol]) : none },
        { "tls", matched ? tls : none },
        { "next", str_from(x->why.next) },
        { "ceiling", x->ceiling ? str_from(egress_reach_names[x->ceiling->reach]) : none },
        { "ceiling_from", x->ceiling ? str_from(x->ceiling->from) : none },
    };
    size_t n = 0;

    for (size_t i = 0; i < ROWS; i++)
        if (all[i].value.n)
            rows[n++] = all[i];
    return n;
}

int egress_explain_text(const struct egress_explanation *x, struct buf *out)
{
    struct row rows[ROWS];
    size_t n = make_rows(x, rows);
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++)
        r = buf_addf(out, "%s: " STR_FMT "\n", rows[i].name, STR_ARG(rows[i].value));
    return r;
}

void egress_explain_json(const struct egress_explanation *x, struct json_writer *w)
{
    struct row rows[ROWS];
    size_t n = make_rows(x, rows);

    json_begin_object(w);
    for (size_t i = 0; i < n; i++) {
        json_key(w, str_from(rows[i].name));
        json_put_lossy(w, rows[i].value);
    }
    json_key(w, STR("generation"));
    json_put_uint(w, x->match.generation);
    json_end_object(w);
}
