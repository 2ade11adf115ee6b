/* /v1/audit and /v1/sandboxes/{id}/audit: is what is on record still what was written? */
#include <stdio.h>
#include <stdlib.h>

#include "api/inside.h"
#include "api/route.h"
#include "base/own.h"
#include "control/audit_check.h"
#include "crypto/encode.h"
#include "model/time.h"

struct checking {
    struct call *call;
    struct audit_check *check;
    bool head_only;
};

static void put_audit_number(struct json_writer *w, const char *key, uint64_t v)
{
    json_key(w, str_from(key));
    json_put_uint(w, v);
}

static void put_audit_text(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

static void put_audit_head(struct json_writer *w, const struct audit_found *f)
{
    char hex[CRYPTO_SHA256_HEX];

    crypto_hex_sha256(f->head.digest, hex);
    put_audit_number(w, "seq", (uint64_t)f->head.seq);
    put_audit_text(w, "digest", hex);
    put_audit_number(w, "chained_from", (uint64_t)f->chained_from);
}

static void write_audit_head(struct json_writer *w, const void *found)
{
    json_begin_object(w);
    put_audit_head(w, found);
    json_end_object(w);
}

static void write_audit_problem(struct json_writer *w, const struct audit_problem *p)
{
    json_begin_object(w);
    put_audit_text(w, "chain", p->chain);
    put_audit_text(w, "kind", p->kind);
    put_audit_number(w, "seq", (uint64_t)p->seq);
    time_write(w, "time", p->time_ns);
    put_audit_text(w, "message", p->message);
    json_end_object(w);
}

static void write_audit_found(struct json_writer *w, const void *found)
{
    const struct audit_found *f = found;

    json_begin_object(w);
    json_key(w, STR("intact"));
    json_put_bool(w, f->n_problems == 0);
    if (f->chained_from) {
        json_key(w, STR("head"));
        write_audit_head(w, f);
        put_audit_number(w, "events", f->events);
        json_key(w, STR("expected"));
        json_put_bool(w, f->expected);
    } else {
        put_audit_number(w, "last_line", f->last_line);
    }
    put_audit_number(w, "sandboxes", f->sandboxes);
    put_audit_number(w, "lines", f->lines);
    put_audit_number(w, "unchained_lines", f->unchained_lines);
    put_audit_number(w, "problem_count", f->n_problems);
    json_key(w, STR("problems"));
    json_begin_array(w);
    for (size_t i = 0; i < f->n_problems && i < AUDIT_PROBLEMS_MAX; i++)
        write_audit_problem(w, &f->problems[i]);
    json_end_array(w);
    json_end_object(w);
}

static void on_checked(void *user, int r, const struct err *e, const struct audit_found *found)
{
    struct checking *x = user;
    struct call *c = x->call;

    x->check = NULL;
    if (c->x && r < 0)
        call_fail(c, e);
    else if (c->x)
        call_answer(c, 200, x->head_only ? write_audit_head : write_audit_found, found);
    call_unref(c);
}

/* Nobody waits for it any more: it stops with the piece that is being read. */
static void on_check_gone(struct call *c)
{
    struct checking *x = c->state;

    if (!x->check)
        return;
    audit_check_stop(take_ptr(x->check));
    call_unref(c);
}

static void on_check_end(struct call *c)
{
    free(c->state);
}

static void start_check(struct call *c, struct audit_wanted *w)
{
    struct checking *x = calloc(1, sizeof *x);
    struct err e;

    if (!x)
        abort();
    w->caller = c->caller.owner;
    x->call = c;
    x->head_only = w->head_only;
    c->state = x;
    c->on_end = on_check_end;
    c->on_gone = on_check_gone;
    if (audit_check_start(c->api->control, w, on_checked, x, &x->check, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    call_ref(c);
}

static void show_head(struct call *c)
{
    start_check(c, &(struct audit_wanted){ .head_only = true });
}

/* SEQ:DIGEST, as the head shows them. */
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

static void verify_all(struct call *c)
{
    struct audit_wanted w = { 0 };
    struct str since, expect;
    struct err e = { 0 };
    int has_since = call_query(c, "since", &since);
    int has_expect = has_since < 0 ? -1 : call_query(c, "expect", &expect);

    if (has_expect < 0)
        return;
    if (has_since > 0 && !time_read(since, &w.since_ns))
        (void)err_set(&e, ERR_INVALID, "since '" STR_FMT "' is not a time as RFC 3339 writes it",
                      STR_ARG(since));
    else if (has_expect > 0 && !read_expected(expect, &w.expect))
        (void)err_set(&e, ERR_INVALID,
                      "expect '" STR_FMT "' is not SEQ:DIGEST, as GET /v1/audit/head shows them",
                      STR_ARG(expect));
    if (e.code)
        call_fail(c, &e);
    else
        start_check(c, &w);
}

static void verify_box(struct call *c)
{
    const char *id = c->sandbox ? sandbox_view(c->sandbox).record->id : c->find.record->id;

    start_check(c, &(struct audit_wanted){ .box = id });
}

const struct route routes_audit[] = {
    { H1_GET, VERB_ADMIN, "/v1/audit/head", ROUTE_ADMIN, show_head,
      "The last event of the daemon's chain, to be kept elsewhere", .answer = "AuditHead" },
    { H1_GET, VERB_ADMIN, "/v1/audit/verify", ROUTE_ADMIN, verify_all,
      "Whether events and egress logs are what was written", .answer = "AuditVerified",
      .query = "since expect" },
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/audit", ROUTE_SANDBOX | ROUTE_QUIET, verify_box,
      "Whether the egress log of a sandbox is what was written", .answer = "AuditVerified" },
    { .path = NULL },
};
