/* SPDX-License-Identifier: Apache-2.0 */
#include "control/host/hosts.h"

#include "base/own.h"
#include "control/plane/plane.h"
#include "domain/model/event.h"

bool hosts_configured(const struct control *c, const char *name)
{
    const struct config_host *h = c->config->hosts.p;

    if (strcmp(name, CONFIG_HOST_LOCAL) == 0)
        return true;
    for (size_t i = 0; i < c->config->hosts.n; i++)
        if (strcmp(name, h[i].name) == 0)
            return true;
    return false;
}

static void finish_host_op(struct host_op *op, int r, const struct err *e)
{
    arena_done(&op->query_.arena);
    op->done(op, r, e);
}

static void on_host_committed(struct store_txn *t, int r, const struct err *e)
{
    struct host_op *op = container_of(t, struct host_op, txn_);

    if (r >= 0)
        control_publish_first(op->control_, t, &op->event_);
    finish_host_op(op, r, e);
}

static int check_host_op(const struct host_op *op, struct err *e)
{
    const char *name = op->record.name;
    bool there = false;

    for (size_t i = 0; i < op->query_.n; i++)
        there |= strcmp(op->query_.hosts[i].name, name) == 0;
    if (hosts_configured(op->control_, name))
        return err_set(e, ERR_CONFLICT,
                       "host %s is in the configuration and can only be changed there", name);
    if (op->add_ && there)
        return err_set(e, ERR_CONFLICT, "host %s already exists; remove it first", name);
    if (op->add_ && op->query_.n >= CONFIG_HOSTS_MAX)
        return err_set(e, ERR_TOO_BIG, "there are already %d hosts, the maximum; remove one",
                       CONFIG_HOSTS_MAX);
    return op->add_ || there ? 0 : err_set(e, ERR_NOT_FOUND, "there is no host %s", name);
}

static void on_hosts_loaded(struct store_query *q, int r, const struct err *e)
{
    struct host_op *op = container_of(q, struct host_op, query_);
    struct err refused;

    if (r < 0) {
        finish_host_op(op, r, e);
        return;
    }
    r = check_host_op(op, &refused);
    if (r < 0) {
        finish_host_op(op, r, &refused);
        return;
    }
    store_txn_begin(&op->txn_, op->control_->store);
    if (op->add_)
        store_put_host(&op->txn_, &op->record);
    else
        store_remove_host(&op->txn_, op->record.name);
    store_add_event(&op->txn_, &op->event_);
    store_commit(&op->txn_, on_host_committed);
}

static void on_hosts_busy(struct loop_later *l)
{
    struct host_op *op = container_of(l, struct host_op, later_);

    finish_host_op(op, -(int)op->err_.code, &op->err_);
}

static void start_host_op(struct control *c, const struct caller *who, struct host_op *op, bool add)
{
    op->control_ = c;
    op->add_ = add;
    event_fill(&op->event_, &who->actor, who->owner, add ? "host.added" : "host.removed",
               op->record.name);
    op->record.added_ns = op->event_.time_ns;
    op->query_ = (struct store_query){ .kind = STORE_HOSTS };
    arena_init(&op->query_.arena, CONTROL_ARENA_MAX);
    if (store_ask(c->store, &op->query_, on_hosts_loaded, &op->err_) < 0)
        loop_later(c->loop, &op->later_, on_hosts_busy, NULL);
}

void hosts_add(struct control *c, const struct caller *who, struct host_op *op)
{
    start_host_op(c, who, op, true);
}

void hosts_remove(struct control *c, const struct caller *who, struct host_op *op)
{
    start_host_op(c, who, op, false);
}
