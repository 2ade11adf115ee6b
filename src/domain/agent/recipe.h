/* SPDX-License-Identifier: Apache-2.0 */
/* A recipe: the needs of a coding agent in a sandbox. Some are compiled in; others are YAML
 * files NAME.yaml, which the daemon's program reads (daemon/agent_recipes.h) and prints as JSON for
 * the command line.
 *
 *     program: claude
 *     package: "@anthropic-ai/claude-code"
 *     hosts: [api.anthropic.com]
 *     keys: [ANTHROPIC_API_KEY]
 *
 * agent_recipe_fields is the only table: it reads YAML and JSON and writes JSON, and docs/agents.md
 * is checked against it. */
#ifndef DOMAIN_AGENT_RECIPE_H
#define DOMAIN_AGENT_RECIPE_H

#include "base/err.h"
#include "lib/json/bind.h"

enum {
    AGENT_NAME_MAX = 32,           /* with its NUL */
    AGENT_RECIPE_BYTES = 64 << 10, /* of a file */
    AGENT_LIST_MAX = 64,           /* hosts, variables or files of a recipe */
};

struct agent_recipe {
    const char *description; /* NULL: none */
    const char *program;     /* a name, without a directory */
    const char *package;     /* of npm; NULL: it is not installed from there */
    struct json_strs hosts;  /* HOST[:PORT], as of --allow */
    struct json_map env;     /* variables that it always has */
    struct json_strs pass;   /* variables of the caller without credentials, if they are set */
    struct json_strs keys;   /* variables with credentials, for --pass-key */
    struct json_map files; /* path → text, where the sandbox has none; "~/" is its user's home */
    struct json_strs logins; /* files of the caller's home with a login, for --pass-login: "~/…" */
};
extern const struct json_field agent_recipe_fields[];
extern const size_t agent_recipe_field_count;

/* Checks what the table cannot express. `*ret_field` is the path of the wrong field. */
int agent_recipe_check(const struct agent_recipe *r, const char **ret_field, struct err *e);

/* [a-z0-9][a-z0-9-]{0,30} */
bool agent_name_fits(struct str name);

/* A recipe as the daemon's program lists it. */
struct agent_entry {
    const char *name;
    struct agent_recipe recipe;
    const char *file;    /* NULL: compiled in */
    const char *problem; /* why its file cannot be used; NULL: it can */
};
extern const struct json_field agent_entry_fields[];
extern const size_t agent_entry_field_count;

/* The compiled-in recipes. */
extern const struct agent_entry agents_built_in[];
extern const size_t agents_built_in_count;

#endif
