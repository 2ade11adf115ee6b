/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/run_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/units.h"
#include "lib/ipc/environment.h"
#include "lib/ipc/kernel.h"
#include "engine/scan/scan.h"

int run_set_image(void *to, const char *value, struct err *e)
{
    struct run_options *o = to;

    o->image = value;
    return value[0] ? 0 : err_set(e, ERR_INVALID, "--image: give a directory or a tar archive");
}

/* NAME=VALUE; the last one of a name counts. */
static void set_run_variable(struct run_options *o, const char *text)
{
    size_t i = 0, n = strcspn(text, "=") + 1;

    while (i < o->n_env && strncmp(o->env[i], text, n) != 0)
        i++;
    o->n_env += i == o->n_env;
    o->env[i] = text;
}

int run_set_env(void *to, const char *value, struct err *e)
{
    struct run_options *o = to;
    const char *variable;
    int r = option_variable("env", value, &variable, e);

    if (r < 0 || !variable)
        return r;
    if (o->n_env == RUN_VARIABLES_MAX)
        return err_set(e, ERR_TOO_BIG, "--env: more than %d variables", RUN_VARIABLES_MAX);
    set_run_variable(o, variable);
    return 0;
}

int run_set_timeout(void *to, const char *value, struct err *e)
{
    return units_duration(str_from(option_duration(value)), "--timeout",
                          &((struct run_options *)to)->timeout_ns, e);
}

static int set_kernel(void *to, const char *value, struct err *e)
{
    uint32_t bit;

    if (strcmp(value, "strict") == 0)
        bit = KERNEL_STRICT;
    else if (!kernel_from_name(str_from(value), &bit))
        return err_set(e, ERR_INVALID,
                       "--kernel: '%s' is unknown; use strict, nested-seccomp, socket-filters or "
                       "page-cache",
                       value);
    ((struct run_options *)to)->kernel |= bit;
    return 0;
}

#define AT(member) .at = offsetof(struct run_options, member)

const struct option_spec run_option_specs[RUN_OPTION_COUNT] = {
    { "image", 0, "PATH|REF",
      "root file system: a directory, a tar archive, or an image of the daemon "
      "(default: the host's system directories, read-only)",
      .set = run_set_image, .complete = COMPLETE_FILE },
    { "squash-owners", 0, NULL, "all files of an archive belong to the sandbox's root",
      AT(squash_owners) },
    { "writable", 0, NULL, "system directories take writes, kept in the sandbox", AT(writable) },
    { "system", 0, "HOW",
      "system directories are the host's own inodes (shared, the default), or "
      "have inodes of the sandbox's own (apart)",
      AT(system), .words = "shared apart" },
    { "side-channels", 0, "HOW",
      "open (default), or guarded: own clock, no speculation across processes, "
      "own processor cores, where the machine can ('doctor')",
      AT(side_channels), .words = "open guarded" },
    { "env", 'e', "NAME[=VALUE]", "set a variable, or pass the caller's on", .set = run_set_env },
    BOX_OPTION_ROWS(struct run_options, box),
    { "timeout", 0, "DURATION", "end it after 2s, 5m, 1h30m: SIGTERM, a second later SIGKILL",
      .set = run_set_timeout },
    { "kernel", 0, "WORD",
      "strict: fewer system calls; or let programs use nested-seccomp, "
      "socket-filters, page-cache (docs/profiles.md); can be repeated",
      .set = set_kernel },
    NETWORK_OPTION_ROWS(struct run_options, network),
    { "egress-log", 0, "FILE", "append an event for every decision, as lines of JSON",
      AT(network.log), .complete = COMPLETE_FILE },
    { "resolver", 0, "ADDR[:PORT]", "DNS server for what it may reach (default: the host's)",
      .kind = OPTION_LIST, AT(network.resolvers) },
    { "upstream", 0, "URL", "go out through http://ADDR:PORT or socks5://ADDR:PORT",
      AT(network.upstream) },
    { "untrusted", 0, "FILE",
      "run this program: scan it, no network, bring out its output with a signed "
      "manifest (docs/scan.md); what follows are its arguments",
      AT(untrusted.file), .complete = COMPLETE_FILE },
    { "input", 0, "DIR", "--untrusted: it works on a copy of this directory, not in an empty one",
      AT(untrusted.input), .complete = COMPLETE_FILE },
    { "output", 0, "DIR", "--untrusted: where its output goes (default: FILE.out)",
      AT(untrusted.output), .complete = COMPLETE_FILE },
    { "manifest", 0, "FILE", "--untrusted: where the manifest goes (default: DIR.manifest.json)",
      AT(untrusted.manifest), .complete = COMPLETE_FILE },
    { "block", 0, "SEVERITY", "--untrusted: lowest severity that denies the run (default: high)",
      AT(untrusted.steps.block), .words = SCAN_SEVERITY_WORDS },
    { "config", 0, "FILE", "--untrusted: configuration to use instead of the usual files",
      AT(untrusted.steps.config), .complete = COMPLETE_FILE },
    { "preflight-command", 0, "COMMAND",
      "--untrusted: a command that checks the program instead of the built-in scan",
      AT(untrusted.steps.preflight.command) },
    { "preflight-mcp", 0, "SERVER",
      "--untrusted: an MCP server does: a URL, or a command that speaks on pipes",
      AT(untrusted.steps.preflight.mcp) },
    { "preflight-tool", 0, "NAME", "--untrusted: the server's tool (default: preflight)",
      AT(untrusted.steps.preflight.tool) },
    { "postflight-command", 0, "COMMAND",
      "--untrusted: a command that decides about the output, after the built-in rules",
      AT(untrusted.steps.postflight.command) },
    { "postflight-mcp", 0, "SERVER", "--untrusted: an MCP server does",
      AT(untrusted.steps.postflight.mcp) },
    { "postflight-tool", 0, "NAME", "--untrusted: the server's tool (default: postflight)",
      AT(untrusted.steps.postflight.tool) },
    { "step-timeout", 0, "DURATION", "--untrusted: for each of these (default: 1m)",
      .kind = OPTION_DURATION, AT(untrusted.steps.timeout) },
    { "strict", 0, NULL, "fail if a limit cannot be enforced here", AT(strict) },
    { "interactive", 'i', NULL, "pass stdin on, which 'run' always does", AT(interactive) },
    { "rm", 0, NULL, "destroy the sandbox afterwards, which 'run' always does", AT(rm) },
    { "tty", 't', NULL, "run in a terminal of its own", AT(tty) },
    { "quiet", 'q', NULL, "no notes on stderr", AT(quiet) },
};

void run_options_fill_environment(struct run_options *o)
{
    static char term_variable[128];
    const char *usual[ENVIRONMENT_USUAL_COUNT] = { environment_usual[0], term_variable };
    const char *term = o->tty ? getenv("TERM") : NULL;
    bool has_term = term && snprintf(term_variable, sizeof term_variable, "TERM=%s", term) <
                                (int)sizeof term_variable;

    if (o->untrusted.file)
        set_run_variable(o, "OUTPUT=" UNTRUSTED_OUTPUT);
    if (network_is_requested(&o->network))
        o->n_env = environment_append(o->env, o->n_env, environment_proxy, ENVIRONMENT_PROXY_COUNT);
    o->n_env = environment_append(o->env, o->n_env, usual, has_term ? COUNT_OF(usual) : 1);
}
