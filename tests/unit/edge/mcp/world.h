/* SPDX-License-Identifier: Apache-2.0 */
/* A session whose client is the test: what it says goes in as text, what it hears is kept. */
#ifndef TESTS_MCP_WORLD_H
#define TESTS_MCP_WORLD_H

#include "edge/mcp/request.h"

enum { WORLD_MAX = 1 << 20 };

extern struct loop world_loop;
extern struct mcp_server world_server;
extern struct mcp_session *world_session;
extern struct mcp_out world_out;
extern struct mcp_request *world_held;  /* by the tool `hold`; NULL: none */
extern struct mcp_request *world_asked; /* a call of the tool `slow` that waits for a verdict */
extern unsigned world_cancelled, world_ended, world_meetings, world_refusals;
extern unsigned world_users;           /* 1: something is under way in the session */
extern struct mcp_source world_source; /* of test://live */
extern unsigned world_unwatched, world_pokes;
extern bool world_shy;          /* who a client is, is told with mcp_met() by the test */
extern char world_refusal[256]; /* the last on record */

void world_open(void);
void world_decide(enum mcp_verdict_kind kind); /* of world_asked */
/* The same of a resource: test://slow. */
void world_watch(bool there);
/* Says it, lets the loop turn, and is what was heard since: a line each. */
struct str world_say(const char *text);
struct str world_heard(void);
void world_turn(void);

#define INIT(version)                                                                              \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"     \
    "\"" version                                                                                   \
    "\",\"capabilities\":{\"elicitation\":{}},\"clientInfo\":{\"name\":\"t\",\"version\":"         \
    "\"1\"}}}"
#define NEW(id, method, can, more)                                                                 \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":{\"_meta\":{"         \
    "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                  \
    "\"io.modelcontextprotocol/clientCapabilities\":" can "}" more "}}"
#define OLD(id, method, params)                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":" params "}"

#endif
