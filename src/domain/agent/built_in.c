/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "domain/agent/recipe.h"

#define TEXTS(...)                                                                                 \
    {                                                                                              \
        (const char *const[]){ __VA_ARGS__ }, COUNT_OF(((const char *const[]){ __VA_ARGS__ }))     \
    }
#define PAIRS(...)                                                                                 \
    {                                                                                              \
        (const struct json_pair[]){ __VA_ARGS__ },                                                 \
            COUNT_OF(((const struct json_pair[]){ __VA_ARGS__ }))                                  \
    }

/* Hosts are those of the models and of the login; without telemetry and updates. Workspaces of
 * sandboxes are trusted, since their copy is all that an agent can harm. */
const struct agent_entry agents_built_in[] = {
    { .name = "claude",
      .recipe = {
          .description = "Claude Code",
          .program = "claude",
          .package = "@anthropic-ai/claude-code",
          .hosts = TEXTS("api.anthropic.com", "claude.ai", "platform.claude.com"),
          .env = PAIRS({ "IS_SANDBOX", "1" }, { "DISABLE_AUTOUPDATER", "1" },
                       { "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1" }),
          .pass = TEXTS("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL",
                        "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL"),
          .keys = TEXTS("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
          .files = PAIRS({ "~/.claude.json",
                           "{\"hasCompletedOnboarding\":true,\"projects\":{\"/workspace\":{"
                           "\"hasTrustDialogAccepted\":true}}}\n" }),
          .logins = TEXTS("~/.claude/.credentials.json"),
      } },
    { .name = "codex",
      .recipe = {
          .description = "Codex of OpenAI",
          .program = "codex",
          .package = "@openai/codex",
          .hosts = TEXTS("api.openai.com", "chatgpt.com", "auth.openai.com"),
          .keys = TEXTS("OPENAI_API_KEY", "CODEX_API_KEY"),
          /* Its own sandbox cannot be made in this one, which takes its place. */
          .files = PAIRS({ "~/.codex/config.toml",
                           "sandbox_mode = \"danger-full-access\"\n"
                           "check_for_update_on_startup = false\n\n"
                           "[projects.\"/workspace\"]\ntrust_level = \"trusted\"\n" }),
          .logins = TEXTS("~/.codex/auth.json"),
      } },
    { .name = "gemini",
      .recipe = {
          .description = "Gemini CLI",
          .program = "gemini",
          .package = "@google/gemini-cli",
          .hosts = TEXTS("generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com",
                         "oauth2.googleapis.com"),
          .pass = TEXTS("GOOGLE_GEMINI_BASE_URL", "GEMINI_MODEL", "CODE_ASSIST_ENDPOINT"),
          .keys = TEXTS("GEMINI_API_KEY", "GOOGLE_API_KEY"),
          .env = PAIRS({ "GEMINI_CLI_TRUST_WORKSPACE", "true" }),
          /* With a base URL of its own it finds no method by itself. A login comes with the settings
           * that select it. */
          .files = PAIRS({ "~/.gemini/settings.json",
                           "{\"security\":{\"auth\":{\"selectedType\":\"gemini-api-key\"}}}\n" }),
          .logins = TEXTS("~/.gemini/oauth_creds.json", "~/.gemini/google_accounts.json",
                          "~/.gemini/settings.json"),
      } },
    { .name = "opencode",
      .recipe = {
          .description = "opencode, for models of several vendors",
          .program = "opencode",
          .package = "opencode-ai",
          .hosts = TEXTS("opencode.ai", "models.dev", "api.anthropic.com", "api.openai.com",
                         "generativelanguage.googleapis.com"),
          .env = PAIRS({ "OPENCODE_DISABLE_AUTOUPDATE", "1" }),
          .pass = TEXTS("OPENCODE_CONFIG_CONTENT"),
          .keys = TEXTS("OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY",
                        "GEMINI_API_KEY"),
          .logins = TEXTS("~/.local/share/opencode/auth.json"),
      } },
};
const size_t agents_built_in_count = COUNT_OF(agents_built_in);
