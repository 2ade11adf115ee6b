/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/wire.h"

#include <string.h>

#include "base/own.h"

/* The offset of the id in messages that have one. */
#define ID_AT sizeof(struct wire_head)

static const struct {
    size_t size;
    bool has_id;
} kinds[] = {
    [WIRE_ADD] = { sizeof(struct wire_add), true },
    [WIRE_POLICY] = { sizeof(struct wire_box), true },
    [WIRE_REMOVE] = { sizeof(struct wire_box), true },
    [WIRE_AUDIT] = { sizeof(struct wire_audit), true },
    [WIRE_WHO_IS] = { sizeof(struct wire_who_is), false },
    [WIRE_TEXTS] = { sizeof(struct wire_texts), true },
    [WIRE_PING] = { sizeof(struct wire_head), false },
    [WIRE_ADDED] = { sizeof(struct wire_box), true },
    [WIRE_APPLIED] = { sizeof(struct wire_box), true },
    [WIRE_FAILED] = { sizeof(struct wire_failed), true },
    [WIRE_REMOVED] = { sizeof(struct wire_box), true },
    [WIRE_WHO] = { sizeof(struct wire_who), true },
    [WIRE_USED] = { sizeof(struct wire_used), true },
    [WIRE_FULL] = { sizeof(struct wire_box), true },
    [WIRE_PONG] = { sizeof(struct wire_head), false },
};

void wire_fill(struct wire_head *h, enum wire_type type, uint32_t tag, size_t size)
{
    *h = (struct wire_head){ .magic = WIRE_MAGIC,
                             .version = WIRE_VERSION,
                             .type = (uint16_t)type,
                             .size = (uint32_t)size,
                             .tag = tag };
}

static int check_wire_head(const struct wire_head *h, size_t n, struct err *e)
{
    if (h->magic != WIRE_MAGIC)
        return err_set(e, ERR_INVALID, "not an egress message");
    if (h->version != WIRE_VERSION)
        return err_set(e, ERR_UNSUPPORTED,
                       "egress protocol version %u is not supported; expected %d", h->version,
                       WIRE_VERSION);
    if (h->type >= COUNT_OF(kinds) || kinds[h->type].size == 0)
        return err_set(e, ERR_INVALID, "egress message of unknown type %u", h->type);
    if (h->size != n || n != kinds[h->type].size)
        return err_set(e, ERR_INVALID, "egress message of type %u with a wrong size of %zu bytes",
                       h->type, n);
    return 0;
}

static bool is_wire_id(const char id[static ID_MAX])
{
    size_t n = strnlen(id, ID_MAX);

    return n > 0 && n < ID_MAX && strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

static bool is_terminated(const char *text, size_t cap)
{
    return memchr(text, 0, cap) != NULL;
}

static int check_wire_who_is(const struct wire_who_is *w, struct err *e)
{
    size_t n = strnlen(w->hash, sizeof w->hash);
    bool good = w->known <= 1 && w->n_ancestors <= WIRE_ANCESTORS_MAX &&
                is_terminated(w->binary, sizeof w->binary) &&
                (n == 0 || (n == 64 && strspn(w->hash, "0123456789abcdef") == n)) &&
                (!w->known || w->binary[0] == '/');

    for (size_t i = 0; good && i < w->n_ancestors; i++)
        good = is_terminated(w->ancestors[i], sizeof w->ancestors[i]) && w->ancestors[i][0] == '/';
    return good ? 0 : err_set(e, ERR_INVALID, "invalid process identity");
}

static int check_wire_text(const char *text, size_t cap, struct err *e)
{
    return is_terminated(text, cap) ? 0 : err_set(e, ERR_INVALID, "text without a terminating NUL");
}

static int check_lack(uint32_t lack, struct err *e)
{
    return lack < WIRE_LACKS_ ? 0 : err_set(e, ERR_INVALID, "unknown audit quota %u", lack);
}

static int check_wire_texts(const struct wire_texts *m, struct err *e)
{
    if (m->identify > 1)
        return err_set(e, ERR_INVALID, "identify must be 0 or 1");
    return check_wire_text(m->name, sizeof m->name, e);
}

int wire_check(const void *message, size_t n, struct err *e)
{
    const struct wire_head *h = message;
    const struct wire_add *add = message;
    int r;

    if (n < sizeof *h)
        return err_set(e, ERR_INVALID, "egress message of %zu bytes is too short", n);
    r = check_wire_head(h, n, e);
    if (r < 0)
        return r;
    if (kinds[h->type].has_id && !is_wire_id((const char *)message + ID_AT))
        return err_set(e, ERR_INVALID, "egress message with an invalid sandbox id");
    if (h->type == WIRE_FAILED)
        return check_wire_text(((const struct wire_failed *)message)->msg,
                               sizeof((struct wire_failed *)0)->msg, e);
    if (h->type == WIRE_TEXTS)
        return check_wire_texts(message, e);
    if (h->type == WIRE_ADD && add->has_chain_key > 1)
        return err_set(e, ERR_INVALID, "has_chain_key must be 0 or 1");
    if (h->type == WIRE_ADD)
        return check_lack(add->audit_lack, e);
    if (h->type == WIRE_AUDIT)
        return check_lack(((const struct wire_audit *)message)->lack, e);
    return h->type == WIRE_WHO_IS ? check_wire_who_is(message, e) : 0;
}
