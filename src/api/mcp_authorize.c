/* Whether a tool may be called. */
#include <stdio.h>

#include "api/mcp.h"

/* What a token must be good for. */
static const struct {
    const char *tool;
    enum token_verb verb;
} verbs[] = {
    { "sandbox_create", VERB_CREATE }, { "sandbox_exec", VERB_EXEC },
    { "sandbox_read", VERB_FILES },    { "sandbox_write", VERB_FILES },
    { "sandbox_install", VERB_EXEC },  { "sandbox_destroy", VERB_DESTROY },
    { "sandbox_list", VERB_READ },
};

void mcp_authorize(struct mcp_request *r, const struct mcp_tool *t, const struct json *arguments,
                   struct mcp_verdict *ret)
{
    const struct caller *who = &mcp_client_of(r)->caller;

    (void)arguments;
    for (size_t i = 0; i < COUNT_OF(verbs); i++)
        if (strcmp(verbs[i].tool, t->name) == 0) {
            if (caller_may(who, verbs[i].verb))
                return;
            ret->kind = MCP_DENY;
            snprintf(ret->reason, sizeof ret->reason, "this caller may not '%s'",
                     token_verb_names[verbs[i].verb]);
            return;
        }
    ret->kind = MCP_DENY; /* of a tool that nobody has thought about */
    snprintf(ret->reason, sizeof ret->reason, "nobody may call %s", t->name);
}
