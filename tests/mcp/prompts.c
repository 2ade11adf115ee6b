/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "mcp/fixture.h"

static void simple(struct mcp_request *r, const struct json *v)
{
    mcp_prompt_text(r, NULL, STR("This is a simple prompt for testing."));
}

static struct str argument(const struct json *v, const char *name)
{
    const struct json *m = v ? json_get(v, str_from(name)) : NULL;

    return m && m->type == JSON_STR ? m->s : STR("");
}

static void with_arguments(struct mcp_request *r, const struct json *v)
{
    AUTO(buf_done) struct buf text = BUF_INIT(4096);

    buf_addf(&text, "Prompt with arguments: arg1='%s', arg2='%s'", argument(v, "arg1").p,
             argument(v, "arg2").p);
    mcp_prompt_text(r, NULL, buf_str(&text));
}

static void with_resource(struct mcp_request *r, const struct json *v)
{
    AUTO(buf_done) struct buf text = BUF_INIT(8192);
    struct json_writer w;

    buf_add(&text, STR("{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"resource\","
                       "\"resource\":{\"uri\":"));
    json_writer_init(&w, &text, JSON_COMPACT);
    json_put_str(&w, argument(v, "resourceUri"));
    json_writer_finish(&w, NULL);
    buf_add(&text, STR(",\"mimeType\":\"text/plain\",\"text\":\"Embedded resource content for "
                       "testing.\"}}},{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":"
                       "\"Please process the embedded resource above.\"}}]}"));
    fixture_reply(r, text.p);
}

static void with_image(struct mcp_request *r, const struct json *v)
{
    fixture_reply(r, "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"image\",\"data\":"
                     "\"" FIXTURE_PNG "\",\"mimeType\":\"image/png\"}},{\"role\":\"user\","
                     "\"content\":{\"type\":\"text\",\"text\":\"Please analyze the image "
                     "above.\"}}]}");
}

static void with_input(struct mcp_request *r, const struct json *v)
{
    const struct json *a =
        mcp_input(r, "user_context", "elicitation/create",
                  STR("{\"message\":\"What context should the prompt use?\",\"requestedSchema\":{"
                      "\"type\":\"object\",\"properties\":{\"context\":{\"type\":\"string\"}},"
                      "\"required\":[\"context\"]}}"));

    if (a)
        mcp_prompt_text(r, NULL, str_from(fixture_show(r, a)));
}

static const struct mcp_argument two[] = { { "arg1", "First test argument", true },
                                           { "arg2", "Second test argument", true },
                                           { NULL, NULL, false } };
static const struct mcp_argument uri[] = { { "resourceUri", "URI of the resource to embed", true },
                                           { NULL, NULL, false } };

const struct mcp_prompt fixture_prompts[] = {
    { "test_simple_prompt", NULL, "A fixture.", NULL, simple },
    { "test_prompt_with_arguments", NULL, "A fixture.", two, with_arguments },
    { "test_prompt_with_embedded_resource", NULL, "A fixture.", uri, with_resource },
    { "test_prompt_with_image", NULL, "A fixture.", NULL, with_image },
    { "test_input_required_result_prompt", NULL, "A fixture.", NULL, with_input },
};
const size_t fixture_prompt_count = COUNT_OF(fixture_prompts);
