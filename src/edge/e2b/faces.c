/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/e2b/internal.h"
#include "edge/e2b/builds.h"
#include "edge/core/json_members.h"
#include "edge/e2b/signature.h"
#include "edge/core/shares.h"

#include <stdio.h>
#include <strings.h>

#include "edge/core/guard.h"
#include "base/clock.h"
#include "lib/crypto/secret.h"
#include "lib/json/reader.h"

int e2b_open(struct api *a, struct err *e)
{
    int r = sandbox_tokens_open(a, e);

    if (r >= 0)
        r = built_open(a, e);
    return r < 0 ? r : builds_open(a, e);
}

void e2b_close(struct api *a)
{
    watchers_close(a);
    builds_close(a);
}

void e2b_done(struct api *a)
{
    e2b_close(a);
    built_close(a);
}

void e2b_token(const struct call *c, const char *id, char ret[static SANDBOX_TOKEN_TEXT])
{
    sandbox_token_make(c->api, id, c->caller.actor.id, ret);
}

void e2b_upload_token(const struct api *a, const char *build, const char *hash,
                      char ret[static SANDBOX_TOKEN_CODE_TEXT])
{
    char what[ID_MAX + BUILD_HASH_MAX + 16];

    snprintf(what, sizeof what, "upload:%s:%s", build, hash);
    sandbox_token_sign(a, what, ret);
}

/* Answers to approved requests are shown to the approver as well, so they contain no tokens. */
bool e2b_may_enter(const struct call *c)
{
    return caller_may(&c->caller, VERB_EXEC) && caller_may(&c->caller, VERB_FILES) && !c->approved;
}

/* --- the control plane --- */

static bool authenticate_e2b_key(struct call *c)
{
    struct str key = call_header(c, "X-API-KEY"), bearer = call_header(c, "Authorization");

    if (!key.p && bearer.n > 7 && strncasecmp(bearer.p, "Bearer ", 7) == 0)
        key = (struct str){ bearer.p + 7, bearer.n - 7 };
    if (!key.p) {
        call_fail_with(c, 401, "unauthenticated",
                       "send X-API-KEY; `sandboxer token create --e2b` makes one");
        return false;
    }
    return call_by_token(c, key) && guard_identify(c) && call_may_use(c);
}

/* Writes {"code": STATUS, "message": …}: clients read the code from the body. */
static void fail_e2b_json(struct call *c, const struct err *e, int status, const char *code)
{
    struct buf text AUTO(buf_done) = BUF_INIT(16 << 10);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("code"));
    json_put_int(&w, status);
    write_str_member(&w, "message", e->msg);
    write_str_member(&w, "error_code", code);
    json_end_object(&w);
    json_writer_finish(&w, NULL);
    call_answer_bytes(c, status, "application/json", buf_str(&text));
}

const struct route_face e2b_face = { .authenticate = authenticate_e2b_key, .fail = fail_e2b_json };

/* --- files for a build: authenticated by a signed link --- */

static bool refuse_unauthenticated(struct call *c, const char *why)
{
    call_fail_with(c, 401, "unauthenticated", why);
    return false;
}

/* The holder of the link acts for the owner of the build, for this file only. */
static bool authenticate_upload_link(struct call *c)
{
    static const struct caller anybody = { .admin = true };
    struct str token = { NULL, 0 }, id = { NULL, 0 };
    char right[SANDBOX_TOKEN_CODE_TEXT], hash[BUILD_HASH_MAX];
    const struct e2b_build *b;

    if (call_query(c, "token", &token) < 0 || call_query(c, "build", &id) < 0)
        return false;
    c->caller = anybody;
    b = build_find(c, c->params[0], id);
    c->caller = (struct caller){ 0 };
    if (!b || !str_copy(c->params[1], hash, sizeof hash))
        return refuse_unauthenticated(c, "the upload link is invalid");
    e2b_upload_token(c->api, b->id, hash, right);
    if (!crypto_equal(str_from(right), token))
        return refuse_unauthenticated(c, "the upload link is invalid");
    snprintf(c->caller.owner, sizeof c->caller.owner, "%s", b->owner);
    snprintf(c->caller.family, sizeof c->caller.family, "%s", b->family);
    c->caller.labels = b->labels;
    c->caller.by_token = true;
    return guard_identify(c);
}

const struct route_face e2b_upload_face = { .authenticate = authenticate_upload_link,
                                            .fail = fail_e2b_json };

/* --- envd --- */

/* The answer of E2B's edge proxy for any path of a sandbox that does not exist. */
static void fail_sandbox_gone(struct call *c, struct str id)
{
    struct buf text AUTO(buf_done) = BUF_INIT(4096);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("sandboxId"));
    json_put_lossy(&w, id.n <= 64 ? id : STR(""));
    write_str_member(&w, "message", "The sandbox was not found");
    json_key(&w, STR("code"));
    json_put_int(&w, 502);
    json_end_object(&w);
    json_writer_finish(&w, NULL);
    call_answer_bytes(c, 502, "application/json", buf_str(&text));
}

/* Answers the call and returns false unless the sandbox runs; a paused one counts as absent. */
static bool is_sandbox_up(struct call *c, struct str id)
{
    if (c->sandbox && sandbox_state_usable(sandbox_state(c->sandbox)))
        return true;
    fail_sandbox_gone(c, id);
    return false;
}

/* Finds the named sandbox, if it exists. `ret` is its id, as in tokens. */
static void find_e2b_sandbox(struct call *c, struct str id, char ret[static ID_MAX])
{
    static const struct caller anybody = { .admin = true }; /* the token authorizes the caller */

    if (control_find_now(c->api->control, &anybody, id, &c->sandbox))
        snprintf(ret, ID_MAX, "%s", sandbox_view(c->sandbox).record->id);
    else if (!str_copy(id, ret, ID_MAX))
        ret[0] = 0;
}

/* The sandbox that the request names, in its Host or in a header. */
static struct str named_sandbox(const struct call *c)
{
    return c->port.id.p ? c->port.id : call_header(c, "E2b-Sandbox-Id");
}

/* Checks the token before the sandbox's state: only holders of its tokens learn whether it
 * exists. */
static bool authenticate_sandbox_token(struct call *c)
{
    struct str given = call_header(c, "X-Access-Token"), name = named_sandbox(c);
    const struct token_record *holder;
    char id[ID_MAX];

    find_e2b_sandbox(c, name, id);
    holder = sandbox_token_holder(c->api, id, given);
    if (!holder)
        return refuse_unauthenticated(
            c, given.p ? "the access token does not belong to this sandbox, or its API key is "
                         "expired or revoked; connect again"
                       : "send X-Access-Token with the token from the answer to create or connect");
    return is_sandbox_up(c, name) && sandbox_token_enter(c, holder);
}

/* --- services of other ports that the daemon provides --- */

static bool authenticate_port_token(struct call *c)
{
    struct str name = named_sandbox(c);
    const struct token_record *holder;
    char id[ID_MAX];

    find_e2b_sandbox(c, name, id);
    holder = sandbox_traffic_holder(c->api, id, call_header(c, "E2B-Traffic-Access-Token"));
    if (!holder)
        holder = sandbox_token_holder(c->api, id, call_header(c, "X-Access-Token"));
    if (!holder)
        return refuse_unauthenticated(c, "send E2B-Traffic-Access-Token or X-Access-Token with the "
                                         "token from the answer to create or connect");
    return is_sandbox_up(c, name) && sandbox_token_enter(c, holder);
}

/* --- envd's files: also authenticated by a signed link --- */

struct signed_link_search {
    const struct api *api;
    const struct signed_link *link;
    struct str signature;
    struct sandbox *box;   /* being compared */
    struct sandbox *found; /* referenced */
    uint64_t tried;
};

static bool is_signed_by(void *user, const char *holder)
{
    const struct signed_link_search *k = user;
    char token[SANDBOX_TOKEN_TEXT];

    sandbox_token_make(k->api, sandbox_view(k->box).record->id, holder, token);
    return signature_good(k->link, str_from(token), k->signature);
}

static bool is_signed_by_maker(void *user, struct sandbox *s)
{
    struct signed_link_search *k = user;
    const char *maker = sandbox_view(s).record->maker;

    k->box = s;
    k->tried++;
    if (!maker[0] || !is_signed_by(k, maker))
        return false;
    k->found = sandbox_ref(s);
    return true;
}

/* Finds the signer of a link. Where all sandboxes share one address, a link names no sandbox: it
 * belongs to the sandbox whose maker's token signed it. The number of comparisons is bounded
 * (limits.link_checks), because the sender is not authenticated yet. A link that names an unknown
 * sandbox matches none. */
static const struct token_record *find_signed(struct call *c, const struct signed_link *l,
                                              struct str signature)
{
    struct signed_link_search k = {
        .api = c->api, .link = l, .signature = signature, .box = c->sandbox
    };

    if (!c->sandbox && !named_sandbox(c).p) {
        control_each(c->api->control, is_signed_by_maker, &k);
        k.box = c->sandbox = k.found;
        shares_count_link_checks(c, k.tried);
    }
    return c->sandbox ? sandbox_link_holder(c, is_signed_by, &k) : NULL;
}

/* Maximum number of comparisons for a link. */
static uint64_t most_link_checks(const struct call *c)
{
    return named_sandbox(c).p ? 0 : control_count(c->api->control);
}

static bool authenticate_signature(struct call *c)
{
    struct signed_link l = {
        .operation = http_request(c->x)->method == H1_POST ? "write" : "read",
    };
    struct str signature = { NULL, 0 }, path = { NULL, 0 }, user = { NULL, 0 };
    const struct token_record *holder;

    if (call_query(c, "signature", &signature) < 0 || call_query(c, "path", &path) < 0 ||
        call_query(c, "username", &user) < 0 ||
        call_query(c, "signature_expiration", &l.expires) < 0)
        return false;
    l.path = path;
    l.user = user;
    if (!signature.n)
        return refuse_unauthenticated(c, "missing signature query parameter");
    if (!signature_well_formed(signature))
        return refuse_unauthenticated(c, "invalid signature");
    if (signature_expired(&l, clock_wall()))
        return refuse_unauthenticated(c, "signature is already expired");
    if (!shares_may_check_link(c, most_link_checks(c)))
        return false;
    holder = find_signed(c, &l, signature);
    if (!holder)
        return refuse_unauthenticated(c, "invalid signature");
    return is_sandbox_up(c, str_from(sandbox_view(c->sandbox).record->id)) &&
           sandbox_token_enter(c, holder);
}

static bool authenticate_token_or_link(struct call *c)
{
    struct str name = named_sandbox(c);
    char id[ID_MAX];

    if (call_header(c, "X-Access-Token").p)
        return name.p ? authenticate_sandbox_token(c)
                      : refuse_unauthenticated(c, "send E2b-Sandbox-Id with the access token");
    if (name.p)
        find_e2b_sandbox(c, name,
                         id); /* an unknown sandbox gets the same answers as an existing one */
    return authenticate_signature(c);
}

/* envd reports an unknown user as unauthenticated (401). */
static int envd_status(const struct call *c, int status)
{
    return c->no_user && status == 404 ? 401 : status;
}

static void fail_envd(struct call *c, const struct err *e, int status, const char *code)
{
    int answered = envd_status(c, status);

    fail_e2b_json(c, e, answered, answered == status ? code : "unauthenticated");
}

const struct route_face envd_face = { .authenticate = authenticate_sandbox_token,
                                      .fail = fail_envd };
const struct route_face port_face = { .authenticate = authenticate_port_token, .fail = fail_envd };
const struct route_face envd_files_face = { .authenticate = authenticate_token_or_link,
                                            .fail = fail_envd };

/* --- Connect --- */

static const struct {
    const char *code;
    int status, answered; /* HTTP status of the error, and of Connect's answer */
} rpc_codes[] = {
    { "invalid_argument", 400, 400 },    { "unauthenticated", 401, 401 },
    { "permission_denied", 403, 403 },   { "not_found", 404, 404 },
    { "failed_precondition", 409, 400 }, { "resource_exhausted", 413, 429 },
    { "resource_exhausted", 429, 429 },  { "unimplemented", 501, 501 },
    { "unavailable", 503, 503 },         { "deadline_exceeded", 504, 504 },
};

static const char *rpc_code(int status, int *ret)
{
    for (size_t i = 0; i < COUNT_OF(rpc_codes); i++)
        if (rpc_codes[i].status == status) {
            *ret = rpc_codes[i].answered;
            return rpc_codes[i].code;
        }
    *ret = 500;
    return "internal";
}

struct rpc_problem {
    const char *code, *message;
};

static void write_rpc_problem(struct json_writer *w, const void *what)
{
    const struct rpc_problem *p = what;

    json_begin_object(w);
    write_str_member(w, "code", p->code);
    write_str_member(w, "message", p->message);
    json_end_object(w);
}

static void fail_rpc(struct call *c, const struct err *e, int status, const char *code)
{
    struct rpc_problem p = { .message = e->msg };
    int answered;

    p.code = rpc_code(envd_status(c, status), &answered);
    call_answer(c, answered, write_rpc_problem, &p);
}

/* Answers a streaming call that failed before it began: a stream that has only its end. */
static void fail_stream(struct call *c, const struct err *e, int status, const char *code)
{
    int answered;

    if (stream_begin(c, NULL))
        stream_end_with(c, rpc_code(envd_status(c, status), &answered), e->msg);
}

const struct route_face rpc_face = { .authenticate = authenticate_sandbox_token, .fail = fail_rpc };
/* The message in the body of a streaming call, for the policy. */
static const struct json *read_stream_message(struct call *c)
{
    const struct json_limits limits = { .bytes = CALL_ARENA_MAX, .depth = 16 };
    const struct json *v = NULL;
    struct str text;

    if (envelope_read(c->body, &text, NULL) < 0 || json_read(text, limits, &c->arena, &v, NULL) < 0)
        return NULL; /* the handler reports the error */
    return v;
}

const struct route_face rpc_stream_face = { .authenticate = authenticate_sandbox_token,
                                            .fail = fail_stream,
                                            .arguments = read_stream_message };
