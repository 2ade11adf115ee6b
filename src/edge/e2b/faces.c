#include "api/e2b/inside.h"
#include "api/e2b/builds.h"
#include "api/e2b/write.h"
#include "api/e2b/signature.h"
#include "api/shares.h"

#include <stdio.h>
#include <strings.h>

#include "api/guard.h"
#include "base/clock.h"
#include "crypto/encode.h"
#include "crypto/hash.h"
#include "crypto/random.h"
#include "control/tokens.h"
#include "crypto/secret.h"
#include "json/reader.h"

/* --- the key that tokens are made with: one for as long as the store lives --- */

#define KEY_SETTING "e2b.key"

static int make_key(struct api *a, struct err *e)
{
    struct buf text AUTO(buf_done) = BUF_INIT(2 * sizeof a->e2b_key + 1);
    struct store_txn t = { 0 };
    int r = crypto_random(a->e2b_key, sizeof a->e2b_key, e);

    if (r < 0)
        return r;
    crypto_hex((struct str){ (const char *)a->e2b_key, sizeof a->e2b_key }, &text);
    store_txn_begin(&t, control_store(a->control));
    store_set(&t, KEY_SETTING, text.p);
    r = store_commit_now(&t, e);
    crypto_wipe(text.p, text.n);
    return r;
}

int e2b_open(struct api *a, struct err *e)
{
    struct store_query q = { .kind = STORE_SETTING, .text = STR(KEY_SETTING) };
    struct buf bytes AUTO(buf_done) = BUF_INIT(sizeof a->e2b_key + 1);
    int r;

    arena_init(&q.arena, 64 << 10);
    r = store_ask_now(control_store(a->control), &q, e);
    if (r >= 0 && !q.setting)
        r = make_key(a, e);
    else if (r >= 0 &&
             (crypto_unhex(str_from(q.setting), &bytes, e) < 0 || bytes.n != sizeof a->e2b_key))
        r = err_set(e, ERR_INVALID, "the store's setting " KEY_SETTING " is no key");
    else if (r >= 0)
        memcpy(a->e2b_key, bytes.p, sizeof a->e2b_key);
    arena_done(&q.arena);
    r = err_wrap(e, r, "the key for E2B's clients");
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

void e2b_make_token(const struct api *a, const char *what, char ret[static E2B_TOKEN_TEXT])
{
    struct buf text AUTO(buf_done) = BUF_INIT(E2B_TOKEN_TEXT);
    unsigned char code[CRYPTO_SHA256_SIZE];

    crypto_hmac_sha256((struct str){ (const char *)a->e2b_key, sizeof a->e2b_key }, str_from(what),
                       code);
    crypto_hex((struct str){ (const char *)code, sizeof code }, &text);
    str_copy(buf_str(&text), ret, E2B_TOKEN_TEXT);
}

/* The end of the id is what names the holder. */
#define HOLDER_PREFIX "tok_"

void e2b_held_token(const struct api *a, const char *what, const char *holder,
                    char ret[static E2B_HELD_TEXT])
{
    char text[ID_MAX * 3 + 64], code[E2B_TOKEN_TEXT];

    snprintf(text, sizeof text, "%s by %s", what, holder);
    e2b_make_token(a, text, code);
    snprintf(ret, E2B_HELD_TEXT, "%s%s", code,
             strncmp(holder, HOLDER_PREFIX, 4) == 0 ? holder + 4 : "");
}

const struct token_record *e2b_holder(const struct api *a, const char *what, struct str given)
{
    char holder[ID_MAX], right[E2B_HELD_TEXT];

    if (given.n != E2B_HELD_TEXT - 1)
        return NULL;
    snprintf(holder, sizeof holder, HOLDER_PREFIX "%.*s", ID_RANDOM_CHARS,
             given.p + E2B_TOKEN_TEXT - 1);
    e2b_held_token(a, what, holder, right);
    return crypto_equal(str_from(right), given) ? tokens_by_id(a->tokens, str_from(holder)) : NULL;
}

void e2b_token(const struct call *c, const char *id, char ret[static E2B_HELD_TEXT])
{
    e2b_held_token(c->api, id, c->caller.actor.id, ret);
}

static void name_traffic(const char *id, char ret[static ID_MAX + 16])
{
    snprintf(ret, ID_MAX + 16, "traffic:%s", id);
}

void e2b_traffic_token(const struct call *c, const char *id, char ret[static E2B_HELD_TEXT])
{
    char what[ID_MAX + 16];

    name_traffic(id, what);
    e2b_held_token(c->api, what, c->caller.actor.id, ret);
}

const struct token_record *e2b_traffic_holder(const struct api *a, const char *id, struct str given)
{
    char what[ID_MAX + 16];

    name_traffic(id, what);
    return e2b_holder(a, what, given);
}

struct link_search {
    const struct sandbox_record *box;
    e2b_link_fn *fits;
    void *user;
    unsigned tried;
    const struct token_record *found;
};

static void try_holder(void *user, const struct token_record *t)
{
    struct link_search *s = user;

    if (s->found || s->tried >= E2B_LINK_HOLDERS || strcmp(t->owner, s->box->owner) != 0)
        return;
    s->tried++;
    if (s->fits(s->user, t->id))
        s->found = t;
}

const struct token_record *e2b_link_holder(const struct call *c, e2b_link_fn *fits, void *user)
{
    struct link_search s = { .box = sandbox_view(c->sandbox).record, .fits = fits, .user = user };

    shares_count_link_checks(c, 1);
    if (s.box->maker[0] && fits(user, s.box->maker))
        return tokens_by_id(c->api->tokens, str_from(s.box->maker));
    tokens_each(c->api->tokens, try_holder, &s);
    shares_count_link_checks(c, s.tried);
    return s.found ? tokens_by_id(c->api->tokens, str_from(s.found->id)) : NULL;
}

void e2b_upload_token(const struct api *a, const char *build, const char *hash,
                      char ret[static E2B_TOKEN_TEXT])
{
    char what[ID_MAX + BUILD_HASH_MAX + 16];

    snprintf(what, sizeof what, "upload:%s:%s", build, hash);
    e2b_make_token(a, what, ret);
}

/* What a master has approved is shown to others than who asked: it has no tokens. */
bool e2b_may_enter(const struct call *c)
{
    return caller_may(&c->caller, VERB_EXEC) && caller_may(&c->caller, VERB_FILES) && !c->approved;
}

/* --- the control plane --- */

static bool by_key(struct call *c)
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

/* {"code": status, "message": …}: clients look at the code in here. */
static void fail_plainly(struct call *c, const struct err *e, int status, const char *code)
{
    struct buf text AUTO(buf_done) = BUF_INIT(16 << 10);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("code"));
    json_put_int(&w, status);
    put(&w, "message", e->msg);
    put(&w, "error_code", code);
    json_end_object(&w);
    json_writer_finish(&w, NULL);
    call_answer_bytes(c, status, "application/json", buf_str(&text));
}

const struct route_face e2b_face = { .authenticate = by_key, .fail = fail_plainly };

/* --- files for a build: by a link --- */

static bool refuse(struct call *c, const char *why)
{
    call_fail_with(c, 401, "unauthenticated", why);
    return false;
}

/* Whoever has the link acts for who began the build, for this one file. */
static bool by_upload_link(struct call *c)
{
    static const struct caller anybody = { .admin = true };
    struct str token = { NULL, 0 }, id = { NULL, 0 };
    char right[E2B_TOKEN_TEXT], hash[BUILD_HASH_MAX];
    const struct build *b;

    if (call_query(c, "token", &token) < 0 || call_query(c, "build", &id) < 0)
        return false;
    c->caller = anybody;
    b = build_find(c, c->params[0], id);
    c->caller = (struct caller){ 0 };
    if (!b || !str_copy(c->params[1], hash, sizeof hash))
        return refuse(c, "the link is not one that we gave");
    e2b_upload_token(c->api, b->id, hash, right);
    if (!crypto_equal(str_from(right), token))
        return refuse(c, "the link is not one that we gave");
    snprintf(c->caller.owner, sizeof c->caller.owner, "%s", b->owner);
    snprintf(c->caller.family, sizeof c->caller.family, "%s", b->family);
    c->caller.labels = b->labels;
    c->caller.by_token = true;
    return guard_identify(c);
}

const struct route_face e2b_upload_face = { .authenticate = by_upload_link, .fail = fail_plainly };

/* --- envd --- */

/* E2B's own front answers this for whatever path of a sandbox that is not there. */
static void fail_gone(struct call *c, struct str id)
{
    struct buf text AUTO(buf_done) = BUF_INIT(4096);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("sandboxId"));
    json_put_lossy(&w, id.n <= 64 ? id : STR(""));
    put(&w, "message", "The sandbox was not found");
    json_key(&w, STR("code"));
    json_put_int(&w, 502);
    json_end_object(&w);
    json_writer_finish(&w, NULL);
    call_answer_bytes(c, 502, "application/json", buf_str(&text));
}

/* One that is paused is not there either. */
static bool is_up(struct call *c, struct str id)
{
    if (c->sandbox && sandbox_state_usable(sandbox_state(c->sandbox)))
        return true;
    fail_gone(c, id);
    return false;
}

bool e2b_enter(struct call *c, const struct token_record *holder)
{
    const struct sandbox_record *r = sandbox_view(c->sandbox).record;

    if (!call_by_record(c, holder))
        return false;
    if (!caller_sees(&c->caller, r->owner, &r->labels))
        return refuse(c, "the key that this token was given to does not see the sandbox any more");
    c->caller.verbs &= VERB_BIT(VERB_READ) | VERB_BIT(VERB_EXEC) | VERB_BIT(VERB_FILES);
    c->caller.host_paths = false;
    if (!(c->route->flags & ROUTE_QUIET))
        sandbox_touch(c->sandbox);
    return guard_identify(c) && call_may_use(c);
}

/* The sandbox that is named, if there is one; its id as tokens have it. */
static void find_box(struct call *c, struct str id, char ret[static ID_MAX])
{
    static const struct caller anybody = { .admin = true }; /* its token says who may */

    if (control_find_now(c->api->control, &anybody, id, &c->sandbox))
        snprintf(ret, ID_MAX, "%s", sandbox_view(c->sandbox).record->id);
    else if (!str_copy(id, ret, ID_MAX))
        ret[0] = 0;
}

/* By its Host, or by a header. */
static struct str box_named(const struct call *c)
{
    return c->port.id.p ? c->port.id : call_header(c, "E2b-Sandbox-Id");
}

/* Whether a sandbox is there is told to holders of its tokens alone. */
static bool by_box_token(struct call *c)
{
    struct str given = call_header(c, "X-Access-Token"), name = box_named(c);
    const struct token_record *holder;
    char id[ID_MAX];

    find_box(c, name, id);
    holder = e2b_holder(c->api, id, given);
    if (!holder)
        return refuse(c, given.p ? "the access token is not this sandbox's, or its key is expired "
                                   "or revoked: connect again"
                                 : "send X-Access-Token, as creating the sandbox told it");
    return is_up(c, name) && e2b_enter(c, holder);
}

/* --- another port's service that is ours --- */

static bool by_either_token(struct call *c)
{
    struct str name = box_named(c);
    const struct token_record *holder;
    char id[ID_MAX];

    find_box(c, name, id);
    holder = e2b_traffic_holder(c->api, id, call_header(c, "E2B-Traffic-Access-Token"));
    if (!holder)
        holder = e2b_holder(c->api, id, call_header(c, "X-Access-Token"));
    if (!holder)
        return refuse(c, "send E2B-Traffic-Access-Token or X-Access-Token, as creating the sandbox "
                         "told them");
    return is_up(c, name) && e2b_enter(c, holder);
}

/* --- envd's files: by a link, too --- */

struct seeking {
    const struct api *api;
    const struct signed_link *link;
    struct str signature;
    struct sandbox *box;   /* that is tried */
    struct sandbox *found; /* referenced */
    uint64_t tried;
};

static bool is_signed_by(void *user, const char *holder)
{
    const struct seeking *k = user;
    char token[E2B_HELD_TEXT];

    e2b_held_token(k->api, sandbox_view(k->box).record->id, holder, token);
    return signature_good(k->link, str_from(token), k->signature);
}

static bool is_signed_by_maker(void *user, struct sandbox *s)
{
    struct seeking *k = user;
    const char *maker = sandbox_view(s).record->maker;

    k->box = s;
    k->tried++;
    if (!maker[0] || !is_signed_by(k, maker))
        return false;
    k->found = sandbox_ref(s);
    return true;
}

/* Where all sandboxes share one address, a link names no sandbox: it belongs to the one whose
 * maker's token signed it. What it is compared with is bounded (limits.link_checks), because
 * whoever sends it need not be known. A link that names an unknown sandbox matches none. */
static const struct token_record *find_signed(struct call *c, const struct signed_link *l,
                                              struct str signature)
{
    struct seeking k = { .api = c->api, .link = l, .signature = signature, .box = c->sandbox };

    if (!c->sandbox && !box_named(c).p) {
        control_each(c->api->control, is_signed_by_maker, &k);
        k.box = c->sandbox = k.found;
        shares_count_link_checks(c, k.tried);
    }
    return c->sandbox ? e2b_link_holder(c, is_signed_by, &k) : NULL;
}

/* How many comparisons a link costs at most. */
static uint64_t most_link_checks(const struct call *c)
{
    return box_named(c).p ? 0 : control_count(c->api->control);
}

static bool by_signature(struct call *c)
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
        return refuse(c, "missing signature query parameter");
    if (!signature_well_formed(signature))
        return refuse(c, "invalid signature");
    if (signature_expired(&l, clock_wall()))
        return refuse(c, "signature is already expired");
    if (!shares_may_check_link(c, most_link_checks(c)))
        return false;
    holder = find_signed(c, &l, signature);
    if (!holder)
        return refuse(c, "invalid signature");
    return is_up(c, str_from(sandbox_view(c->sandbox).record->id)) && e2b_enter(c, holder);
}

static bool by_box_token_or_link(struct call *c)
{
    struct str name = box_named(c);
    char id[ID_MAX];

    if (call_header(c, "X-Access-Token").p)
        return name.p ? by_box_token(c) : refuse(c, "send E2b-Sandbox-Id with the access token");
    if (name.p)
        find_box(c, name, id); /* an unknown sandbox gets the same answers as an existing one */
    return by_signature(c);
}

/* To envd, a user that is not there is one who may not. */
static int inside_status(const struct call *c, int status)
{
    return c->no_user && status == 404 ? 401 : status;
}

static void fail_inside(struct call *c, const struct err *e, int status, const char *code)
{
    int answered = inside_status(c, status);

    fail_plainly(c, e, answered, answered == status ? code : "unauthenticated");
}

const struct route_face envd_face = { .authenticate = by_box_token, .fail = fail_inside };
const struct route_face port_face = { .authenticate = by_either_token, .fail = fail_inside };
const struct route_face envd_files_face = { .authenticate = by_box_token_or_link,
                                            .fail = fail_inside };

/* --- Connect --- */

static const struct {
    const char *code;
    int status, answered; /* ours, and theirs */
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

static void write_problem(struct json_writer *w, const void *what)
{
    const struct rpc_problem *p = what;

    json_begin_object(w);
    put(w, "code", p->code);
    put(w, "message", p->message);
    json_end_object(w);
}

static void fail_rpc(struct call *c, const struct err *e, int status, const char *code)
{
    struct rpc_problem p = { .message = e->msg };
    int answered;

    (void)code;
    p.code = rpc_code(inside_status(c, status), &answered);
    call_answer(c, answered, write_problem, &p);
}

/* A stream that did not begin is a stream all the same, with nothing but its end. */
static void fail_stream(struct call *c, const struct err *e, int status, const char *code)
{
    int answered;

    (void)code;
    if (stream_begin(c, NULL))
        stream_end_with(c, rpc_code(inside_status(c, status), &answered), e->msg);
}

const struct route_face rpc_face = { .authenticate = by_box_token, .fail = fail_rpc };
/* The one message of a stream's body. */
static const struct json *message_of(struct call *c)
{
    const struct json_limits limits = { .bytes = CALL_ARENA_MAX, .depth = 16 };
    const struct json *v = NULL;
    struct str text;

    if (envelope_read(c->body, &text, NULL) < 0 || json_read(text, limits, &c->arena, &v, NULL) < 0)
        return NULL; /* the handler says what is wrong */
    return v;
}

const struct route_face rpc_stream_face = { .authenticate = by_box_token,
                                            .fail = fail_stream,
                                            .arguments = message_of };
