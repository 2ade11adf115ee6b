/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and results of the tools as structs; arguments.c has their tables. */
#ifndef EDGE_TOOLS_ARGUMENTS_H
#define EDGE_TOOLS_ARGUMENTS_H

#include "edge/core/answers.h"
#include "edge/tools/tools.h"
#include "base/rfc3339.h"

enum mcp_encoding { ENCODING_TEXT, ENCODING_BASE64 };
enum mcp_manager { MANAGER_APT, MANAGER_PIP, MANAGER_NPM, MANAGER_CARGO, MANAGER_GO };
extern const char *const mcp_encoding_names[], *const mcp_manager_names[];

struct tool_create {
    struct create_request request; /* first: offsets in capability_fields start here */
    const char *provider;
};

struct tool_created {
    const char *provider_version, *isolation_level, *egress_policy, *workdir;
    const struct sandbox_record *record;
    char expires_at[TIME_TEXT];
    int64_t cold_start_ms;
    struct json_strs language_support;
    bool attestation;
};

struct tool_list {
    uint32_t limit;
    const char *cursor;
};

struct tool_listed_sandbox {
    char created_at[TIME_TEXT], expires_at[TIME_TEXT];
    const struct sandbox_record *record;
};

struct tool_listed {
    const char *provider_version, *next_cursor;
    struct json_objects sandboxes; /* of struct tool_listed_sandbox */
};

struct tool_destroy {
    const char *sandbox_id;
};

struct tool_destroyed {
    const char *sandbox_id, *state, *kept_snapshot;
};

struct tool_sync { /* and of sandbox_diff */
    const char *sandbox_id;
    bool dry_run;
    uint32_t limit;
};

struct tool_change {
    const char *action, *path, *reason;
};

struct tool_synced {
    const char *sandbox_id, *directory, *hint;
    uint64_t applied, left, more;
    struct json_objects changes; /* of struct tool_change */
    size_t bytes;                /* of their texts */
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
    struct ended_answer ended;
    int exit_code;
    bool exited; /* exit_code is valid */
    bool truncated;
    const char *hint; /* of a copy that is older than its directory; NULL: none */
    struct bytes_answer out, err;
    int64_t duration_ms;
};

struct tool_file { /* of sandbox_read and sandbox_write */
    const char *sandbox_id, *path;
    const char *content; /* of sandbox_write */
    enum mcp_encoding encoding;
};

struct tool_content {
    const char *path;
    struct str content;
    enum mcp_encoding encoding;
    uint64_t bytes;
};

/* Answers with a struct as the result of the request's tool describes it. */
void mcp_tool_answer(struct mcp_request *r, const void *result);

#endif
