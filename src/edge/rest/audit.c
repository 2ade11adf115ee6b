/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/audit and /v1/sandboxes/{id}/audit: verify the hash chains of events and egress logs. */

#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "edge/core/operation.h"
#include "edge/rest/routes.h"
#include "base/own.h"
#include "base/rfc3339.h"
#include "control/event/audit_check.h"
#include "lib/crypto/encode.h"

struct audit_call {
    struct call *call;
    struct audit_check *check;
    bool head_only;
};

static void write_head_digest(struct json_writer *w, const char *name, const void *found)
{
    const struct audit_found *f = found;
    char hex[CRYPTO_SHA256_HEX];

    crypto_hex_sha256(f->head.digest, hex);
    json_field_text(w, name, hex);
}

static const struct json_field head_fields[] = {
    { "seq", JSON_KIND_INT, JSON_AT(struct audit_found, head.seq), .required = true },
    { "digest", JSON_KIND_TEXT, .required = true, .write = write_head_digest },
    { "chained_from", JSON_KIND_INT, JSON_AT(struct audit_found, chained_from), .required = true },
};
static const struct json_shape head_answer = { "AuditHead", JSON_FIELDS(head_fields) };

static const struct json_field problem_fields[] = {
    { "chain", JSON_KIND_CHARS, JSON_AT(struct audit_problem, chain), .required = true },
    { "kind", JSON_KIND_TEXT, JSON_AT(struct audit_problem, kind), .required = true },
    { "seq", JSON_KIND_INT, JSON_AT(struct audit_problem, seq), .required = true },
    { "time", JSON_KIND_TIME, JSON_AT(struct audit_problem, time_ns) },
    { "message", JSON_KIND_CHARS, JSON_AT(struct audit_problem, message), .required = true },
};
static const struct json_shape audit_problem_answer = { "AuditProblem",
                                                        JSON_FIELDS(problem_fields) };

struct audit_answer {
    bool intact;
    bool whole, single; /* all chains were checked, or the one of a sandbox */
    const struct audit_found *found;
};

static void write_problems(struct json_writer *w, const void *answer)
{
    const struct audit_found *f = ((const struct audit_answer *)answer)->found;

    for (size_t i = 0; i < f->n_problems && i < AUDIT_PROBLEMS_MAX; i++)
        json_put_shape(w, &audit_problem_answer, &f->problems[i]);
}

#define HAS(member) .seen = offsetof(struct audit_answer, member)
#define FOUND(member)                                                                              \
    .via = offsetof(struct audit_answer, found), JSON_AT(struct audit_found, member)

static const struct json_field found_fields[] = {
    { "intact", JSON_KIND_BOOL, JSON_AT(struct audit_answer, intact), .required = true },
    { "head", JSON_KIND_OBJECT, .via = offsetof(struct audit_answer, found), HAS(whole),
      .schema = "AuditHead", JSON_FIELDS(head_fields) },
    { "events", JSON_KIND_UINT, FOUND(events), HAS(whole) },
    { "expected", JSON_KIND_BOOL, FOUND(expected), HAS(whole) },
    { "last_line", JSON_KIND_UINT, FOUND(last_line), HAS(single) },
    { "sandboxes", JSON_KIND_UINT, FOUND(sandboxes), .required = true },
    { "lines", JSON_KIND_UINT, FOUND(lines), .required = true },
    { "unchained_lines", JSON_KIND_UINT, FOUND(unchained_lines), .required = true },
    { "problem_count", JSON_KIND_UINT, FOUND(n_problems), .required = true },
    { "problems", JSON_KIND_OBJECTS, .required = true, .schema = "AuditProblem",
      .items = write_problems },
};
static const struct json_shape found_answer = { "AuditVerified", JSON_FIELDS(found_fields) };

static void on_audit_checked(void *user, int r, const struct err *e, const struct audit_found *f)
{
    struct audit_call *x = user;
    struct audit_answer a = { .found = f };

    x->check = NULL;
    if (r >= 0 && !x->head_only)
        a = (struct audit_answer){ .intact = f->n_problems == 0,
                                   .whole = f->chained_from,
                                   .single = !f->chained_from,
                                   .found = f };
    if (x->head_only)
        call_settle_as(x->call, r, e, 200, &head_answer, f);
    else
        call_settle_as(x->call, r, e, 200, &found_answer, &a);
}

/* The client disconnected: the check stops after the piece that is being read. */
static void on_audit_client_gone(struct call *c)
{
    struct audit_call *x = c->state;

    if (!x->check)
        return;
    audit_check_stop(take_ptr(x->check));
    call_unref(c);
}

static void start_audit_check(struct call *c, struct audit_wanted *w)
{
    struct audit_call *x = call_state(c, sizeof *x, NULL);
    struct err e;

    w->caller = c->caller.owner;
    x->call = c;
    x->head_only = w->head_only;
    c->on_gone = on_audit_client_gone;
    if (audit_check_start(c->api->control, w, on_audit_checked, x, &x->check, &e) < 0)
        call_fail(c, &e);
    else
        call_ref(c);
}

static void rest_show_audit_head(struct call *c)
{
    start_audit_check(c, &(struct audit_wanted){ .head_only = true });
}

/* Parses SEQ:DIGEST, as /v1/audit/head returns them. */
static bool read_expected(struct str text, struct ledger_head *ret)
{
    AUTO(buf_done) struct buf bytes = BUF_INIT(LEDGER_SIZE);
    struct str digits, digest = str_cut(text, ':', &digits);
    uint64_t seq;

    if (!digest.p || !str_to_u64(digits, &seq) || seq == 0 || seq > INT64_MAX ||
        crypto_unhex(digest, &bytes, NULL) < 0 || bytes.n != LEDGER_SIZE)
        return false;
    ret->seq = (int64_t)seq;
    memcpy(ret->digest, bytes.p, LEDGER_SIZE);
    return true;
}

static void rest_verify_audit(struct call *c)
{
    struct audit_wanted w = { 0 };
    struct str since, expect;
    struct err e = { 0 };
    int has_since = call_query(c, "since", &since);
    int has_expect = has_since < 0 ? -1 : call_query(c, "expect", &expect);

    if (has_expect < 0)
        return;
    if (has_since > 0 && !rfc3339_parse(since, &w.since_ns))
        (void)err_set(&e, ERR_INVALID, "since '" STR_FMT "' is not a time as RFC 3339 writes it",
                      STR_ARG(since));
    else if (has_expect > 0 && !read_expected(expect, &w.expect))
        (void)err_set(&e, ERR_INVALID,
                      "expect '" STR_FMT "' is not SEQ:DIGEST, as GET /v1/audit/head shows them",
                      STR_ARG(expect));
    if (e.code)
        call_fail(c, &e);
    else
        start_audit_check(c, &w);
}

static void rest_verify_sandbox_audit(struct call *c)
{
    start_audit_check(c, &(struct audit_wanted){ .box = call_sandbox_id(c) });
}

const struct route routes_audit[] = {
    { H1_GET, VERB_ADMIN, "/v1/audit/head", ROUTE_ADMIN, rest_show_audit_head,
      "The head of the event hash chain, to be stored elsewhere", .answer = "AuditHead" },
    { H1_GET, VERB_ADMIN, "/v1/audit/verify", ROUTE_ADMIN, rest_verify_audit,
      "Verify the hash chains of events and egress logs", .answer = "AuditVerified",
      .query = "since expect" },
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/audit", ROUTE_SANDBOX | ROUTE_QUIET,
      rest_verify_sandbox_audit, "Verify the egress log of a sandbox", .answer = "AuditVerified" },
    { .path = NULL },
};

const struct json_shape *const answers_audit[] = { &head_answer, &audit_problem_answer,
                                                   &found_answer, NULL };
