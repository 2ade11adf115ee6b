/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/rest/openapi.h"

#include <stdio.h>

#include "base/own.h"
#include "edge/core/answers.h"
#include "edge/rest/routes.h"
#include "trust/explain.h"

/* --- parameters --- */

static const struct {
    const char *name, *type, *doc;
} parameters[] = {
    { "after", "integer", "Only events after this sequence number." },
    { "all", "boolean", "Include decided calls." },
    { "before", "integer", "Only records before this sequence number: `next` of the last page." },
    { "caller", "string",
      "Only programs of this caller: uid:UID, a token's id or name, or the sandbox's owner." },
    { "client", "string", "Only programs by this interface: cli, rest, mcp, e2b, daytona or ssh." },
    { "close", "boolean", "Close stdin after the body." },
    { "cursor", "string", "Where the last page ended: its next_cursor." },
    { "follow", "boolean", "Continue with new output." },
    { "id", "string", "An id; of a sandbox also a unique prefix, with `Sandboxer-Ids: short`." },
    { "label", "string", "NAME=VALUE: only sandboxes with this label." },
    { "kind", "string",
      "Which events, with commas between: lifecycle, denied, allowed, egress (both). A stream has "
      "lifecycle,denied unless asked otherwise; an answer only has lifecycle." },
    { "limit", "integer", "Maximum number of results." },
    { "mode", "string", "Octal permissions." },
    { "n", "integer", "A process's number in its sandbox." },
    { "name", "string", "Name of a host, or of the new image or snapshot." },
    { "path", "string", "Absolute path inside the sandbox." },
    { "platform", "string", "OS/ARCHITECTURE[/VARIANT] to take from a multi-platform archive." },
    { "port", "integer", "Port on the sandbox's loopback interface, 1 to 65535." },
    { "process", "integer", "Only of this process." },
    { "profile", "string", "Only those of this profile." },
    { "ref", "string", "An image: [HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]." },
    { "replay", "string", "no: without buffered output." },
    { "snapshot", "string", "Id or name of a snapshot." },
    { "squash_owners", "boolean", "Make root the owner of all files." },
    { "state", "string", "Only those in this state; all: in any." },
    { "sync", "string",
      "yes: bring the changes of a mirrored workspace back, also with at_end keep; no: leave them; "
      "force: overwrite conflicts." },
    { "unsynced", "string",
      "Changes that cannot be synced back: keep (in a snapshot; default), refuse or discard." },
    { "tail", "integer", "Only that many of the last lines, or events." },
    { "type", "string", "Only events of this type, such as sandbox.ready." },
    { "since", "string", "Only records since this time (RFC 3339), or this long ago (10m)." },
    { "until", "string",
      "Only records before this time (RFC 3339), or until this long ago (10m)." },
    { "host", "string", "Only decisions on this host: its name or address." },
    { "action", "string", "Only decisions with this result: denied or allowed." },
    { "program", "string",
      "Only this program: its path inside, or its last part; of commands, also a pattern." },
    { "failed", "boolean", "Only programs that ended in another way than with the exit code 0." },
    { "status", "string", "Only programs with this exit code or outcome, such as timed_out." },
    { "expect", "string", "SEQ:DIGEST of an event, as /v1/audit/head returns them." },
    { "usage", "boolean", "Take a sample of its use of the machine, and add it." },
    { "user", "string", "User to act as: a name, UID or UID:GID; default: root." },
    { "without_image", "boolean", "Omit the layers of its base image." },
    { "wait", "integer", "Seconds to wait for a change." },
};

static void write_parameter(struct json_writer *w, struct str name, const char *in, bool required,
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
    json_field_str(w, "name", name);
    json_field_cstr(w, "in", in);
    json_field_cstr(w, "description", parameters[i].doc);
    json_field_bool(w, "required", required);
    json_field_begin_object(w, "schema");
    if (repeatable) {
        json_field_cstr(w, "type", "array");
        json_field_begin_object(w, "items");
    }
    json_field_cstr(w, "type", parameters[i].type);
    if (repeatable)
        json_end_object(w);
    json_end_object(w);
    json_end_object(w);
}

static void write_parameters(struct json_writer *w, const struct route *r)
{
    struct str path = str_from(r->path), query = str_from(r->query), word;

    json_field_begin_array(w, "parameters");
    while (path.p) {
        path = str_cut(path, '/', &word);
        if (word.n && word.p[0] == '{')
            write_parameter(w, (struct str){ word.p + 1, word.n - 2 }, "path", true, false);
    }
    while (query.p) {
        char last;

        query = str_cut(query, ' ', &word);
        last = word.n ? word.p[word.n - 1] : 0;
        if (last == '!' || last == '*')
            word.n--;
        write_parameter(w, word, "query", last == '!', last == '*');
    }
    json_end_array(w);
}

/* --- bodies --- */

static void write_media(struct json_writer *w, const char *media)
{
    json_field_written(w, media,
                       strcmp(media, "application/json") == 0
                           ? STR("{\"schema\":{\"type\":\"object\"}}")
                           : STR("{\"schema\":{\"type\":\"string\"}}"));
}

static void write_request_body_schema(struct json_writer *w, const struct route *r)
{
    if (!(r->flags & (ROUTE_JSON | ROUTE_TEXT | ROUTE_STREAM)))
        return;
    json_field_begin_object(w, "requestBody");
    json_field_begin_object(w, "content");
    if (r->flags & ROUTE_JSON) {
        json_field_begin_object(w, "application/json");
        json_key(w, STR("schema"));
        json_schema(r->fields, r->field_count ? *r->field_count : 0, JSON_SCHEMA_EXACT, w);
        json_end_object(w);
    } else {
        write_media(w, r->media ? r->media : "application/octet-stream");
    }
    json_end_object(w);
    json_end_object(w);
}

static void write_problem_response(struct json_writer *w, const char *status,
                                   const char *description)
{
    json_field_begin_object(w, status);
    json_field_cstr(w, "description", description);
    json_field_written(w, "content",
                       STR("{\"application/problem+json\":{\"schema\":"
                           "{\"$ref\":\"#/components/schemas/Problem\"}}}"));
    json_end_object(w);
}

/* Writes the content of an answer: media types and schema names, one for each possible form. */
static void write_answers(struct json_writer *w, const char *answers)
{
    struct str rest = str_from(answers), word;
    char media[64], schema[128];

    json_field_begin_object(w, "content");
    while (rest.p) {
        rest = str_cut(rest, ' ', &word);
        snprintf(schema, sizeof schema,
                 "{\"schema\":{\"$ref\":\"#/components/schemas/" STR_FMT "\"}}", STR_ARG(word));
        if (str_find(word, '/') == word.n)
            json_field_written(w, "application/json", str_from(schema));
        else if (str_copy(word, media, sizeof media))
            write_media(w, media);
    }
    json_end_object(w);
}

static void write_responses(struct json_writer *w, const struct route *r)
{
    char status[16];

    snprintf(status, sizeof status, "%d", r->status ? (int)r->status : 200);
    json_field_begin_object(w, "responses");
    json_field_begin_object(w, status);
    json_field_cstr(w, "description", r->status == 204 ? "Done." : "Success.");
    if (r->answer)
        write_answers(w, r->answer);
    json_end_object(w);
    write_problem_response(w, "4XX", "Refused; `code` says why.");
    write_problem_response(w, "5XX", "Failed; `code` says why.");
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
static void write_operation_id(struct json_writer *w, const struct route *r)
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
    json_field_str(w, "operationId", buf_str(&text));
}

static void write_operation(struct json_writer *w, const struct route *r)
{
    json_field_begin_object(w, methods[r->method]);
    json_field_cstr(w, "summary", r->summary);
    write_operation_id(w, r);
    write_parameters(w, r);
    write_request_body_schema(w, r);
    write_responses(w, r);
    if (r->flags & ROUTE_OPEN) {
        json_field_begin_array(w, "security");
        json_end_array(w);
    }
    json_end_object(w);
}

/* Writes the operations of a path, with the first of its routes. */
static void write_path_item(struct json_writer *w, const struct route *first)
{
    bool begun = false;

    for (size_t t = 0; rest_dialect.tables[t]; t++)
        for (const struct route *r = rest_dialect.tables[t]; r->path; r++) {
            if (strcmp(r->path, first->path) != 0)
                continue;
            if (!begun && r != first)
                return; /* the path was written before */
            if (!begun)
                json_field_begin_object(w, r->path);
            begun = true;
            write_operation(w, r);
        }
    json_end_object(w);
}

static const struct json_shape *const *const answers[] = {
    answers_approvals, answers_audit,      answers_call,    answers_checkpoints, answers_collected,
    answers_egress,    answers_egress_log, answers_events,  answers_expire,      answers_files,
    answers_hosts,     answers_images,     answers_meta,    answers_peers,       answers_ports,
    answers_processes, answers_profiles,   answers_sandbox, answers_sandboxes,   answers_secrets,
    answers_snapshots, answers_ssh,        answers_stats,   answers_sync,        answers_tokens,
    answers_trust,     trust_answers,      answers_daemon,  answers_commands,
};

#define INFO                                                                                       \
    "{\"title\":\"sandboxer\",\"version\":\"" SANDBOXER_VERSION "\","                              \
    "\"description\":\"Sandboxes for agents. On the unix socket a caller is its uid; on TCP it "   \
    "sends a token.\",\"license\":{\"name\":\"Apache-2.0\",\"identifier\":\"Apache-2.0\"}}"

int openapi_write(struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_cstr(&w, "openapi", "3.1.0");
    json_field_written(&w, "info", STR(INFO));
    json_field_written(&w, "servers", STR("[{\"url\":\"/\"}]"));
    json_field_written(&w, "security", STR("[{\"token\":[]}]"));
    json_field_begin_object(&w, "paths");
    for (size_t t = 0; rest_dialect.tables[t]; t++)
        for (const struct route *r = rest_dialect.tables[t]; r->path; r++)
            write_path_item(&w, r);
    json_end_object(&w);
    json_field_begin_object(&w, "components");
    json_field_written(&w, "securitySchemes",
                       STR("{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}}"));
    json_field_begin_object(&w, "schemas");
    for (size_t i = 0; i < COUNT_OF(answers); i++)
        for (const struct json_shape *const *s = answers[i]; *s; s++) {
            json_key(&w, str_from((*s)->name));
            json_shape_schema(*s, &w);
        }
    json_end_object(&w);
    json_end_object(&w);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}
