/* SPDX-License-Identifier: Apache-2.0 */
/* Daytona's configuration, health and version routes, and routes that are not supported. */
#include "edge/daytona/internal.h"

static void write_daytona_config(struct json_writer *w, const void *what)
{
    const struct call *c = what;
    char base[128];

    json_begin_object(w);
    json_field_text(w, "version", "sandboxer");
    json_field_text(w, "defaultSnapshot", "base");
    if (daytona_base_url(c, base, sizeof base))
        json_field_cstr(w, "proxyToolboxUrl", base);
    json_field_text(w, "environment", "self-hosted");
    json_end_object(w);
}

static void show_daytona_config(struct call *c)
{
    call_answer(c, 200, write_daytona_config, c);
}

static void answer_daytona_health(struct call *c)
{
    call_answer_bytes(c, 200, "application/json", STR("{\"status\":\"ok\"}"));
}

static void show_toolbox_version(struct call *c)
{
    call_answer_bytes(c, 200, "application/json", STR("{\"version\":\"sandboxer\"}"));
}

static void show_home_dir(struct call *c)
{
    call_answer_bytes(c, 200, "application/json", STR("{\"dir\":\"" DAYTONA_HOME "\"}\n"));
}

static void fail_not_here(struct call *c)
{
    call_fail_with(c, 501, "unsupported", "%s", c->route->summary);
}

#define NOT_HERE(method, path, why)                                                                \
    {                                                                                              \
        method, VERB_READ, path, 0, fail_not_here, .summary = why                                  \
    }

const struct route routes_daytona_info[] = {
    { H1_GET, VERB_READ, DAYTONA "/config", 0, .handle = show_daytona_config },
    { H1_GET, VERB_READ, DAYTONA "/health", ROUTE_OPEN, .handle = answer_daytona_health },
    NOT_HERE(H1_POST, DAYTONA_INSIDE "/lsp/{what}", "language servers are not supported"),
    NOT_HERE(H1_GET, DAYTONA_INSIDE "/lsp/{what}", "language servers are not supported"),
    NOT_HERE(H1_POST, DAYTONA_INSIDE "/env",
             "changing variables is not supported; set them when the sandbox is created"),
    NOT_HERE(H1_GET, DAYTONA "/volumes", "volumes are not supported"),
    NOT_HERE(H1_POST, DAYTONA "/volumes", "volumes are not supported"),
    NOT_HERE(H1_GET, DAYTONA "/volumes/by-name/{name}", "volumes are not supported"),
    NOT_HERE(H1_GET, DAYTONA "/secret", "organization secrets are not supported"),
    NOT_HERE(H1_POST, DAYTONA "/secret", "organization secrets are not supported"),
    NOT_HERE(H1_GET, DAYTONA "/object-storage/push-access", "building images is not supported"),
    { .path = NULL },
};

const struct route routes_toolbox_info[] = {
    { H1_GET, VERB_READ, DAYTONA_INSIDE "/version", DAYTONA_LIVE, .handle = show_toolbox_version },
    { H1_GET, VERB_READ, DAYTONA_INSIDE "/user-home-dir", DAYTONA_LIVE, .handle = show_home_dir },
    { H1_GET, VERB_READ, DAYTONA_INSIDE "/work-dir", DAYTONA_LIVE, .handle = show_home_dir },
    { H1_GET, VERB_READ, DAYTONA_INSIDE "/project-dir", DAYTONA_LIVE, .handle = show_home_dir },
    { .path = NULL },
};
