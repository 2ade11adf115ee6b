/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/audit and /v1/sandboxes/{id}/audit: verify the hash chains of events and egress logs. */
#include <stdio.h>

#include "edge/core/internal.h"
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

static void write_audit_head_members(struct json_writer *w, const struct audit_found *f)
{
    char hex[CRYPTO_SHA256_HEX];

    crypto_hex_sha256(f->head.digest, hex);
    json_field_uint(w, "seq", (uint64_t)f->head.seq);
    json_field_text(w, "digest", hex);
    json_field_uint(w, "chained_from", (uint64_t)f->chained_from);
}

static void write_audit_head(struct json_writer *w, const void *found)
{
    json_begin_object(w);
    write_audit_head_members(w, found);
    json_end_object(w);
}

static void write_audit_problem(struct json_writer *w, const struct audit_problem *p)
{
    json_begin_object(w);
    json_field_text(w, "chain", p->chain);
    json_field_text(w, "kind", p->kind);
    json_field_uint(w, "seq", (uint64_t)p->seq);
    time_write(w, "time", p->time_ns);
    json_field_text(w, "message", p->message);
    json_end_object(w);
}

static void write_audit_found(struct json_writer *w, const void *found)
{
    const struct audit_found *f = found;

    json_begin_object(w);
    json_field_bool(w, "intact", f->n_problems == 0);
    if (f->chained_from) {
        json_key(w, STR("head"));
        write_audit_head(w, f);
        json_field_uint(w, "events", f->events);
        json_field_bool(w, "expected", f->expected);
    } else {
        json_field_uint(w, "last_line", f->last_line);
    }
    json_field_uint(w, "sandboxes", f->sandboxes);
    json_field_uint(w, "lines", f->lines);
    json_field_uint(w, "unchained_lines", f->unchained_lines);
    json_field_uint(w, "problem_count", f->n_problems);
    json_field_begin_array(w, "problems");
    for (size_t i = 0; i < f->n_problems && i < AUDIT_PROBLEMS_MAX; i++)
        write_audit_problem(w, &f->problems[i]);
    json_end_array(w);
    json_end_object(w);
}

static void on_audit_checked(void *user, int r, const struct err *e,
                             const struct audit_found *found)
{
    struct audit_call *x = user;
    struct call *c = x->call;

    x->check = NULL;
    if (c->x && r < 0)
        call_fail(c, e);
    else if (c->x)
        call_answer(c, 200, x->head_only ? write_audit_head : write_audit_found, found);
    call_unref(c);
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
    if (audit_check_start(c->api->control, w, on_audit_checked, x, &x->check, &e) < 0) {
        call_fail(c, &e);
        return;
    }
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
    const char *id = c->sandbox ? sandbox_view(c->sandbox).record->id : c->find.record->id;

    start_audit_check(c, &(struct audit_wanted){ .box = id });
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
