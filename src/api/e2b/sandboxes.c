/* E2B's sandboxes: create, list, info, kill, timeout, connect, network. */
#include <stdio.h>
#include <stdlib.h>

#include "api/e2b/inside.h"
#include "api/e2b/metadata.h"
#include "api/e2b/network.h"
#include "base/clock.h"
#include "control/policy_text.h"
#include "model/time.h"

enum {
    TIMEOUT_V1_S = 15,
    TIMEOUT_V2_S = 300,
    TIMEOUT_MAX_S = 31536000,
    TEMPLATE_MAX = 64,
    LIST_DEFAULT = 100,
    LIST_MAX = 100,
};

static void put(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

static void put_number(struct json_writer *w, const char *key, int64_t value)
{
    json_key(w, str_from(key));
    json_put_int(w, value);
}

/* --- how one looks --- */

struct shown {
    const struct call *call;
    const struct sandbox_record *record;
    int64_t expires_ns;
};

/* A profile's name without what all of them begin with: what clients call a template. */
static const char *template_of(const struct sandbox_record *r)
{
    return strncmp(r->profile, "profile.", 8) == 0 ? r->profile + 8 : r->profile;
}

static void put_names(struct json_writer *w, const struct sandbox_record *r)
{
    put(w, "templateID", template_of(r));
    put(w, "alias", template_of(r));
    put(w, "sandboxID", r->id);
    put(w, "clientID", "sandboxer");
    put(w, "envdVersion", E2B_ENVD_VERSION);
}

/* Only to who could do by other ways what it is good for. */
static void put_token(struct json_writer *w, const struct call *c, const char *id)
{
    char token[E2B_TOKEN_TEXT];

    if (!e2b_may_enter(&c->caller))
        return;
    e2b_token(c->api, id, token);
    put(w, "envdAccessToken", token);
}

static void put_traffic_token(struct json_writer *w, const struct call *c, const char *id)
{
    char token[E2B_TOKEN_TEXT];

    if (!e2b_may_enter(&c->caller))
        return;
    e2b_traffic_token(c->api, id, token);
    put(w, "trafficAccessToken", token);
}

static void write_made(struct json_writer *w, const void *what)
{
    const struct shown *s = what;

    json_begin_object(w);
    put_names(w, s->record);
    put_token(w, s->call, s->record->id);
    put_traffic_token(w, s->call, s->record->id);
    json_key(w, STR("domain"));
    json_put_null(w);
    json_end_object(w);
}

/* What its profile says; that may have gone since. */
static void put_size(struct json_writer *w, const struct call *c, const struct sandbox_record *r)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    char name[RECORD_NAME_MAX + 24];
    uint32_t milli = 1000, memory = 0, disk = 0;

    snprintf(name, sizeof name, "%s@%lld", r->profile, (long long)r->profile_version);
    if (catalog_find(control_catalog(c->api->control), str_from(name), &p, NULL) >= 0) {
        milli = profile_cpu_milli(p);
        memory = p->resources.memory_mb;
        disk = p->resources.disk_mb;
    }
    put_number(w, "cpuCount", milli > 1000 ? milli / 1000 : 1);
    put_number(w, "memoryMB", memory);
    put_number(w, "diskSizeMB", disk);
}

/* The members, without the braces. */
static void put_listed(struct json_writer *w, const struct shown *s)
{
    const struct sandbox_record *r = s->record;

    put_names(w, r);
    time_write(w, "startedAt", r->created_ns);
    time_write(w, "endAt", s->expires_ns ? s->expires_ns : r->created_ns + r->ttl_ns);
    put_size(w, s->call, r);
    put(w, "state", r->state == SANDBOX_PAUSED ? "paused" : "running");
    json_key(w, STR("metadata"));
    metadata_write(w, &r->labels);
}

static void write_info(struct json_writer *w, const void *what)
{
    const struct shown *s = what;
    struct sandbox_egress egress;

    json_begin_object(w);
    put_listed(w, s);
    put_token(w, s->call, s->record->id);
    json_key(w, STR("allowInternetAccess"));
    json_put_bool(w, sandbox_egress(s->call->sandbox, &egress));
    json_key(w, STR("lifecycle"));
    json_begin_object(w);
    put(w, "onTimeout", "kill");
    json_key(w, STR("autoResume"));
    json_put_bool(w, false);
    json_end_object(w);
    json_end_object(w);
}

static struct shown show(const struct call *c)
{
    struct sandbox_view v = sandbox_view(c->sandbox);

    return (struct shown){ .call = c, .record = v.record, .expires_ns = v.expires_ns };
}

/* There for E2B's clients: not on its way out. False: it is answered. */
static bool is_there(struct call *c)
{
    enum sandbox_state s = sandbox_state(c->sandbox);
    char text[ID_MAX + 32];

    if (sandbox_state_usable(s) || s == SANDBOX_PAUSED)
        return true;
    snprintf(text, sizeof text, "sandbox %s is %s", sandbox_view(c->sandbox).record->id,
             sandbox_state_names[s]);
    call_fail_with(c, 404, "not_found", text);
    return false;
}

static void info(struct call *c)
{
    struct shown s = show(c);

    if (is_there(c))
        call_answer(c, 200, write_info, &s);
}

/* --- create --- */

struct e2b_create {
    const char *template;
    int64_t timeout_s;
    struct json_map metadata, env;
    struct e2b_network network;
    bool auto_pause, secure;
    const struct json *volumes, *mcp, *iam;
};

#define AT(member) JSON_AT(struct e2b_create, member)

static const struct json_field create_fields[] = {
    { "templateID", JSON_KIND_STR, AT(template), .required = true, .min = 1, .max = TEMPLATE_MAX },
    { "timeout", JSON_KIND_INT, AT(timeout_s), .min = 1, .max = TIMEOUT_MAX_S },
    { "metadata", JSON_KIND_MAP, AT(metadata), .max = REQUEST_LABELS_MAX },
    { "envVars", JSON_KIND_MAP, AT(env), .max = REQUEST_ENV_MAX },
    { "allow_internet_access", JSON_KIND_BOOL, AT(network.internet),
      .seen = offsetof(struct e2b_create, network.internet_given) },
    { "network", JSON_KIND_OBJECT, .offset = offsetof(struct e2b_create, network),
      .size = sizeof(struct e2b_network), .fields = e2b_network_fields,
      .field_count = E2B_NETWORK_FIELD_COUNT },
    { "autoPause", JSON_KIND_BOOL, AT(auto_pause) },
    { "secure", JSON_KIND_BOOL, AT(secure) },
    { "volumeMounts", JSON_KIND_ANY, AT(volumes) },
    { "mcp", JSON_KIND_ANY, AT(mcp) },
    { "iam", JSON_KIND_ANY, AT(iam) },
};

struct creation {
    struct call *call;
    struct create_op op;
    struct create_request request;
};

static void creation_end(struct call *c)
{
    struct creation *n = c->state;

    arena_done(&n->op.arena);
}

static void created(struct create_op *op, int r, const struct err *e)
{
    struct creation *n = container_of(op, struct creation, op);
    struct call *c = n->call;
    struct shown s = { .call = c, .record = op->record, .expires_ns = op->expires_ns };

    if (r < 0)
        call_fail(c, e);
    else if (!op->record)
        call_fail_with(c, 500, "bug", "the sandbox is there, but its record is too big to show");
    else
        call_answer(c, 201, write_made, &s);
    call_unref(c);
}

static bool is_there_in(const struct json *v)
{
    return v && v->type != JSON_NULL && !(v->type >= JSON_ARRAY && !v->list.n);
}

/* What we could not keep is refused, not forgotten. */
static int check_create(const struct e2b_create *q, struct err *e)
{
    if (q->auto_pause)
        return err_set(e, ERR_UNSUPPORTED, "autoPause: sandboxes end at their timeout here");
    if (is_there_in(q->volumes))
        return err_set(e, ERR_UNSUPPORTED, "volumeMounts: there are no volumes here");
    if (is_there_in(q->mcp))
        return err_set(e, ERR_UNSUPPORTED, "mcp: there is no gateway in sandboxes here");
    if (is_there_in(q->iam))
        return err_set(e, ERR_UNSUPPORTED, "iam: there are no identity tokens here");
    return e2b_network_check(&q->network, e);
}

/* "base" is profile.base; a whole name of a profile will do, too. */
static const char *profile_of(struct call *c, const char *template)
{
    char text[TEMPLATE_MAX + 16];

    if (strncmp(template, "profile.", 8) == 0)
        return template;
    snprintf(text, sizeof text, "profile.%s", template);
    return arena_dup(&c->arena, str_from(text));
}

static int fill_request(struct call *c, const struct e2b_create *q, int64_t usual_s,
                        struct create_request *ret, struct err *e)
{
    int r = check_create(q, e);

    if (r >= 0)
        r = metadata_to_labels(&q->metadata, &c->arena, &ret->labels, e);
    if (r < 0)
        return r;
    ret->profile = profile_of(c, q->template);
    ret->env = q->env;
    r = e2b_network_fill(&q->network, control_catalog(c->api->control), ret, e);
    if (r < 0)
        return r;
    ret->ttl_ns = (q->timeout_s ? q->timeout_s : usual_s) * NS_PER_S;
    return create_request_check(ret, e);
}

static void create(struct call *c, int64_t usual_s)
{
    struct creation *n = arena_alloc(&c->arena, sizeof *n);
    struct e2b_create q = { 0 };
    struct err e;

    if (!n)
        abort();
    n->call = c;
    if (e2b_bind(c, c->json, create_fields, COUNT_OF(create_fields), &q, &e) < 0 ||
        fill_request(c, &q, usual_s, &n->request, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    c->state = n;
    c->on_end = creation_end;
    n->op = (struct create_op){
        .caller = &c->caller, .request = &n->request, .body = c->body, .done = created
    };
    call_ref(c);
    control_create(c->api->control, &n->op);
}

static void create_v1(struct call *c)
{
    create(c, TIMEOUT_V1_S);
}

static void create_v2(struct call *c)
{
    create(c, TIMEOUT_V2_S);
}

/* --- list --- */

struct listing {
    struct call *call;
    struct store_query query;
    int64_t started_after_ns;
    bool ascending;
    char after[ID_MAX]; /* the last row of the page before; "": from the start */
    int64_t after_ns;
    size_t limit;
};

static void listing_end(struct call *c)
{
    struct listing *l = c->state;

    arena_done(&l->query.arena);
    free(l);
}

/* The rows that the client gets: those of the store are newest first. */
static size_t select_rows(const struct listing *l, const struct sandbox_record **ret)
{
    const struct store_query *q = &l->query;
    size_t n = 0, most = l->limit + 1;
    bool past = !l->after[0];

    for (size_t k = 0; k < q->n && n < most; k++) {
        const struct sandbox_record *r = &q->sandboxes[l->ascending ? q->n - 1 - k : k];

        if (r->created_ns <= l->started_after_ns)
            continue;
        if (l->ascending && !past) { /* the store's own paging goes the other way */
            past = strcmp(r->id, l->after) == 0;
            continue;
        }
        ret[n++] = r;
    }
    return n;
}

static void answer_list(struct listing *l, const struct sandbox_record **rows, size_t n)
{
    struct buf text AUTO(buf_done) = BUF_INIT(CALL_ANSWER_MAX);
    bool more = n > l->limit;
    char next[64 + ID_MAX] = "";
    struct json_writer w;
    struct err e;

    n -= more;
    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_array(&w);
    for (size_t i = 0; i < n; i++) {
        json_begin_object(&w);
        put_listed(&w, &(struct shown){ .call = l->call,
                                        .record = rows[i],
                                        .expires_ns =
                                            control_expires_ns(l->call->api->control, rows[i]) });
        json_end_object(&w);
    }
    json_end_array(&w);
    if (json_writer_finish(&w, &e) < 0) {
        call_fail(l->call, &e);
        return;
    }
    if (!more) {
        call_answer_bytes(l->call, 200, "application/json", buf_str(&text));
        return;
    }
    snprintf(next, sizeof next, "%lld.%s", (long long)rows[n - 1]->created_ns, rows[n - 1]->id);
    call_answer_with(l->call, 200, "X-Next-Token", next, buf_str(&text));
}

static void listed(struct store_query *q, int r, const struct err *e)
{
    struct listing *l = container_of(q, struct listing, query);
    const struct sandbox_record **rows;

    if (r < 0) {
        call_fail(l->call, e);
    } else {
        rows = arena_array(&q->arena, l->limit + 2, sizeof *rows);
        if (!rows)
            abort();
        answer_list(l, rows, select_rows(l, rows));
    }
    call_unref(l->call);
}

static int read_states(struct call *c, uint32_t *ret)
{
    struct str text, word;
    int r = call_query(c, "state", &text);

    *ret = 0;
    while (r > 0 && text.p) {
        text = str_cut(text, ',', &word);
        if (str_eq(word, STR("running"))) {
            *ret |= 1u << SANDBOX_READY | 1u << SANDBOX_ACTIVE;
        } else if (str_eq(word, STR("paused"))) {
            *ret |= 1u << SANDBOX_PAUSED;
        } else {
            call_fail_with(c, 400, "invalid", "state: must be running, paused, or both");
            return -1;
        }
    }
    if (!*ret)
        *ret = 1u << SANDBOX_READY | 1u << SANDBOX_ACTIVE | 1u << SANDBOX_PAUSED;
    return r;
}

static int read_token(struct call *c, struct listing *l)
{
    struct str text, time, id;
    int r = call_query(c, "nextToken", &text);

    if (r <= 0 || !text.n)
        return r;
    id = str_cut(text, '.', &time);
    if (str_to_i64(time, &l->after_ns) && id_valid("sbx_", id) &&
        str_copy(id, l->after, sizeof l->after))
        return 0;
    call_fail_with(c, 400, "invalid", "nextToken: is not one that we gave");
    return -1;
}

static int read_metadata(struct call *c, struct store_query *q)
{
    struct json_map asked = { 0 };
    struct json_pair *all;
    struct str text;
    struct err e;
    int r = call_query(c, "metadata", &text);
    size_t n = 0;

    if (r > 0 && metadata_filter(text, &c->arena, &asked, &e) < 0) {
        call_fail(c, &e);
        return -1;
    }
    all = arena_array(&c->arena, asked.n + c->caller.labels.n + 1, sizeof *all);
    if (!all)
        abort();
    for (size_t i = 0; i < c->caller.labels.n; i++)
        all[n++] = c->caller.labels.p[i];
    for (size_t i = 0; i < asked.n; i++)
        all[n++] = asked.p[i];
    q->labels = (struct json_map){ all, n };
    return r;
}

static int read_since(struct call *c, int64_t *ret)
{
    struct str text;
    int r = call_query(c, "startedAfter", &text);

    if (r <= 0 || time_read(text, ret))
        return r;
    call_fail_with(c, 400, "invalid", "startedAfter: must be a time like 2026-01-02T03:04:05Z");
    return -1;
}

static int read_order(struct call *c, bool *ret)
{
    struct str text;
    int r = call_query(c, "order", &text);

    *ret = r > 0 && str_eq(text, STR("asc"));
    if (r <= 0 || *ret || str_eq(text, STR("desc")))
        return r;
    call_fail_with(c, 400, "invalid", "order: must be asc or desc");
    return -1;
}

static int read_template(struct call *c, struct store_query *q)
{
    struct str text;
    int r = call_query(c, "template", &text);

    if (r > 0 && text.n <= TEMPLATE_MAX)
        q->profile = str_from(profile_of(c, arena_dup(&c->arena, text)));
    else if (r > 0)
        q->profile = STR("-"); /* nobody's name */
    return r;
}

static void list(struct call *c)
{
    struct listing *l = calloc(1, sizeof *l);
    uint64_t limit = LIST_DEFAULT;
    struct err e;

    if (!l)
        abort();
    l->call = c;
    l->started_after_ns = INT64_MIN;
    c->state = l;
    c->on_end = listing_end;
    if (read_states(c, &l->query.states) < 0 || read_token(c, l) < 0 ||
        read_metadata(c, &l->query) < 0 || read_since(c, &l->started_after_ns) < 0 ||
        read_order(c, &l->ascending) < 0 || read_template(c, &l->query) < 0 ||
        call_query_number(c, "limit", LIST_MAX, &limit) < 0)
        return;
    l->limit = limit ? (size_t)limit : LIST_DEFAULT;
    if (!l->ascending) {
        l->query.limit = (int)l->limit + 1;
        l->query.after.created_ns = l->after_ns;
        memcpy(l->query.after.id, l->after, sizeof l->after);
    }
    if (control_list(c->api->control, &c->caller, &l->query, listed, &e) < 0)
        call_fail(c, &e);
    else
        call_ref(c);
}

/* --- one --- */

struct one_op {
    struct call *call;
    struct sandbox_op op;
};

static void one_end(struct call *c)
{
    free(c->state);
}

static struct sandbox_op *one_new(struct call *c, sandbox_op_fn *done)
{
    struct one_op *o = calloc(1, sizeof *o);

    if (!o)
        abort();
    o->call = call_ref(c);
    o->op.done = done;
    c->state = o;
    c->on_end = one_end;
    return &o->op;
}

static void answered(struct sandbox_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct one_op, op)->call;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer_empty(c);
    call_unref(c);
}

static void kill_box(struct call *c)
{
    if (is_there(c))
        sandbox_destroy(c->sandbox, &c->caller.actor, "kill", DESTROY_SYNC, one_new(c, answered));
}

struct time_request {
    int64_t timeout_s, duration_s;
    bool memory;
};

static const struct json_field time_fields[] = {
    { "timeout", JSON_KIND_INT, JSON_AT(struct time_request, timeout_s), .min = 0,
      .max = TIMEOUT_MAX_S },
    { "duration", JSON_KIND_INT, JSON_AT(struct time_request, duration_s), .min = 0,
      .max = TIMEOUT_MAX_S },
    { "memory", JSON_KIND_BOOL, JSON_AT(struct time_request, memory) },
};

static bool read_time(struct call *c, struct time_request *q)
{
    struct err e;

    *q = (struct time_request){ 0 };
    if (e2b_bind(c, c->json, time_fields, COUNT_OF(time_fields), q, &e) >= 0)
        return is_there(c);
    call_fail(c, &e);
    return false;
}

/* From now on, be it more or less than before; 0 ends it at once. */
static void set_timeout(struct call *c)
{
    struct time_request q;

    if (read_time(c, &q))
        sandbox_set_ttl(c->sandbox, &c->caller.actor, q.timeout_s * NS_PER_S, one_new(c, answered));
}

static void refresh(struct call *c)
{
    struct time_request q;

    if (read_time(c, &q))
        sandbox_extend(c->sandbox, &c->caller.actor,
                       (q.duration_s ? q.duration_s : TIMEOUT_V1_S) * NS_PER_S,
                       one_new(c, answered));
}

static void connected(struct sandbox_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct one_op, op)->call;
    struct shown s = show(c);

    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 200, write_made, &s);
    call_unref(c);
}

static void connect_for(struct call *c, int64_t usual_s)
{
    struct time_request q;

    if (read_time(c, &q))
        sandbox_extend(c->sandbox, &c->caller.actor,
                       (q.timeout_s ? q.timeout_s : usual_s) * NS_PER_S, one_new(c, connected));
}

static void connect_v1(struct call *c)
{
    connect_for(c, TIMEOUT_V1_S);
}

static void connect_v2(struct call *c)
{
    connect_for(c, TIMEOUT_V2_S);
}

/* --- network --- */

static void was_set(void *user, int r, const struct err *e)
{
    struct call *c = user;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer_empty(c);
    call_unref(c);
}

static void set_network(struct call *c)
{
    AUTO(policy_text_unrefp_) struct policy_text *t = NULL;
    struct e2b_network q = { 0 };
    struct sandbox_egress x;
    struct err e;
    int r = e2b_bind(c, c->json, e2b_network_fields, E2B_NETWORK_FIELD_COUNT, &q, &e);

    if (!is_there(c))
        return;
    if (r >= 0 && !sandbox_egress(c->sandbox, &x))
        r = err_set(&e, ERR_CONFLICT,
                    "this sandbox was made without a network, and cannot get one");
    if (r >= 0)
        r = e2b_network_check(&q, &e);
    if (r >= 0)
        r = e2b_network_text(&q, control_catalog(c->api->control), sandbox_view(c->sandbox).record,
                             &t, &e);
    if (r < 0)
        call_fail(c, &e);
    else
        sandbox_set_policy(c->sandbox, &c->caller.actor, t, was_set, call_ref(c));
}

#define ONE (ROUTE_SANDBOX | ROUTE_LIVE)

const struct route routes_e2b[] = {
    { H1_POST, VERB_CREATE, "/sandboxes", ROUTE_JSON, create_v1, .face = &e2b_face },
    { H1_POST, VERB_CREATE, "/v2/sandboxes", ROUTE_JSON, create_v2, .face = &e2b_face },
    { H1_GET, VERB_READ, "/sandboxes", 0, list, .face = &e2b_face },
    { H1_GET, VERB_READ, "/v2/sandboxes", 0, list, .face = &e2b_face },
    { H1_GET, VERB_READ, "/sandboxes/{id}", ONE, info, .face = &e2b_face },
    { H1_DELETE, VERB_DESTROY, "/sandboxes/{id}", ONE, kill_box, .face = &e2b_face },
    { H1_POST, VERB_EXTEND, "/sandboxes/{id}/timeout", ONE | ROUTE_JSON, set_timeout,
      .face = &e2b_face },
    { H1_POST, VERB_EXTEND, "/sandboxes/{id}/refreshes", ONE | ROUTE_JSON, refresh,
      .face = &e2b_face },
    { H1_POST, VERB_EXTEND, "/sandboxes/{id}/connect", ONE | ROUTE_JSON, connect_v1,
      .face = &e2b_face },
    { H1_POST, VERB_EXTEND, "/v2/sandboxes/{id}/connect", ONE | ROUTE_JSON, connect_v2,
      .face = &e2b_face },
    { H1_POST, VERB_EXTEND, "/sandboxes/{id}/resume", ONE | ROUTE_JSON, connect_v1,
      .face = &e2b_face },
    { H1_PUT, VERB_CREATE, "/sandboxes/{id}/network", ONE | ROUTE_JSON, set_network,
      .face = &e2b_face },
    { .path = NULL },
};
