/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/secrets: rotation of the key that seals secrets in the store, and its export for backups. */
#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "edge/core/operation.h"
#include "edge/rest/routes.h"
#include "base/own.h"
#include "lib/crypto/secret.h"
#include "lib/secrets/keyring.h"

struct rotation {
    struct rotate_op op;
    struct call *call;
};

static const struct json_field key_fields[] = {
    { "key", JSON_KIND_UINT, .size = sizeof(uint32_t), .required = true },
};
static const struct json_shape key_answer = { "Key", JSON_FIELDS(key_fields) };

static void on_key_rotated(struct rotate_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct rotation, op)->call;
    /* without a client the api may be closed already */
    uint32_t number = c->x && r >= 0 ? keyring_active(control_keys(c->api->control)) : 0;

    call_settle_as(c, r, e, 200, &key_answer, &number);
}

static void rest_rotate_key(struct call *c)
{
    struct rotation *x = call_state(c, sizeof *x, NULL);

    x->op.done = on_key_rotated;
    x->call = call_ref(c);
    control_rotate_key(c->api->control, &x->op);
}

static void rest_show_key(struct call *c)
{
    AUTO(buf_done) struct buf text = BUF_INIT(KEYRING_TEXT_MAX);
    const struct keyring *k = control_keys(c->api->control);

    if (!k || keyring_write(k, &text) < 0) {
        call_fail_with(c, 501, "unsupported", "this daemon has no key for secrets");
        return;
    }
    call_answer_bytes(c, 200, "text/plain", buf_str(&text));
    crypto_wipe(text.p, text.n);
}

const struct route routes_secrets[] = {
    { H1_GET, VERB_ADMIN, "/v1/secrets/key", ROUTE_ADMIN, rest_show_key,
      "The key file, for a backup that holds everything", .answer = "text/plain" },
    { H1_POST, VERB_ADMIN, "/v1/secrets/rotate-key", ROUTE_ADMIN, rest_rotate_key,
      "Makes a new key and seals every secret in the store with it", .answer = "Key" },
    { .path = NULL },
};

const struct json_shape *const answers_secrets[] = { &key_answer, NULL };
