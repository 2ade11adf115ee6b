/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/clock.h"
#include "control/owner/event_share.h"
#include "control/owner/owner_share.h"
#include "lib/json/writer.h"
#include "trust/held.h"

void question_sandbox(const struct trust_question *q, char ret[static ID_MAX])
{
    const struct json *v = q->args ? json_get(q->args, STR("sandbox_id")) : NULL;

    ret[0] = 0;
    if (v && v->type == JSON_STR)
        (void)str_copy(v->s, ret, ID_MAX); /* longer strings are not ids */
}

static int write_held_args(const struct json *args, struct buf *out, struct err *e)
{
    struct json_writer w;
    int r;

    json_writer_init(&w, out, JSON_COMPACT);
    if (args)
        json_put_tree(&w, args);
    else
        json_put_written(&w, STR("{}"));
    r = json_writer_finish(&w, e);
    return err_wrap(e, r, "the call cannot be held for a master");
}

/* Checks the bytes of calls held within a day, including decided ones, which are kept. */
static int check_held_rate(const struct trust *t, const struct quota_who *who, struct err *e)
{
    if (rate_wait(&t->held_rate, who->key, clock_mono()))
        return err_set(e, ERR_QUOTA,
                       STR_FMT
                       " has had %d MiB of calls wait for a master within a day, as many as "
                       "one owner may: send less, or retry later",
                       STR_ARG(who->key), APPROVALS_DAY_BYTES >> 20);
    if (who->parts[0].n && rate_wait(&t->family_held_rate, who->parts[0], clock_mono()))
        return err_set(
            e, ERR_QUOTA,
            "calls of this token's family that wait for a master had a token's part "
            "within a day (seven eighths of the %d MiB of one owner): send less, or retry later",
            APPROVALS_DAY_BYTES >> 20);
    return 0;
}

/* Checks the limits of the owner and of the token family, over all tokens and sessions. */
static int check_owner_room(const struct trust *t, const struct peer_record *p, size_t args,
                            struct err *e)
{
    const struct account a = peer_account(t, p);
    const struct quota_who who = { .key = str_from(a.name), .parts = { a.part } };
    int r = 0;

    if (quota_part_refuses(&t->held_owned, &who, 1) ||
        quota_part_refuses(&t->held_owned_bytes, &who, args))
        return err_set(e, ERR_QUOTA,
                       "as many calls of this token's family wait for a master as it may have "
                       "(seven eighths of its owner's): retry when some are decided");
    if (quota_room(&t->held_owned, &who) < 1 || quota_room(&t->held_owned_bytes, &who) < args)
        return err_set(e, ERR_QUOTA,
                       "as many calls of %s wait for a master as one owner may have: retry when "
                       "some are decided",
                       a.name);
    if (!a.exempt)
        r = check_held_rate(t, &who, e);
    return r < 0 ? r : event_share_check(t->control, p->owner, &p->actor, e);
}

static int check_held_room(const struct trust *t, const struct trust_question *q, size_t args,
                           struct err *e)
{
    uint64_t most = t->policy.bundle->approvals.pending_per_peer;
    const struct peer *p = q->peer;

    if (q->not_held)
        return err_set(e, ERR_TOO_BIG, "this call needs a master's approval and cannot be held: %s",
                       q->not_held);
    if (p->identity_->held_bytes + args > APPROVALS_OWN_BYTES ||
        t->held_bytes + args > APPROVALS_BYTES)
        return err_set(e, ERR_QUOTA,
                       "this call needs a master's approval, and as many bytes of calls as may "
                       "already wait for a master (%d MiB of a caller, %d MiB of all): retry when "
                       "some are decided",
                       APPROVALS_OWN_BYTES >> 20, APPROVALS_BYTES >> 20);
    if (q->request.n > APPROVAL_REQUEST_MAX)
        return err_set(
            e, ERR_TOO_BIG,
            "this call needs a master's approval, and its request line has more than the %d "
            "bytes that can be held",
            APPROVAL_REQUEST_MAX);
    if (p->pending_ >= most)
        return err_set(e, ERR_QUOTA, "%llu of your calls already wait for a master",
                       (unsigned long long)most);
    if (t->held_owned.used >= APPROVALS_MAX) /* includes those being stored */
        return err_set(e, ERR_BUSY, "%d calls already wait for a master: retry later",
                       APPROVALS_MAX);
    return check_owner_room(t, &p->record, args, e);
}

static void fill_approval_record(const struct trust_op *op, const struct trust_decision *d,
                                 struct str args, struct approval_record *r)
{
    const struct peer_record *p = &op->ask.peer->record;

    snprintf(r->peer, sizeof r->peer, "%s", p->id);
    snprintf(r->owner, sizeof r->owner, "%s", p->owner);
    r->labels = p->labels;
    r->uid = p->uid;
    snprintf(r->tool, sizeof r->tool, "%s", d->rule->tool);
    question_sandbox(&op->ask, r->sandbox);
    snprintf(r->version, sizeof r->version, "%s", d->verdict.version);
    snprintf(r->rule, sizeof r->rule, "%s", d->verdict.rule);
    snprintf(r->reason, sizeof r->reason, "%s", d->verdict.reason);
    r->tier = d->verdict.tier;
    r->state = APPROVAL_PENDING;
    r->created_ns = clock_wall();
    r->expires_ns = r->created_ns + op->trust_->policy.bundle->approvals.expiry_ns;
    r->args = args;
    r->request = op->ask.request;
}

int trust_hold_call(struct trust_op *op, const struct trust_decision *d, struct held_call **ret,
                    struct err *e)
{
    struct buf args AUTO(buf_done) = BUF_INIT(APPROVAL_ARGS_MAX);
    struct approval_record r = { .result = STR(""), .request = STR("") };
    struct peer *p = op->ask.peer;
    struct account a;
    int err = write_held_args(op->ask.held ? op->ask.held : op->ask.args, &args, e);

    if (err >= 0)
        err = check_held_room(op->trust_, &op->ask, args.n, e);
    if (err >= 0)
        err = id_make("req_", r.id, e);
    if (err < 0)
        return err;
    fill_approval_record(op, d, buf_str(&args), &r);
    a = peer_account(op->trust_, &p->record);
    *ret = held_new(op->trust_, &r, &a);
    held_count(*ret, p->identity_);
    rate_use(&op->trust_->held_rate, str_from(a.name), args.n, clock_mono());
    if (a.part.n)
        rate_use(&op->trust_->family_held_rate, a.part, args.n, clock_mono());
    snprintf((*ret)->actor, sizeof(*ret)->actor, "%s", p->record.actor.id);
    op->write_ = held_write(*ret, &r, &p->record.actor);
    store_add_approval(&op->write_->txn, &r);
    p->pending_++;
    return 0;
}
