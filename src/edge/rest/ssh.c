/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/sandboxes/{id}/ssh: the host key of a sandbox, and connections to an SSH server that is
 * started inside for each connection.
 *
 * With `Upgrade: sandboxer-ssh` the request becomes the connection. On the unix socket the client
 * gets the descriptors (stdin, stdout and stderr of the server); on TCP the daemon copies, and
 * stderr is dropped. */
#include <stdio.h>

#include "edge/core/answers.h"
#include "edge/core/exec.h"
#include "base/own.h"
#include "edge/rest/routes.h"
#include "edge/core/ssh_supply.h"
#include "lib/crypto/hash.h"
#include "lib/crypto/secret.h"
#include "lib/ssh/server.h"

_Static_assert((int)SSH_KEYS_FD == (int)START_LENT_AT &&
                   (int)SSH_SERVER_FILES_MAX <= (int)START_LENT_MAX,
               "what is lent is where the server looks for it");

#define PROTOCOL "sandboxer-ssh"

static const struct h1_field ssh_upgrade[] = { { { "Upgrade", 7 },
                                                 { PROTOCOL, sizeof PROTOCOL - 1 } } };

/* --- the host key: derived from the sandbox's id, never stored --- */

static void derive_host_key(const struct call *c, unsigned char ret[static CRYPTO_SIGN_KEY_SIZE])
{
    const struct api *a = c->api;
    char what[ID_MAX + 16];

    _Static_assert((int)CRYPTO_SIGN_KEY_SIZE == (int)CRYPTO_SHA256_SIZE, "a code is a key");
    snprintf(what, sizeof what, "ssh:%s", sandbox_view(c->sandbox).record->id);
    crypto_hmac_sha256((struct str){ (const char *)a->token_key, sizeof a->token_key },
                       str_from(what), ret);
}

struct ssh_answer {
    const char *sandbox_id;
    struct str host_key;
};

static const struct json_field ssh_answer_fields[] = {
    { "sandbox_id", JSON_KIND_TEXT, JSON_AT(struct ssh_answer, sandbox_id), .required = true },
    { "host_key", JSON_KIND_SLICE, JSON_AT(struct ssh_answer, host_key), .required = true },
};
static const struct json_shape ssh_answer = { "Ssh", JSON_FIELDS(ssh_answer_fields) };

static void rest_get_host_key(struct call *c)
{
    struct buf text AUTO(buf_done) = BUF_INIT(256);
    unsigned char key[CRYPTO_SIGN_KEY_SIZE];
    struct ssh_answer a;

    derive_host_key(c, key);
    (void)ssh_public_key_write(key, &text); /* fits */
    crypto_wipe(key, sizeof key);
    a = (struct ssh_answer){ sandbox_view(c->sandbox).record->id, buf_str(&text) };
    call_answer_as(c, 200, &ssh_answer, &a);
}

/* --- encoders of the connection --- */

static void on_ssh_ended(struct exec *x, const struct backend_end *end)
{
    http_end(call_take_exchange(x->call));
}

static void ignore_ssh_data(struct http_exchange *h, struct str data)
{
}

/* Passes the descriptors to the client. When the exchange ends, so does the server. */
static bool on_ssh_started_pass(struct exec *x)
{
    int *stdio = x->op.process.stdio;
    struct err e;
    bool good = http_upgrade(x->call->x, ssh_upgrade, 1, ignore_ssh_data, &e) >= 0 &&
                http_write_fds(x->call->x, STR("\n"), stdio, BACKEND_STDIO_MAX, &e) >= 0;

    for (int i = 0; i < BACKEND_STDIO_MAX; i++)
        drop_fd(&stdio[i]);
    if (!good)
        http_fail(call_take_exchange(x->call), 500, str_from(e.msg));
    return good;
}

static const struct exec_encoder encoder_ssh_pass = {
    .started = on_ssh_started_pass,
    .output = NULL,
    .ended = on_ssh_ended,
    .failed = exec_fail_plain,
};

static void on_ssh_input_room(struct exec *x)
{
    if (x->call->x)
        http_body_resume(x->call->x);
}

static void on_ssh_client_data(struct http_exchange *h, struct str data)
{
    struct call *c = http_state(h);

    if (!exec_input(c->state, data))
        http_body_pause(h);
}

static void on_ssh_drain(struct http_exchange *h)
{
    struct call *c = http_state(h);

    exec_resume(c->state);
}

static bool on_ssh_started_copy(struct exec *x)
{
    struct err e;

    if (http_upgrade(x->call->x, ssh_upgrade, 1, on_ssh_client_data, &e) < 0) {
        http_fail(call_take_exchange(x->call), 500, str_from(e.msg));
        return false;
    }
    x->on_input_room = on_ssh_input_room;
    http_on_drain(x->call->x, on_ssh_drain);
    return true;
}

static bool on_ssh_output(struct exec *x, int channel, struct str data)
{
    int r = channel == 1 ? http_write(x->call->x, data, NULL) : 0;

    if (r < 0)
        http_cut(call_take_exchange(x->call));
    return r == 0;
}

static const struct exec_encoder encoder_ssh_copy = {
    .started = on_ssh_started_copy,
    .output = on_ssh_output,
    .ended = on_ssh_ended,
    .failed = exec_fail_plain,
};

/* --- the request --- */

struct ssh_request {
    const char *public_key, *user, *command;
    bool agent;
};

static const struct json_field fields[] = {
    { "public_key", JSON_KIND_STR, JSON_AT(struct ssh_request, public_key), .required = true,
      .max = SSH_KEY_LINE_MAX, .doc = "The client's public key, as a line of OpenSSH." },
    { "user", JSON_KIND_STR, JSON_AT(struct ssh_request, user), .min = 1, .max = 64,
      .doc = "User inside: UID, UID:GID or name." },
    { "agent", JSON_KIND_BOOL, JSON_AT(struct ssh_request, agent),
      .doc = "The client's agent may be forwarded." },
    { "command", JSON_KIND_STR, JSON_AT(struct ssh_request, command), .min = 1,
      .max = COMMAND_REQUESTED_MAX,
      .doc = "The command that the client will give the server. It is recorded as `requested`, and "
             "cannot be checked: the connection is encrypted from the client to the sandbox." },
};

/* State between the request and the start of its server. */
struct ssh_call {
    struct call *call; /* referenced */
    struct ssh_order order;
    struct ssh_request request;
    struct buf key;
};

static void start_ssh_server(struct ssh_call *s, const struct ssh_kit *kit)
{
    struct call *c = s->call;
    unsigned char key[CRYPTO_SIGN_KEY_SIZE];
    const struct ssh_server server = {
        .kit = kit, .host_key = key, .client_key = buf_str(&s->key), .agent = s->request.agent
    };
    struct process_request q = { .user = s->request.user, .stdin_ = true };
    struct ssh_start what;
    struct err e;
    int r;

    derive_host_key(c, key);
    r = ssh_server_fill(&server, &c->arena, &what, &e);
    crypto_wipe(key, sizeof key);
    if (r < 0) {
        call_fail(c, &e);
        return;
    }
    while (what.argv[q.argv.n])
        q.argv.n++;
    q.argv.p = what.argv;
    exec_start_lent(c, &q, what.files, what.n, s->request.command,
                    http_peer(c->x)->is_unix ? &encoder_ssh_pass : &encoder_ssh_copy);
    drop_fd(&what.keys);
}

static void on_ssh_kit_supplied(struct ssh_order *o, int r, const struct err *e,
                                const struct ssh_kit *kit)
{
    struct ssh_call *s = container_of(o, struct ssh_call, order);

    if (r < 0)
        call_fail(s->call, e);
    else if (s->call->x)
        start_ssh_server(s, kit);
    call_unref(s->call);
}

static void rest_connect_ssh(struct call *c)
{
    const struct h1_head *h = &http_request(c->x)->head;
    struct ssh_call *s = call_state(c, sizeof *s, NULL);
    struct err e;

    *s = (struct ssh_call){ .call = c, .order.done = on_ssh_kit_supplied };
    call_own_buf(c, &s->key, SSH_KEY_LINE_MAX);
    if (!call_read(c, &s->request))
        return;
    if (err_wrap(&e, ssh_public_key_read(str_from(s->request.public_key), &s->key, &e),
                 "public_key") < 0) {
        call_fail(c, &e);
    } else if (!h->upgrade || !str_eq(h->proto, STR(PROTOCOL))) {
        call_fail_with(c, 400, "invalid", "this needs 'Upgrade: " PROTOCOL "'");
    } else {
        call_ref(c);
        ssh_supply_order(c->api, &s->order);
    }
}

const struct route routes_ssh[] = {
    { H1_GET, VERB_EXEC, "/v1/sandboxes/{id}/ssh", ROUTE_SANDBOX | ROUTE_LIVE, rest_get_host_key,
      "The SSH host key of a sandbox", .answer = "Ssh" },
    { H1_POST, VERB_EXEC, "/v1/sandboxes/{id}/ssh",
      ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE | ROUTE_LONG, rest_connect_ssh,
      "Connect to an SSH server that is started inside", ROUTE_FIELDS(fields), .status = 101 },
    { .path = NULL },
};

const struct json_shape *const answers_ssh[] = { &ssh_answer, NULL };
