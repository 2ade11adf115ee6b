/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the tools: schemas, argument validation and results. */
#include "edge/tools/arguments.h"
#include "edge/tools/workspace.h"

#include <limits.h>

#include "control/sandbox/workspace.h"

const char *const mcp_encoding_names[] = { "text", "base64", NULL };
const char *const mcp_manager_names[] = { "apt", "pip", "npm", "cargo", "go", NULL };

enum { PACKAGES_MAX = 64, TIMEOUT_MAX = 1800, CONTENT_MAX = MCP_FILE_MAX / 3 * 4 + 8 };

#define BOX(type)                                                                                  \
    {                                                                                              \
        "sandbox_id", JSON_KIND_STR, JSON_AT(type, sandbox_id),                                    \
            .required = true, .min = 1, .max = ID_MAX - 1,                                         \
            .doc = "The id that sandbox_create returned."                                          \
    }
#define TIMEOUT(type)                                                                              \
    {                                                                                              \
        "timeout_s", JSON_KIND_INT, JSON_AT(type, timeout_s),                                      \
            .min = 1, .max = TIMEOUT_MAX, .preset = "300",                                         \
            .doc = "Timeout in seconds; then the program is killed with its descendants."          \
    }

static const struct json_field create_in[] = {
    { "profile", JSON_KIND_STR, JSON_AT(struct tool_create, request.profile), .min = 1,
      .max = REQUEST_TEXT_MAX,
      .doc = "The profile: profile.NAME or profile.NAME@VERSION; default: a small one." },
    { "capabilities", JSON_KIND_OBJECT, .offset = 0, .size = sizeof(struct tool_create),
      .seen = offsetof(struct tool_create, request.capabilities.given),
      .doc = "The capabilities that the code needs; request no others: the network may require "
             "approval.",
      JSON_FIELDS(capability_fields) },
    { "provider", JSON_KIND_STR, JSON_AT(struct tool_create, provider), .min = 1,
      .max = MCP_PROVIDER_MAX - 1,
      .doc = "The provider that makes the sandbox; default: the profile's." },
    { "ttl", JSON_KIND_DURATION, JSON_AT(struct tool_create, request.ttl_ns), .min = 1000000000,
      .max = INT64_C(31536000000000000), .doc = "Maximum lifetime: 90 (seconds), 10m, 2h." },
    { "inputs", JSON_KIND_MAP, JSON_AT(struct tool_create, request.inputs),
      .max = REQUEST_INPUTS_MAX,
      .doc = "Leave it out: inputs bring in directories of the host, which tool callers may not "
             "use. Write files with sandbox_write instead." },
};

#define AT(member)           JSON_AT(struct tool_created, member)
#define RECORD(type, member) .via = offsetof(type, record), JSON_AT(struct sandbox_record, member)

static const struct json_field create_out[] = {
    { "sandbox_id", JSON_KIND_CHARS, RECORD(struct tool_created, id), .required = true,
      .doc = "The id for all other tools." },
    { "isolation_level", JSON_KIND_TEXT, AT(isolation_level), .required = true,
      .doc = "The kind of isolation." },
    { "cold_start_ms", JSON_KIND_INT, AT(cold_start_ms), .required = true,
      .doc = "Milliseconds until the sandbox was ready." },
    { "language_support", JSON_KIND_TEXTS, AT(language_support), .required = true,
      .doc = "Supported languages; any: those of its image." },
    { "egress_policy", JSON_KIND_TEXT, AT(egress_policy), .required = true,
      .doc = "deny: no network; enforced: only hosts that its policy allows." },
    { "attestation", JSON_KIND_BOOL, AT(attestation), .required = true,
      .doc = "Whether the provider supports attestation." },
    { "profile", JSON_KIND_CHARS, RECORD(struct tool_created, profile),
      .doc = "The profile of the sandbox." },
    { "provider", JSON_KIND_CHARS, RECORD(struct tool_created, extension),
      .doc = "The provider that made the sandbox." },
    { "provider_version", JSON_KIND_TEXT, AT(provider_version),
      .doc = "The version of the provider." },
    { "expires_at", JSON_KIND_CHARS, AT(expires_at), .optional = true,
      .doc = "When the sandbox expires." },
    { "workdir", JSON_KIND_TEXT, AT(workdir),
      .doc = "Working directory of commands; if absent, the home directory of their user." },
};
static const struct json_shape created_result = { NULL, JSON_FIELDS(create_out) };

static const struct json_field list_in[] = {
    { "limit", JSON_KIND_UINT, JSON_AT(struct tool_list, limit), .min = 1, .max = 200,
      .preset = "50", .doc = "Maximum number of sandboxes." },
    { "cursor", JSON_KIND_STR, JSON_AT(struct tool_list, cursor), .min = 1, .max = 96,
      .doc = "next_cursor of the previous page." },
};
static const struct json_field listed_box[] = {
    { "sandbox_id", JSON_KIND_CHARS, RECORD(struct tool_listed_sandbox, id), .required = true },
    /* loose: the schema does not name the states */
    { "state", JSON_KIND_ENUM, RECORD(struct tool_listed_sandbox, state), .required = true,
      .loose = true, .names = sandbox_state_names,
      .doc = "Sandboxes that are ready or active can be used." },
    { "profile", JSON_KIND_CHARS, RECORD(struct tool_listed_sandbox, profile), .required = true },
    { "provider", JSON_KIND_CHARS, RECORD(struct tool_listed_sandbox, extension),
      .required = true },
    { "created_at", JSON_KIND_CHARS, JSON_AT(struct tool_listed_sandbox, created_at),
      .optional = true },
    { "expires_at", JSON_KIND_CHARS, JSON_AT(struct tool_listed_sandbox, expires_at),
      .optional = true },
};
static const struct json_field list_out[] = {
    { "provider_version", JSON_KIND_TEXT, JSON_AT(struct tool_listed, provider_version),
      .required = true, .doc = "The version of the local provider." },
    { "sandboxes", JSON_KIND_OBJECTS, JSON_AT(struct tool_listed, sandboxes), .required = true,
      .item_size = sizeof(struct tool_listed_sandbox), JSON_FIELDS(listed_box) },
    { "next_cursor", JSON_KIND_TEXT, JSON_AT(struct tool_listed, next_cursor),
      .doc = "The cursor of the next page, if there is one." },
};
static const struct json_shape listed_result = { NULL, JSON_FIELDS(list_out) };

static const struct json_field destroy_in[] = { BOX(struct tool_destroy) };
static const struct json_field destroy_out[] = {
    { "sandbox_id", JSON_KIND_TEXT, JSON_AT(struct tool_destroyed, sandbox_id), .required = true },
    { "state", JSON_KIND_TEXT, JSON_AT(struct tool_destroyed, state), .required = true },
    { "kept_snapshot", JSON_KIND_TEXT, JSON_AT(struct tool_destroyed, kept_snapshot),
      .optional = true,
      .doc = "The snapshot of changes that could not be synced back to the workspace." },
};
static const struct json_shape destroyed_result = { NULL, JSON_FIELDS(destroy_out) };

static const struct json_field exec_in[] = {
    BOX(struct tool_exec),
    { "command", JSON_KIND_STR, JSON_AT(struct tool_exec, command), .min = 1, .max = 1 << 20,
      .doc = "A command line for /bin/sh -c. Give either this or argv." },
    { "argv", JSON_KIND_STRS, JSON_AT(struct tool_exec, argv), .min = 1, .max = PROCESS_ARGS_MAX,
      .doc = "A program and its arguments, without a shell." },
    { "cwd", JSON_KIND_STR, JSON_AT(struct tool_exec, cwd), .min = 1, .max = PATH_MAX - 1,
      .doc = "Working directory, absolute." },
    { "env", JSON_KIND_MAP, JSON_AT(struct tool_exec, env), .max = PROCESS_ENV_MAX,
      .doc = "Environment variables to set." },
    { "stdin", JSON_KIND_STR, JSON_AT(struct tool_exec, stdin_), .max = MCP_FILE_MAX,
      .doc = "The program's standard input, followed by end of file." },
    TIMEOUT(struct tool_exec),
};

#undef AT
#define AT(member) JSON_AT(struct tool_executed, member)

static const struct json_field exec_out[] = {
    { "exit_code", JSON_KIND_INT, AT(exit_code), .seen = offsetof(struct tool_executed, exited),
      .doc = "The exit code; absent if the program was killed." },
    { "signal", JSON_KIND_TEXT, AT(ended.signal), .optional = true,
      .doc = "The signal that killed the program." },
    { "timed_out", JSON_KIND_BOOL, AT(ended.timed_out), .required = true,
      .doc = "The program was killed at its timeout." },
    { "stdout", JSON_KIND_SLICE, AT(out.text), .doc = "The output, if it is text." },
    { "stderr", JSON_KIND_SLICE, AT(err.text), .doc = "The output, if it is text." },
    { "stdout_b64", JSON_KIND_SLICE, AT(out.base64),
      .doc = "The output in base64, if it is not text." },
    { "stderr_b64", JSON_KIND_SLICE, AT(err.base64),
      .doc = "The output in base64, if it is not text." },
    { "truncated", JSON_KIND_BOOL, AT(truncated), .required = true,
      .doc = "The output was truncated." },
    { "duration_ms", JSON_KIND_INT, AT(duration_ms), .required = true,
      .doc = "Duration in milliseconds." },
    { "hint", JSON_KIND_TEXT, AT(hint),
      .doc = "Changes in the user's directory since it was copied that are not in the sandbox." },
};
static const struct json_shape executed_result = { NULL, JSON_FIELDS(exec_out) };

static const struct json_field install_in[] = {
    BOX(struct tool_install),
    { "manager", JSON_KIND_ENUM, JSON_AT(struct tool_install, manager), .required = true,
      .names = mcp_manager_names, .doc = "The package manager; the sandbox's image must have it." },
    { "packages", JSON_KIND_STRS, JSON_AT(struct tool_install, packages), .required = true,
      .min = 1, .max = PACKAGES_MAX,
      .doc = "Package names, with versions in the syntax of the manager." },
    TIMEOUT(struct tool_install),
};

#define PATH                                                                                       \
    {                                                                                              \
        "path", JSON_KIND_STR, JSON_AT(struct tool_file, path),                                    \
            .required = true, .min = 1, .max = PATH_MAX - 1,                                       \
            .doc = "Absolute path of a file in the sandbox."                                       \
    }
#define ENCODING                                                                                   \
    {                                                                                              \
        "encoding", JSON_KIND_ENUM, JSON_AT(struct tool_file, encoding),                           \
            .names = mcp_encoding_names, .preset = "text",                                         \
            .doc = "Encoding of content: text (UTF-8) or base64 (any bytes)."                      \
    }
#define SHOWN_PATH                                                                                 \
    {                                                                                              \
        "path", JSON_KIND_TEXT, JSON_AT(struct tool_content, path), .required = true               \
    }
#define SIZE                                                                                       \
    {                                                                                              \
        "bytes", JSON_KIND_UINT, JSON_AT(struct tool_content, bytes),                              \
            .required = true, .doc = "The size of the file."                                       \
    }

static const struct json_field read_in[] = { BOX(struct tool_file), PATH, ENCODING };
static const struct json_field read_out[] = {
    SHOWN_PATH,
    { "content", JSON_KIND_SLICE, JSON_AT(struct tool_content, content), .required = true },
    { "encoding", JSON_KIND_ENUM, JSON_AT(struct tool_content, encoding), .required = true,
      .names = mcp_encoding_names },
    SIZE,
};
static const struct json_shape read_result = { NULL, JSON_FIELDS(read_out) };

static const struct json_field write_in[] = {
    BOX(struct tool_file),
    PATH,
    { "content", JSON_KIND_STR, JSON_AT(struct tool_file, content), .required = true,
      .max = CONTENT_MAX, .doc = "The complete contents; replaces an existing file." },
    ENCODING,
};
static const struct json_field write_out[] = { SHOWN_PATH, SIZE };
static const struct json_shape written_result = { NULL, JSON_FIELDS(write_out) };

#define LIMIT                                                                                      \
    {                                                                                              \
        "limit", JSON_KIND_UINT, JSON_AT(struct tool_sync, limit),                                 \
            .min = 1, .max = 1000, .preset = "200",                                                \
            .doc = "Maximum number of changes in the list."                                        \
    }

static const struct json_field diff_in[] = { BOX(struct tool_sync), LIMIT };
static const struct json_field sync_in[] = {
    BOX(struct tool_sync),
    { "dry_run", JSON_KIND_BOOL, JSON_AT(struct tool_sync, dry_run), .preset = "false",
      .doc = "Only report what would be brought back." },
    LIMIT,
};
static const struct json_field change_out[] = {
    { "action", JSON_KIND_TEXT, JSON_AT(struct tool_change, action), .required = true,
      .names = sync_action_names,
      .doc = "created, replaced, deleted: brought back; conflict: the user changed the file, "
             "too; sensitive: only the user brings it back; the others failed." },
    { "path", JSON_KIND_TEXT, JSON_AT(struct tool_change, path), .required = true,
      .doc = "Relative to the directory." },
    { "reason", JSON_KIND_TEXT, JSON_AT(struct tool_change, reason), .required = true },
};

#undef AT
#define AT(member) JSON_AT(struct tool_synced, member)

static const struct json_field sync_out[] = {
    { "sandbox_id", JSON_KIND_TEXT, AT(sandbox_id), .required = true },
    { "directory", JSON_KIND_TEXT, AT(directory), .required = true,
      .doc = "The directory on the user's machine." },
    { "applied", JSON_KIND_UINT, AT(applied), .required = true,
      .doc = "Number of changes that were brought back, or would be." },
    { "left", JSON_KIND_UINT, AT(left), .required = true,
      .doc = "Number of changes that stay in the sandbox." },
    { "changes", JSON_KIND_OBJECTS, AT(changes), .required = true,
      .item_size = sizeof(struct tool_change), JSON_FIELDS(change_out),
      .doc = "Those that stay come first." },
    { "more", JSON_KIND_UINT, AT(more), .required = true,
      .doc = "Number of changes that are not in the list." },
    { "hint", JSON_KIND_TEXT, AT(hint), .doc = "The remedy for changes that stay." },
};
static const struct json_shape synced_result = { NULL, JSON_FIELDS(sync_out) };

const struct mcp_tool mcp_tools[MCP_TOOL_COUNT] = {
    { "sandbox_create", "Create a sandbox",
      "Creates an isolated environment for programs, and waits until it is ready. It has its own "
      "files, processes and limits, and no network unless capabilities.network requests it.",
      JSON_FIELDS(create_in), .result = &created_result, .call = mcp_tool_create },
    { "sandbox_exec", "Run a command",
      "Runs a command in a sandbox and answers with its output and exit code. Output is sent as "
      "progress while it runs; cancelling kills it with everything it started. A hint in the "
      "answer "
      "names files of the user that are newer than those in the sandbox.",
      .hints = MCP_DESTRUCTIVE | MCP_OPEN_WORLD | MCP_MAY_BE_TASK, JSON_FIELDS(exec_in),
      .result = &executed_result, .call = mcp_undoable_exec },
    { "sandbox_read", "Read a file", "Reads a file of a sandbox: text, or any bytes as base64.",
      .hints = MCP_READ_ONLY | MCP_IDEMPOTENT, JSON_FIELDS(read_in), .result = &read_result,
      .call = mcp_tool_read },
    { "sandbox_write", "Write a file",
      "Writes a file in a sandbox, whole or not at all: text, or any bytes as base64. Directories "
      "on the way are made.",
      .hints = MCP_DESTRUCTIVE | MCP_IDEMPOTENT, JSON_FIELDS(write_in), .result = &written_result,
      .call = mcp_undoable_write },
    { "sandbox_install", "Install packages",
      "Installs packages in a sandbox with a package manager that its image has. They come through "
      "the network, as far as the sandbox's egress policy lets it.",
      .hints = MCP_OPEN_WORLD | MCP_MAY_BE_TASK, JSON_FIELDS(install_in),
      .result = &executed_result, .call = mcp_undoable_install },
    { "sandbox_destroy", "Destroy a sandbox",
      "Ends a sandbox and everything in it. Read what you want to keep before.",
      .hints = MCP_DESTRUCTIVE | MCP_IDEMPOTENT | MCP_NO_PRESET, JSON_FIELDS(destroy_in),
      .result = &destroyed_result, .call = mcp_tool_destroy },
    { "sandbox_list", "List sandboxes", "Lists your sandboxes and their states.",
      .hints = MCP_READ_ONLY | MCP_IDEMPOTENT, JSON_FIELDS(list_in), .result = &listed_result,
      .call = mcp_tool_list },
    { "sandbox_diff", "Show changes of the directory",
      "Lists the files that differ between the user's directory and its copy in the sandbox.",
      .hints = MCP_READ_ONLY | MCP_IDEMPOTENT | MCP_MAY_BE_TASK, JSON_FIELDS(diff_in),
      .result = &synced_result, .call = mcp_tool_diff },
    { "sandbox_sync", "Bring changes to the directory",
      "Brings the changes of the copy to the user's directory. Files that the user changed "
      "meanwhile stay as they are, and so do files that programs of the user's machine run by "
      "themselves.",
      .hints = MCP_DESTRUCTIVE | MCP_IDEMPOTENT | MCP_MAY_BE_TASK, JSON_FIELDS(sync_in),
      .result = &synced_result, .call = mcp_tool_sync },
};

struct tool_answer {
    const struct json_shape *shape;
    const void *result;
};

static void write_tool_answer(struct json_writer *w, const void *what)
{
    const struct tool_answer *a = what;

    json_put_shape(w, a->shape, a->result);
}

void mcp_tool_answer(struct mcp_request *r, const void *result)
{
    mcp_tool_reply(r, write_tool_answer, &(struct tool_answer){ r->tool->result, result });
}
