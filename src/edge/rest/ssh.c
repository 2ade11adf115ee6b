/* /v1/sandboxes/{id}/ssh: the host key of a sandbox, and connections to a server of the SSH
 * protocol that is started in it for each of them.
 *
 * With `Upgrade: sandboxer-ssh` the request becomes the connection. On the unix socket the client
 * gets the descriptors (to write to, to read from, and what the server complains about); elsewhere
 * we copy, and complaints are dropped. */
#include <stdio.h>
#include <stdlib.h>

#include "api/exec.h"
#include "api/route.h"
#include "api/ssh_supply.h"
#include "crypto/hash.h"
#include "crypto/secret.h"
#include "ssh/server.h"

_Static_assert((int)SSH_KEYS_FD == (int)EXT_LENT_AT &&
                   (int)SSH_SERVER_FILES_MAX <= (int)EXT_LENT_MAX,
               "what is lent is where the server looks for it");

#define PROTOCOL "sandboxer-ssh"

static const struct h1_field upgrade[] = { { { "Upgrade", 7 },
                                             { PROTOCOL, sizeof PROTOCOL - 1 } } };

/* --- the host key: as lasting as the sandbox, and kept nowhere --- */

static void host_key(const struct call *c, unsigned char ret[static CRYPTO_SIGN_KEY_SIZE])
{
    const struct api *a = c->api;
    char what[ID_MAX + 16];

    _Static_assert((int)CRYPTO_SIGN_KEY_SIZE == (int)CRYPTO_SHA256_SIZE, "a code is a key");
    snprintf(what, sizeof what, "ssh:%s", sandbox_view(c->sandbox).record->id);
    crypto_hmac_sha256((struct str){ (const char *)a->e2b_key, sizeof a->e2b_key }, str_from(what),
                       ret);
}

static void write_host_key(struct json_writer *w, const void *what)
{
    const struct call *c = what;
    struct buf text AUTO(buf_done) = BUF_INIT(256);
    unsigned char key[CRYPTO_SIGN_KEY_SIZE];

    host_key(c, key);
    (void)ssh_public_key_write(key, &text); /* which has room */
    crypto_wipe(key, sizeof key);
    json_begin_object(w);
    json_key(w, STR("sandbox_id"));
    json_put_str(w, str_from(sandbox_view(c->sandbox).record->id));
    json_key(w, STR("host_key"));
    json_put_str(w, buf_str(&text));
    json_end_object(w);
}

static void get(struct call *c)
{
    call_answer(c, 200, write_host_key, c);
}

/* --- how the connection looks on the wire --- */

static void not_started(struct exec *x, const struct err *e)
{
    call_fail_sandbox(x->call, e, sandbox_view(x->call->sandbox).record->id, x->op.process.step);
}

static void ended(struct exec *x, const struct ext_end *end)
{
    (void)end;
    http_end(call_take_exchange(x->call));
}

static void ignore(struct http_exchange *h, struct str data)
{
    (void)h;
    (void)data;
}

/* The exchange stays as long as the client has the descriptors: when it goes, so does the server.
 */
static bool hand_over(struct exec *x)
{
    int *stdio = x->op.process.stdio;
    struct err e;
    bool good = http_upgrade(x->call->x, upgrade, 1, ignore, &e) >= 0 &&
                http_write_fds(x->call->x, STR("\n"), stdio, EXT_STDIO_MAX, &e) >= 0;

    for (int i = 0; i < EXT_STDIO_MAX; i++)
        drop_fd(&stdio[i]);
    if (!good)
        http_fail(call_take_exchange(x->call), 500, str_from(e.msg));
    return good;
}

static const struct exec_face handed_over = {
    .started = hand_over,
    .output = NULL,
    .ended = ended,
    .failed = not_started,
};

static struct exec *exec_of(struct http_exchange *h)
{
    return ((struct call *)http_state(h))->state;
}

static void input_taken(struct exec *x)
{
    if (x->call->x)
        http_body_resume(x->call->x);
}

static void from_client(struct http_exchange *h, struct str data)
{
    if (!exec_input(exec_of(h), data))
        http_body_pause(h);
}

static void client_drained(struct http_exchange *h)
{
    exec_resume(exec_of(h));
}

static bool copy_begin(struct exec *x)
{
    struct err e;

    if (http_upgrade(x->call->x, upgrade, 1, from_client, &e) < 0) {
        http_fail(call_take_exchange(x->call), 500, str_from(e.msg));
        return false;
    }
    x->on_input_room = input_taken;
    http_on_drain(x->call->x, client_drained);
    return true;
}

static bool copy_output(struct exec *x, int channel, struct str data)
{
    int r = channel == 1 ? http_write(x->call->x, data, NULL) : 0;

    if (r < 0)
        http_cut(call_take_exchange(x->call));
    return r == 0;
}

static const struct exec_face copied = {
    .started = copy_begin,
    .output = copy_output,
    .ended = ended,
    .failed = not_started,
};

/* --- the request --- */

struct ssh_request {
    const char *public_key, *user;
    bool agent;
};

static const struct json_field fields[] = {
    { "public_key", JSON_KIND_STR, JSON_AT(struct ssh_request, public_key), .required = true,
      .max = SSH_KEY_LINE_MAX, .doc = "The key that will be used, as a line of OpenSSH." },
    { "user", JSON_KIND_STR, JSON_AT(struct ssh_request, user), .min = 1, .max = 64,
      .doc = "UID, UID:GID or a name inside." },
    { "agent", JSON_KIND_BOOL, JSON_AT(struct ssh_request, agent),
      .doc = "The client's agent may be forwarded." },
};
static const size_t field_count = COUNT_OF(fields);

/* Between the request and its server. */
struct ssh {
    struct call *call; /* referenced */
    struct ssh_order order;
    struct ssh_request request;
    struct buf key;
};

static void ssh_free(struct ssh *s)
{
    buf_done(&s->key);
    free(s);
}

static void start(struct ssh *s, const struct ssh_kit *kit)
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

    host_key(c, key);
    r = ssh_server_fill(&server, &c->arena, &what, &e);
    crypto_wipe(key, sizeof key);
    if (r < 0) {
        call_fail(c, &e);
        return;
    }
    while (what.argv[q.argv.n])
        q.argv.n++;
    q.argv.p = what.argv;
    exec_start_lent(c, &q, what.files, what.n, http_peer(c->x)->is_unix ? &handed_over : &copied);
    drop_fd(&what.keys);
}

static void supplied(struct ssh_order *o, int r, const struct err *e, const struct ssh_kit *kit)
{
    struct ssh *s = container_of(o, struct ssh, order);
    struct call *c = s->call;

    if (r < 0)
        call_fail(c, e);
    else if (c->x)
        start(s, kit);
    ssh_free(s);
    call_unref(c);
}

static bool read_request(struct call *c, struct ssh *s)
{
    const struct h1_head *h = &http_request(c->x)->head;
    struct err e;
    int r = json_bind(c->json, fields, field_count, &s->request, &c->arena, &e);

    if (r >= 0)
        r = err_wrap(&e, ssh_public_key_read(str_from(s->request.public_key), &s->key, &e),
                     "public_key");
    if (r < 0) {
        call_fail(c, &e);
        return false;
    }
    if (!h->upgrade || !str_eq(h->proto, STR(PROTOCOL))) {
        call_fail_with(c, 400, "invalid", "this needs 'Upgrade: " PROTOCOL "'");
        return false;
    }
    return true;
}

static void serve(struct call *c)
{
    struct ssh *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    *s = (struct ssh){ .call = c, .order.done = supplied };
    buf_init(&s->key, SSH_KEY_LINE_MAX);
    if (!read_request(c, s)) {
        ssh_free(s);
        return;
    }
    call_ref(c);
    ssh_supply_order(c->api, &s->order);
}

const struct route routes_ssh[] = {
    { H1_GET, VERB_EXEC, "/v1/sandboxes/{id}/ssh", ROUTE_SANDBOX | ROUTE_LIVE, get,
      "The host key of a sandbox, as SSH's clients will see it", .answer = "Ssh" },
    { H1_POST, VERB_EXEC, "/v1/sandboxes/{id}/ssh",
      ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE | ROUTE_LONG, serve,
      "Connect to a server of SSH that is started inside", .fields = fields,
      .field_count = &field_count, .status = 101 },
    { .path = NULL },
};
