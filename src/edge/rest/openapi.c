#include "api/openapi.h"

#include <stdio.h>

#include "api/route.h"

static void put(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, str_from(key));
    json_put_str(w, str_from(value));
}

static void begin(struct json_writer *w, const char *key)
{
    json_key(w, str_from(key));
    json_begin_object(w);
}

/* --- parameters --- */

static const struct {
    const char *name, *type, *doc;
} parameters[] = {
    { "after", "integer", "Only events behind this sequence number." },
    { "all", "boolean", "Those that are decided, too." },
    { "close", "boolean", "Close it afterwards." },
    { "cursor", "string", "Where the last page ended: its next_cursor." },
    { "follow", "boolean", "Go on with what comes." },
    { "id", "string", "Of a sandbox, a unique start of it is enough." },
    { "label", "string", "NAME=VALUE: only those that have it." },
    { "kind", "string",
      "Which events, with commas between: lifecycle, denied, allowed, egress (both). A stream has "
      "lifecycle,denied unless asked otherwise; an answer only has lifecycle." },
    { "limit", "integer", "At most that many." },
    { "mode", "string", "Octal permissions." },
    { "n", "integer", "A process's number in its sandbox." },
    { "name", "string", "What a host is called, or an image or a snapshot shall be." },
    { "path", "string", "From /, inside the sandbox." },
    { "platform", "string", "OS/ARCHITECTURE[/VARIANT] of an archive for several." },
    { "port", "integer", "Of the sandbox's own loopback, from 1 to 65535." },
    { "process", "integer", "Only of this process." },
    { "profile", "string", "Only those of this profile." },
    { "ref", "string", "An image: [HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]." },
    { "replay", "string", "no: without what is kept." },
    { "snapshot", "string", "A snapshot's id, or the name that it was given." },
    { "squash_owners", "boolean", "Everything in it belongs to root." },
    { "state", "string", "Only those in this state; all: in any." },
    { "sync", "string", "no: leave a mirrored workspace as it is; force: overwrite." },
    { "unsynced", "string",
      "Changes that cannot be brought back: keep (a snapshot; default), refuse or discard." },
    { "tail", "integer", "Only that many of the last lines." },
    { "since", "string", "Only what is not older than this moment, RFC 3339." },
    { "expect", "string", "SEQ:DIGEST of an event, as a head showed them." },
    { "user", "string", "Whose rights count: a name, UID or UID:GID; root's without." },
    { "without_image", "boolean", "Leave out the layers of the image that it stands on." },
    { "wait", "integer", "Seconds to wait for news." },
};

static void put_parameter(struct json_writer *w, struct str name, const char *in, bool required,
                          bool repeatable)
{
    size_t i = 0;

    while (i + 1 < COUNT_OF(parameters) && !str_eq(name, str_from(parameters[i].name)))
        i++;
    if (!str_eq(name, str_from(parameters[i].name))) {
        json_writer_fail(w, ERR_BUG, "the parameter " STR_FMT " is not described", STR_ARG(name));
        return;
    }
    json_begin_object(w);
    json_key(w, STR("name"));
    json_put_str(w, name);
    put(w, "in", in);
    put(w, "description", parameters[i].doc);
    json_key(w, STR("required"));
    json_put_bool(w, required);
    begin(w, "schema");
    if (repeatable) {
        put(w, "type", "array");
        begin(w, "items");
    }
    put(w, "type", parameters[i].type);
    if (repeatable)
        json_end_object(w);
    json_end_object(w);
    json_end_object(w);
}

static void put_parameters(struct json_writer *w, const struct route *r)
{
    struct str path = str_from(r->path), query = str_from(r->query), word;

    json_key(w, STR("parameters"));
    json_begin_array(w);
    while (path.p) {
        path = str_cut(path, '/', &word);
        if (word.n && word.p[0] == '{')
            put_parameter(w, (struct str){ word.p + 1, word.n - 2 }, "path", true, false);
    }
    while (query.p) {
        char last;

        query = str_cut(query, ' ', &word);
        last = word.n ? word.p[word.n - 1] : 0;
        if (last == '!' || last == '*')
            word.n--;
        put_parameter(w, word, "query", last == '!', last == '*');
    }
    json_end_array(w);
}

/* --- bodies --- */

static void put_media(struct json_writer *w, const char *media)
{
    begin(w, media);
    begin(w, "schema");
    if (strcmp(media, "application/json") == 0)
        put(w, "type", "object");
    else
        put(w, "type", "string");
    json_end_object(w);
    json_end_object(w);
}

static void put_request(struct json_writer *w, const struct route *r)
{
    if (!(r->flags & (ROUTE_JSON | ROUTE_TEXT | ROUTE_STREAM)))
        return;
    begin(w, "requestBody");
    begin(w, "content");
    if (r->flags & ROUTE_JSON) {
        begin(w, "application/json");
        json_key(w, STR("schema"));
        json_schema(r->fields, r->field_count ? *r->field_count : 0, w);
        json_end_object(w);
    } else {
        put_media(w, r->flags & ROUTE_TEXT ? "application/yaml" : "application/octet-stream");
    }
    json_end_object(w);
    json_end_object(w);
}

static void put_schema(struct json_writer *w, const char *media, struct str name)
{
    char reference[96];

    snprintf(reference, sizeof reference, "#/components/schemas/" STR_FMT, STR_ARG(name));
    begin(w, media);
    begin(w, "schema");
    put(w, "$ref", reference);
    json_end_object(w);
    json_end_object(w);
}

static void put_problem(struct json_writer *w, const char *status, const char *description)
{
    begin(w, status);
    put(w, "description", description);
    begin(w, "content");
    put_schema(w, "application/problem+json", STR("Problem"));
    json_end_object(w);
    json_end_object(w);
}

/* Media types and names of schemas, one for each way to be answered. */
static void put_answers(struct json_writer *w, const char *answers)
{
    struct str rest = str_from(answers), word;
    char media[64];

    begin(w, "content");
    while (rest.p) {
        rest = str_cut(rest, ' ', &word);
        if (str_find(word, '/') == word.n)
            put_schema(w, "application/json", word);
        else if (str_copy(word, media, sizeof media))
            put_media(w, media);
    }
    json_end_object(w);
}

static void put_responses(struct json_writer *w, const struct route *r)
{
    char status[16];

    snprintf(status, sizeof status, "%d", r->status ? (int)r->status : 200);
    begin(w, "responses");
    begin(w, status);
    put(w, "description", r->status == 204 ? "Done." : "As asked.");
    if (r->answer)
        put_answers(w, r->answer);
    json_end_object(w);
    put_problem(w, "4XX", "Refused; `code` says why.");
    put_problem(w, "5XX", "Failed; `code` says why.");
    json_end_object(w);
}

/* --- operations --- */

static const char *const methods[] = {
    [H1_GET] = "get",
    [H1_POST] = "post",
    [H1_PUT] = "put",
    [H1_DELETE] = "delete",
};

/* "get_sandboxes_files_list" */
static void put_operation_id(struct json_writer *w, const struct route *r)
{
    struct str path = str_from(r->path), word;
    struct buf text AUTO(buf_done) = BUF_INIT(256);

    buf_addf(&text, "%s", methods[r->method]);
    while (path.p) {
        path = str_cut(path, '/', &word);
        if (word.n && !str_eq(word, STR("v1")))
            buf_addf(&text, word.p[0] == '{' ? "_by_" STR_FMT : "_" STR_FMT,
                     (int)(word.p[0] == '{' ? word.n - 2 : word.n),
                     word.p[0] == '{' ? word.p + 1 : word.p);
    }
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] == '-' || text.p[i] == '.')
            text.p[i] = '_';
    json_key(w, STR("operationId"));
    json_put_str(w, buf_str(&text));
}

static void put_operation(struct json_writer *w, const struct route *r)
{
    begin(w, methods[r->method]);
    put(w, "summary", r->summary);
    put_operation_id(w, r);
    put_parameters(w, r);
    put_request(w, r);
    put_responses(w, r);
    if (r->flags & ROUTE_OPEN) {
        json_key(w, STR("security"));
        json_begin_array(w);
        json_end_array(w);
    }
    json_end_object(w);
}

/* Calls fn for every row until it returns false. */
static void each_route(bool (*fn)(void *user, const struct route *r), void *user)
{
    for (size_t t = 0; route_tables[t]; t++)
        for (const struct route *r = route_tables[t]; r->path; r++)
            if (!fn(user, r))
                return;
}

struct same_path {
    struct json_writer *w;
    const struct route *first;
    const struct route *found;
};

static bool is_first(void *user, const struct route *r)
{
    struct same_path *s = user;

    s->found = r;
    return strcmp(r->path, s->first->path) != 0;
}

static bool put_same(void *user, const struct route *r)
{
    const struct same_path *s = user;

    if (strcmp(r->path, s->first->path) == 0)
        put_operation(s->w, r);
    return true;
}

static bool put_path(void *user, const struct route *r)
{
    struct same_path s = { .w = user, .first = r };

    each_route(is_first, &s);
    if (s.found != r)
        return true; /* its path is described */
    begin(s.w, r->path);
    each_route(put_same, &s);
    json_end_object(s.w);
    return true;
}

static void put_info(struct json_writer *w)
{
    put(w, "openapi", "3.1.0");
    begin(w, "info");
    put(w, "title", "sandboxer");
    put(w, "version", SANDBOXER_VERSION);
    put(w, "description",
        "Sandboxes for agents. On the unix socket a caller is its uid; on TCP it sends a token.");
    begin(w, "license");
    put(w, "name", "Apache-2.0");
    put(w, "identifier", "Apache-2.0");
    json_end_object(w);
    json_end_object(w);
    json_key(w, STR("servers"));
    json_begin_array(w);
    json_begin_object(w);
    put(w, "url", "/");
    json_end_object(w);
    json_end_array(w);
    json_key(w, STR("security"));
    json_begin_array(w);
    json_begin_object(w);
    json_key(w, STR("token"));
    json_begin_array(w);
    json_end_array(w);
    json_end_object(w);
    json_end_array(w);
}

int openapi_write(struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    put_info(&w);
    begin(&w, "paths");
    each_route(put_path, &w);
    json_end_object(&w);
    begin(&w, "components");
    begin(&w, "securitySchemes");
    begin(&w, "token");
    put(&w, "type", "http");
    put(&w, "scheme", "bearer");
    json_end_object(&w);
    json_end_object(&w);
    begin(&w, "schemas");
    openapi_schemas_write(&w);
    json_end_object(&w);
    json_end_object(&w);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}
