/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and results of the tools as structs; arguments.c has their tables. */
#ifndef EDGE_TOOLS_ARGUMENTS_H
#define EDGE_TOOLS_ARGUMENTS_H

#include "edge/tools/tools.h"

enum mcp_encoding { ENCODING_TEXT, ENCODING_BASE64 };
enum mcp_manager { MANAGER_APT, MANAGER_PIP, MANAGER_NPM, MANAGER_CARGO, MANAGER_GO };
extern const char *const mcp_encoding_names[], *const mcp_manager_names[];

struct tool_create {
    struct create_request request; /* first: offsets in capability_fields start here */
    const char *provider;
};

struct tool_created {
    const char *sandbox_id, *profile, *provider, *provider_version;
    const char *isolation_level, *egress_policy, *expires_at, *workdir;
    int64_t cold_start_ms;
    struct json_strs language_support;
    bool attestation;
};

struct tool_list {
    uint32_t limit;
    const char *cursor;
};

struct tool_listed_box {
    const char *sandbox_id, *state, *profile, *provider, *created_at, *expires_at;
};

struct tool_listed {
    const char *provider_version, *next_cursor;
    struct json_objects sandboxes; /* of struct tool_listed_box */
};

struct tool_destroy {
    const char *sandbox_id;
};

struct tool_destroyed {
    const char *sandbox_id, *state, *kept_snapshot;
};

struct tool_exec {
    const char *sandbox_id, *command, *cwd, *stdin_;
    struct json_strs argv;
    struct json_map env;
    int64_t timeout_s;
};

struct tool_install {
    const char *sandbox_id;
    enum mcp_manager manager;
    struct json_strs packages;
    int64_t timeout_s;
};

struct tool_executed {
    int64_t exit_code, duration_ms;
    bool exited;        /* exit_code is valid */
    const char *signal; /* or NULL */
    bool timed_out, truncated;
    const char *stdout_, *stderr_, *stdout_b64, *stderr_b64;
};

struct tool_read {
    const char *sandbox_id, *path;
    enum mcp_encoding encoding;
};

struct tool_content {
    const char *path, *content;
    enum mcp_encoding encoding;
    uint64_t bytes;
};

struct tool_write {
    const char *sandbox_id, *path, *content;
    enum mcp_encoding encoding;
};

struct tool_written {
    const char *path;
    uint64_t bytes;
};

/* Answers with a struct as described by the result table of the request's tool. */
void mcp_tool_answer(struct mcp_request *r, const void *result);

#endif
