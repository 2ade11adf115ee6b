/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/json/reader.h"
#include "lib/loop/timer.h"
#include "mcp/fixture.h"

/* --- constant answers --- */

static void simple_text(struct mcp_request *r, const struct json *v)
{
    fixture_text(r, "This is a simple text response for testing.");
}

static void image(struct mcp_request *r, const struct json *v)
{
    fixture_reply(r, "{\"content\":[{\"type\":\"image\",\"data\":\"" FIXTURE_PNG
                     "\",\"mimeType\":\"image/png\"}]}");
}

static void audio(struct mcp_request *r, const struct json *v)
{
    fixture_reply(r, "{\"content\":[{\"type\":\"audio\",\"data\":\"" FIXTURE_WAV
                     "\",\"mimeType\":\"audio/wav\"}]}");
}

static void embedded(struct mcp_request *r, const struct json *v)
{
    fixture_reply(r, "{\"content\":[{\"type\":\"resource\",\"resource\":{\"uri\":"
                     "\"test://embedded-resource\",\"mimeType\":\"text/plain\",\"text\":"
                     "\"This is an embedded resource content.\"}}]}");
}

static void mixed(struct mcp_request *r, const struct json *v)
{
    fixture_reply(r,
                  "{\"content\":[{\"type\":\"text\",\"text\":\"Multiple content types test:\"},"
                  "{\"type\":\"image\",\"data\":\"" FIXTURE_PNG "\",\"mimeType\":\"image/png\"},"
                  "{\"type\":\"resource\",\"resource\":{\"uri\":\"test://mixed-content-resource\","
                  "\"mimeType\":\"application/json\",\"text\":"
                  "\"{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}\"}}]}");
}

static void failing(struct mcp_request *r, const struct json *v)
{
    mcp_tool_fail(r, "This tool intentionally returns an error for testing");
}

/* --- in steps --- */

enum { STEP_MS = 50, STEPS = 3 };

struct steps {
    struct loop_timer timer;
    struct mcp_request *request;
    void (*at)(struct mcp_request *r, int step);
    int step;
};

static void steps_end(struct mcp_request *r)
{
    struct steps *s = r->state;

    loop_timer_stop(&s->timer);
}

static void next_step(struct loop_timer *t)
{
    struct steps *s = container_of(t, struct steps, timer);

    if (s->step < STEPS)
        s->at(s->request, s->step++);
    if (s->step < STEPS)
        loop_timer_start(t->loop, t, clock_mono() + STEP_MS * NS_PER_MS, next_step, NULL);
    else
        fixture_text(s->request, "The tool has run.");
}

static void run_steps(struct mcp_request *r, void (*at)(struct mcp_request *r, int step))
{
    struct steps *s = arena_alloc(&r->arena, sizeof *s);

    s->request = r;
    s->at = at;
    r->state = s;
    r->on_end = r->on_cancel = steps_end;
    loop_timer_start(r->session->loop, &s->timer, clock_mono(), next_step, NULL);
}

static void log_step(struct mcp_request *r, int step)
{
    static const char *const texts[] = { "Tool execution started", "Tool processing data",
                                         "Tool execution completed" };

    mcp_log(r, MCP_INFO, "fixture", str_from(texts[step]));
}

static void with_logging(struct mcp_request *r, const struct json *v)
{
    run_steps(r, log_step);
}

static void progress_step(struct mcp_request *r, int step)
{
    mcp_progress(r, (uint64_t)step * 50, 100, STR(""), NULL, NULL);
}

static void with_progress(struct mcp_request *r, const struct json *v)
{
    run_steps(r, progress_step);
}

/* --- asking the client --- */

static struct str text_of(const struct json *v, const char *name)
{
    const struct json *m = v ? json_get(v, str_from(name)) : NULL;

    return m && m->type == JSON_STR ? m->s : STR("");
}

static const struct json *object_of(const struct json *v, const char *name)
{
    const struct json *m = v ? json_get(v, str_from(name)) : NULL;

    return m && m->type == JSON_OBJECT ? m : NULL;
}

/* "PARAMS" with a quoted text in the place of %s. */
static struct str with_text(struct mcp_request *r, const char *before, struct str text,
                            const char *after)
{
    AUTO(buf_done) struct buf out = BUF_INIT(64 << 10);
    struct json_writer w;

    buf_add(&out, str_from(before));
    json_writer_init(&w, &out, JSON_COMPACT);
    json_put_lossy(&w, text);
    json_writer_finish(&w, NULL);
    buf_add(&out, str_from(after));
    return str_from(arena_dup(&r->arena, buf_str(&out)));
}

static void sampling(struct mcp_request *r, const struct json *v)
{
    struct str params =
        with_text(r,
                  "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\","
                  "\"text\":",
                  text_of(v, "prompt"), "}}],\"maxTokens\":100}");
    const struct json *a = mcp_input(r, "sample", "sampling/createMessage", params);

    if (a)
        fixture_text(r, "LLM response: %s", text_of(object_of(a, "content"), "text").p);
}

#define SCHEMA(properties) "{\"type\":\"object\",\"properties\":{" properties "}"

static void elicit(struct mcp_request *r, const char *key, struct str params, const char *before)
{
    const struct json *a = mcp_input(r, key, "elicitation/create", params);

    if (a)
        fixture_text(r, "%s: action=%s, content=%s", before, text_of(a, "action").p,
                     object_of(a, "content") ? fixture_show(r, object_of(a, "content")) : "{}");
}

static void elicitation(struct mcp_request *r, const struct json *v)
{
    struct str params =
        with_text(r, "{\"message\":", text_of(v, "message"),
                  ",\"requestedSchema\":" SCHEMA(
                      "\"username\":{\"type\":\"string\",\"description\":\"User's response\"},"
                      "\"email\":{\"type\":\"string\",\"description\":\"User's email "
                      "address\"}") ","
                                    "\"required\":[\"username\",\"email\"]}}");

    elicit(r, "user", params, "User response");
}

static void defaults(struct mcp_request *r, const struct json *v)
{
    elicit(r, "defaults",
           STR("{\"message\":\"Please check\",\"requestedSchema\":" SCHEMA(
               "\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},"
               "\"age\":{\"type\":\"integer\",\"default\":30},"
               "\"score\":{\"type\":\"number\",\"default\":95.5},"
               "\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],"
               "\"default\":\"active\"},"
               "\"verified\":{\"type\":\"boolean\",\"default\":true}") ",\"required\":[]}}"),
           "Elicitation completed");
}

static void enums(struct mcp_request *r, const struct json *v)
{
    elicit(r, "enums",
           STR("{\"message\":\"Please choose\",\"requestedSchema\":" SCHEMA(
               "\"untitledSingle\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\","
               "\"option3\"]},"
               "\"titledSingle\":{\"type\":\"string\",\"oneOf\":[{\"const\":\"value1\",\"title\":"
               "\"First Option\"},{\"const\":\"value2\",\"title\":\"Second Option\"},{\"const\":"
               "\"value3\",\"title\":\"Third Option\"}]},"
               "\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],"
               "\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},"
               "\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":"
               "[\"option1\",\"option2\",\"option3\"]}},"
               "\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"value1\","
               "\"title\":\"First Choice\"},{\"const\":\"value2\",\"title\":\"Second Choice\"},"
               "{\"const\":\"value3\",\"title\":\"Third Choice\"}]}}") ",\"required\":[]}}"),
           "Elicitation completed");
}

#define ASK(message, property, type)                                                               \
    "{\"message\":\"" message                                                                      \
    "\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"" property                      \
    "\":{\"type\":\"" type "\"}},\"required\":[\"" property "\"]}}"

static const struct json *ask_name(struct mcp_request *r)
{
    return mcp_input(r, "user_name", "elicitation/create",
                     STR(ASK("What is your name?", "name", "string")));
}

static void ask_elicitation(struct mcp_request *r, const struct json *v)
{
    const struct json *a = ask_name(r);
    struct str name = text_of(object_of(a, "content"), "name");

    if (a && name.n)
        fixture_text(r, "Hello, %s!", name.p);
    else if (a)
        mcp_fail(r, RPC_INVALID_PARAMS, "user_name: is no answer to what was asked");
}

static const struct json *ask_model(struct mcp_request *r, const char *key, const char *question)
{
    return mcp_input(r, key, "sampling/createMessage",
                     with_text(r,
                               "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\","
                               "\"text\":",
                               str_from(question), "}}],\"maxTokens\":100}"));
}

static void ask_sampling(struct mcp_request *r, const struct json *v)
{
    const struct json *a = ask_model(r, "capital_question", "What is the capital of France?");

    if (a)
        fixture_text(r, "%s", text_of(object_of(a, "content"), "text").p);
}

static const struct json *ask_for_roots(struct mcp_request *r)
{
    return mcp_input(r, "client_roots", "roots/list", STR("{}"));
}

static void ask_roots(struct mcp_request *r, const struct json *v)
{
    const struct json *a = ask_for_roots(r);

    if (a)
        fixture_text(r, "Roots: %s", fixture_show(r, a));
}

static void ask_state(struct mcp_request *r, const struct json *v)
{
    const struct json *a =
        mcp_input(r, "confirm", "elicitation/create", STR(ASK("Please confirm", "ok", "boolean")));

    if (a)
        fixture_text(r, "%s", strcmp(r->note, "asked") == 0 ? "state-ok" : "the state is missing");
    else
        snprintf(r->note, sizeof r->note, "asked");
}

static void ask_many(struct mcp_request *r, const struct json *v)
{
    const struct json *name = ask_name(r);
    const struct json *greeting = ask_model(r, "greeting", "Generate a greeting");
    const struct json *roots = ask_for_roots(r);

    if (name && greeting && roots)
        fixture_text(r, "%s %s %s", fixture_show(r, name), fixture_show(r, greeting),
                     fixture_show(r, roots));
}

static void ask_twice(struct mcp_request *r, const struct json *v)
{
    const struct json *a;

    if (!r->note[0]) {
        a = mcp_input(r, "step1", "elicitation/create",
                      STR(ASK("Step 1: What is your name?", "name", "string")));
        snprintf(r->note, sizeof r->note, "step1");
        if (!a)
            return;
    } else if (strcmp(r->note, "step1") == 0 &&
               !mcp_input(r, "step1", "elicitation/create",
                          STR(ASK("Step 1: What is your name?", "name", "string")))) {
        return;
    }
    a = mcp_input(r, "step2", "elicitation/create",
                  STR(ASK("Step 2: What is your favorite color?", "color", "string")));
    snprintf(r->note, sizeof r->note, "step2");
    if (a)
        fixture_text(r, "Both steps are done: %s", fixture_show(r, a));
}

/* Asks for what the client said it can do, and only that. */
static void ask_what_it_can(struct mcp_request *r, const struct json *v)
{
    const struct json *name = NULL, *greeting = NULL;

    if (mcp_client_supports(r, "elicitation/create"))
        name = ask_name(r);
    if (mcp_client_supports(r, "sampling/createMessage"))
        greeting = ask_model(r, "greeting", "Generate a greeting");
    if (name || greeting ||
        (!mcp_client_supports(r, "elicitation/create") &&
         !mcp_client_supports(r, "sampling/createMessage")))
        fixture_text(r, "That is all that could be asked.");
}

/* --- tasks --- */

static void greet(struct mcp_request *r, const struct json *v)
{
    struct str name = text_of(v, "name");

    fixture_text(r, "Hello, %s!", name.n ? name.p : "World");
}

struct pause {
    struct loop_timer timer;
    struct mcp_request *request;
    void (*then)(struct mcp_request *r);
};

static void pause_end(struct mcp_request *r)
{
    struct pause *p = r->state;

    loop_timer_stop(&p->timer);
}

static void pause_over(struct loop_timer *t)
{
    struct pause *p = container_of(t, struct pause, timer);

    p->then(p->request);
}

static void after(struct mcp_request *r, int64_t ns, void (*then)(struct mcp_request *r))
{
    struct pause *p = arena_alloc(&r->arena, sizeof *p);

    p->request = r;
    p->then = then;
    r->state = p;
    r->on_end = r->on_cancel = pause_end;
    loop_timer_start(r->session->loop, &p->timer, clock_mono() + ns, pause_over, NULL);
}

static void computed(struct mcp_request *r)
{
    fixture_text(r, "The computation is done. %s", r->note);
}

static void slow_compute(struct mcp_request *r, const struct json *v)
{
    const struct json *s = json_get(v, STR("seconds"));

    mcp_task_begin(r);
    after(r, s && s->type == JSON_INT ? s->i * NS_PER_S : NS_PER_S, computed);
}

/* What it needs comes first, the task then. */
static void asks_then_task(struct mcp_request *r, const struct json *v)
{
    const struct json *a = ask_name(r);

    if (!a)
        return;
    snprintf(r->note, sizeof r->note, "%.100s", text_of(object_of(a, "content"), "name").p);
    slow_compute(r, v);
}

static void job_failed(struct mcp_request *r)
{
    mcp_tool_fail(r, "The job failed.");
}

static void failing_job(struct mcp_request *r, const struct json *v)
{
    after(r, STEP_MS * NS_PER_MS, job_failed);
}

static void job_broke(struct mcp_request *r)
{
    mcp_fail(r, RPC_INTERNAL, "The job broke the protocol.");
}

static void protocol_error_job(struct mcp_request *r, const struct json *v)
{
    after(r, STEP_MS * NS_PER_MS, job_broke);
}

static void confirm_delete(struct mcp_request *r, const struct json *v)
{
    const struct json *a =
        mcp_input(r, "confirm", "elicitation/create", STR(ASK("Delete it?", "confirm", "boolean")));

    if (a)
        fixture_text(r, "Deleted: %s", fixture_show(r, a));
}

static void multi_input(struct mcp_request *r, const struct json *v)
{
    const struct json *a = ask_name(r);
    const struct json *b =
        mcp_input(r, "color", "elicitation/create", STR(ASK("Which color?", "color", "string")));

    if (a && b)
        fixture_text(r, "%s %s", fixture_show(r, a), fixture_show(r, b));
}

/* --- changes --- */

static void change_tools(struct mcp_request *r, const struct json *v)
{
    mcp_list_changed(r->session->server, MCP_TOOLS);
    fixture_text(r, "The tools have changed.");
}

static void change_prompts(struct mcp_request *r, const struct json *v)
{
    mcp_list_changed(r->session->server, MCP_PROMPTS);
    fixture_text(r, "The prompts have changed.");
}

static void needs_sampling(struct mcp_request *r, const struct json *v)
{
    sampling(r, v);
}

static void rich_schema(struct json_writer *w)
{
    static const char text[] =
        "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\","
        "\"$defs\":{\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{"
        "\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},\"properties\":{"
        "\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"},"
        "\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},\"phone\":{"
        "\"type\":\"string\"},\"email\":{\"type\":\"string\"}},\"allOf\":[{\"anyOf\":[{"
        "\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],\"if\":{\"properties\":{"
        "\"contactMethod\":{\"const\":\"phone\"}},\"required\":[\"contactMethod\"]},\"then\":{"
        "\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]},"
        "\"additionalProperties\":false}";
    const struct json_limits limits = { .bytes = sizeof text, .depth = 16 };
    AUTO(arena_done) struct arena a = ARENA_INIT(64 << 10);
    const struct json *v;

    if (json_read(STR(text), limits, &a, &v, NULL) >= 0)
        json_put_tree(w, v);
}

struct text_arguments {
    const char *text;
};
static const struct json_field prompt_fields[] = {
    { "prompt", JSON_KIND_STR, JSON_AT(struct text_arguments, text), .required = true },
};
static const struct json_field message_fields[] = {
    { "message", JSON_KIND_STR, JSON_AT(struct text_arguments, text), .required = true },
};
static const struct json_field name_fields[] = {
    { "name", JSON_KIND_STR, JSON_AT(struct text_arguments, text) },
};
struct seconds_arguments {
    int64_t seconds;
};
static const struct json_field seconds_fields[] = {
    { "seconds", JSON_KIND_INT, JSON_AT(struct seconds_arguments, seconds) },
};

#define TOOL(name_, call_, ...)                                                                    \
    {                                                                                              \
        .name = (name_), .description = "A fixture.", .call = (call_), __VA_ARGS__                 \
    }
#define PLAIN(name_, call_) TOOL(name_, call_, .hints = MCP_NO_HINTS)

const struct mcp_tool fixture_tools[] = {
    PLAIN("test_simple_text", simple_text),
    PLAIN("test_image_content", image),
    PLAIN("test_audio_content", audio),
    PLAIN("test_embedded_resource", embedded),
    PLAIN("test_multiple_content_types", mixed),
    PLAIN("test_error_handling", failing),
    PLAIN("test_tool_with_logging", with_logging),
    PLAIN("test_logging_tool", with_logging),
    PLAIN("test_tool_with_progress", with_progress),
    TOOL("test_sampling", sampling, .hints = MCP_NO_HINTS, JSON_FIELDS(prompt_fields)),
    PLAIN("test_missing_capability", needs_sampling),
    TOOL("test_elicitation", elicitation, .hints = MCP_NO_HINTS, JSON_FIELDS(message_fields)),
    PLAIN("test_elicitation_sep1034_defaults", defaults),
    PLAIN("test_elicitation_sep1330_enums", enums),
    PLAIN("test_streaming_elicitation", ask_elicitation),
    PLAIN("test_input_required_result_elicitation", ask_elicitation),
    PLAIN("test_input_required_result_sampling", ask_sampling),
    PLAIN("test_input_required_result_list_roots", ask_roots),
    PLAIN("test_input_required_result_request_state", ask_state),
    PLAIN("test_input_required_result_multiple_inputs", ask_many),
    PLAIN("test_input_required_result_multi_round", ask_twice),
    PLAIN("test_input_required_result_tampered_state", ask_state),
    PLAIN("test_input_required_result_capabilities", ask_what_it_can),
    PLAIN("test_trigger_tool_change", change_tools),
    PLAIN("test_trigger_prompt_change", change_prompts),
    TOOL("json_schema_2020_12_tool", simple_text, .hints = MCP_NO_HINTS, .schema = rich_schema),
    TOOL("greet", greet, .hints = MCP_NO_HINTS, JSON_FIELDS(name_fields)),
    TOOL("slow_compute", slow_compute, .hints = MCP_NO_HINTS, JSON_FIELDS(seconds_fields)),
    TOOL("failing_job", failing_job, .hints = MCP_NO_HINTS | MCP_MUST_BE_TASK),
    TOOL("protocol_error_job", protocol_error_job, .hints = MCP_NO_HINTS | MCP_MUST_BE_TASK),
    TOOL("confirm_delete", confirm_delete, .hints = MCP_NO_HINTS | MCP_MUST_BE_TASK),
    TOOL("multi_input", multi_input, .hints = MCP_NO_HINTS | MCP_MUST_BE_TASK),
    TOOL("test_tool_with_task", asks_then_task, .hints = MCP_NO_HINTS),
};
const size_t fixture_tool_count = COUNT_OF(fixture_tools);
