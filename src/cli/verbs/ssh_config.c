/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>

#include "cli/ssh_key.h"
#include "cli/ssh_settings.h"
#include "cli/verbs/verbs.h"

struct ssh_config_options {
    struct common common;
    bool agent;
};

#define AT(member) .at = offsetof(struct ssh_config_options, member)

static const struct option_spec options[] = {
    { "agent", 'A', NULL, "let sandboxes use your agent's keys while you are connected",
      AT(agent) },
};

static void print_ssh_setting(void *user, const char *name, const char *value)
{
    printf("    %s %s\n", name, value);
}

static int run_ssh_config(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct ssh_config_options *o = options_;
    char key[PATH_MAX];
    const struct ssh_settings s = {
        .key = key, .server = o->common.server, .agent = o->agent, .places = true
    };
    struct err e;

    if (ssh_key_ensure(key, sizeof key, &e) < 0)
        return api_call_failed(c, &e);
    printf("Host sbx-* sbx_*\n");
    if (ssh_settings_each(&s, print_ssh_setting, NULL, &e) < 0)
        return api_call_failed(c, &e);
    return fflush(stdout) == 0 ? 0 : EXIT_TOOL_FAILED;
}

const struct verb verb_ssh_config = {
    .name = "ssh-config",
    .summary = "print an ssh configuration for all sandboxes",
    .text = "Lines for ~/.ssh/config, good for every sandbox of this daemon, also later ones:\n"
            "ssh, scp, sftp, rsync, git and editors reach a sandbox by its id then, or by sbx-\n"
            "and what follows the underscore in it. Makes a key for you if you have none. A\n"
            "daemon that SANDBOXER_STATE, SANDBOXER_SOCKET or SANDBOXER_URL names is named in\n"
            "them.\n"
            "\n"
            "  sandboxer ssh-config >> ~/.ssh/config\n"
            "  ssh sbx_4k7\n"
            "  rsync -a src/ sbx-4k7:src/\n",
    OPTIONS(options, struct ssh_config_options),
    .run = run_ssh_config,
    .flags = VERB_REMOTE,
};
