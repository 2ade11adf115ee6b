#include <stdio.h>
#include <strings.h>

#include "api/daytona/file_link.h"
#include "api/daytona/inside.h"
#include "api/daytona/preview.h"
#include "api/e2b/inside.h"
#include "api/guard.h"
#include "api/shares.h"
#include "base/clock.h"

/* --- who asks --- */

static struct str bearer(const struct call *c)
{
    struct str given = call_header(c, "Authorization");

    if (given.n > 7 && strncasecmp(given.p, "Bearer ", 7) == 0)
        return (struct str){ given.p + 7, given.n - 7 };
    return (struct str){ NULL, 0 };
}

static bool by_key(struct call *c)
{
    struct str key = bearer(c);

    if (c->route->flags & ROUTE_OPEN)
        return true;
    if (!key.p) {
        call_fail_with(c, 401, "unauthenticated",
                       "send Authorization: Bearer KEY; `sandboxer token create --daytona` makes "
                       "one");
        return false;
    }
    return call_by_token(c, key) && guard_identify(c) && call_may_use(c);
}

/* Links that were signed are for a file each, out or in. */
static bool takes_links(const struct call *c)
{
    static const char *const paths[] = { DAYTONA_INSIDE "/files/download",
                                         DAYTONA_INSIDE "/files/upload-v2" };

    for (size_t i = 0; i < COUNT_OF(paths); i++)
        if (strcmp(c->route->path, paths[i]) == 0)
            return true;
    return false;
}

static bool find_linked(struct call *c)
{
    static const struct caller anybody = { .admin = true }; /* the signature says who may */

    return control_find_now(c->api->control, &anybody, c->params[0], &c->sandbox) &&
           sandbox_state_usable(sandbox_state(c->sandbox));
}

static void sign_as(const struct call *c, const char *holder, char *ret)
{
    char what[ID_MAX + 16];

    snprintf(what, sizeof what, "files:%s", sandbox_view(c->sandbox).record->id);
    e2b_held_token(c->api, what, holder, ret);
}

void daytona_signing_key(const struct call *c, char *ret)
{
    sign_as(c, c->caller.actor.id, ret);
}

struct tried_link {
    const struct call *call;
    const struct file_link *link;
};

static bool is_good_of(void *user, const char *holder)
{
    const struct tried_link *t = user;
    char key[E2B_HELD_TEXT];

    sign_as(t->call, holder, key);
    return file_link_good(t->link, str_from(key), clock_wall() / NS_PER_S);
}

static bool by_link(struct call *c)
{
    struct file_link l = { .method = http_request(c->x)->method == H1_POST ? "POST" : "GET" };
    struct tried_link tried = { c, &l };
    const struct token_record *holder;

    if (call_query(c, "path", &l.path) < 0 || call_query(c, "expires", &l.expires) < 0 ||
        call_query(c, "signature", &l.signature) < 0)
        return false;
    if (!shares_may_check_link(c, 0))
        return false;
    holder = find_linked(c) ? e2b_link_holder(c, is_good_of, &tried) : NULL;
    if (holder)
        return e2b_enter(c, holder);
    call_fail_with(c, 401, "unauthenticated", "the link is not good, or not any more");
    return false;
}

static bool by_key_or_link(struct call *c)
{
    struct str signature = { NULL, 0 };

    if (!bearer(c).p && takes_links(c) &&
        url_query(c->query, STR("signature"), &c->arena, &signature, NULL) > 0)
        return by_link(c);
    return by_key(c);
}

/* --- what went wrong --- */

struct problem {
    const char *message, *code, *source;
    struct str path;
    int status;
};

static void write_problem(struct json_writer *w, const void *what)
{
    const struct problem *p = what;

    json_begin_object(w);
    put_number(w, "statusCode", p->status);
    put(w, "message", p->message);
    put(w, "code", p->code);
    put(w, "source", p->source);
    put_bytes(w, "path", p->path);
    time_write(w, "timestamp", clock_wall());
    json_end_object(w);
}

static const struct {
    int status;
    const char *code;
} codes[] = {
    { 400, "BAD_REQUEST" }, { 401, "UNAUTHORIZED" },         { 403, "FORBIDDEN" },
    { 404, "NOT_FOUND" },   { 408, "REQUEST_TIMEOUT" },      { 409, "CONFLICT" },
    { 410, "GONE" },        { 422, "UNPROCESSABLE_ENTITY" },
};

static const char *code_of(int status)
{
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        if (codes[i].status == status)
            return codes[i].code;
    return "INTERNAL_SERVER_ERROR";
}

static void fail(struct call *c, const struct err *e, int status, const char *code,
                 const char *source)
{
    const struct problem p = { .message = e->msg,
                               .code = code,
                               .source = source,
                               .path = url_split(http_request(c->x)->path).path,
                               .status = status };

    call_answer(c, status, write_problem, &p);
}

/* A code in capitals is Daytona's own, and said by who knows better than the status. */
static bool is_theirs(const char *code)
{
    return code[0] >= 'A' && code[0] <= 'Z';
}

static void fail_plane(struct call *c, const struct err *e, int status, const char *code)
{
    (void)code;
    fail(c, e, status, code_of(status), "DAYTONA_API");
}

static void fail_inside(struct call *c, const struct err *e, int status, const char *code)
{
    fail(c, e, status, is_theirs(code) ? code : code_of(status), "DAYTONA_DAEMON");
}

static void fail_files(struct call *c, const struct err *e, int status, const char *code)
{
    const char *own = status == 404   ? "FILE_NOT_FOUND"
                      : status == 403 ? "FILE_ACCESS_DENIED"
                                      : code_of(status);

    fail(c, e, status,
         is_theirs(code) ? code
         : c->sandbox    ? own
                         : code_of(status),
         "DAYTONA_DAEMON");
}

const struct route_face daytona_face = { by_key, fail_plane, .names = DAYTONA_NAME };
const struct route_face toolbox_face = { by_key, fail_inside, .names = DAYTONA_NAME };
const struct route_face toolbox_files_face = { by_key_or_link, fail_files, .names = DAYTONA_NAME };
const struct route_face daytona_preview_face = { preview_by_token, fail_plane, .names = NULL };
