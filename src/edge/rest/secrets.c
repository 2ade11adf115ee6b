/* The key that secrets in the store are sealed with: its rotation, and a copy for a backup. */
#include <stdlib.h>

#include "api/inside.h"
#include "api/route.h"
#include "base/own.h"
#include "crypto/secret.h"
#include "secrets/keyring.h"

struct rotation {
    struct rotate_op op;
    struct call *call;
};

static void write_number(struct json_writer *w, const void *number)
{
    json_begin_object(w);
    json_key(w, STR("key"));
    json_put_uint(w, *(const uint32_t *)number);
    json_end_object(w);
}

static void on_rotated(struct rotate_op *op, int r, const struct err *e)
{
    struct rotation *x = container_of(op, struct rotation, op);
    struct call *c = x->call;
    uint32_t number;

    if (c->x && r < 0) {
        call_fail(c, e);
    } else if (c->x) {
        number = keyring_active(control_keys(c->api->control));
        call_answer(c, 200, write_number, &number);
    }
    call_unref(c);
    free(x);
}

static void rotate_key(struct call *c)
{
    struct rotation *x = calloc(1, sizeof *x);

    if (!x)
        abort();
    x->op.done = on_rotated;
    x->call = c;
    call_ref(c);
    control_rotate_key(c->api->control, &x->op);
}

static void show_key(struct call *c)
{
    AUTO(buf_done) struct buf text = BUF_INIT(KEYRING_TEXT_MAX);
    const struct keyring *k = control_keys(c->api->control);
    struct err e;

    if (!k || keyring_write(k, &text) < 0) {
        (void)err_set(&e, ERR_UNSUPPORTED, "this daemon has no key");
        call_fail(c, &e);
        return;
    }
    call_answer_bytes(c, 200, "text/plain", buf_str(&text));
    crypto_wipe(text.p, text.n);
}

const struct route routes_secrets[] = {
    { H1_GET, VERB_ADMIN, "/v1/secrets/key", ROUTE_ADMIN, show_key,
      "The key file, for a backup that holds everything", .answer = "text/plain" },
    { H1_POST, VERB_ADMIN, "/v1/secrets/rotate-key", ROUTE_ADMIN, rotate_key,
      "Makes a new key and seals every secret in the store with it", .answer = "Key" },
    { .path = NULL },
};
