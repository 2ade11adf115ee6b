/* SPDX-License-Identifier: Apache-2.0 */
/* A server of the official conformance suite's fixtures: our engine and transport with the tools,
 * resources and prompts that the suite names. Built for tests only. */
#ifndef MCP_FIXTURE_H
#define MCP_FIXTURE_H

#include "edge/mcp/request.h"

#define FIXTURE_PNG                                                                                \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJg" \
    "gg=="
#define FIXTURE_WAV "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="

/* Adds the members of a JSON object to the result, and sends it. */
void fixture_reply(struct mcp_request *r, const char *json);
/* {"content":[{"type":"text",…}]} */
void fixture_text(struct mcp_request *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A value as JSON text, on the request's arena. */
const char *fixture_show(struct mcp_request *r, const struct json *v);

extern const struct mcp_tool fixture_tools[];
extern const size_t fixture_tool_count;
extern const struct mcp_prompt fixture_prompts[];
extern const size_t fixture_prompt_count;

#endif
