/* What Daytona's clients ask before they do anything, and what is not here. */
#include "api/daytona/inside.h"

static void write_config(struct json_writer *w, const void *what)
{
    const struct call *c = what;
    char base[128];

    json_begin_object(w);
    put(w, "version", "sandboxer");
    put(w, "defaultSnapshot", "base");
    if (daytona_base(c, base, sizeof base)) {
        json_key(w, STR("proxyToolboxUrl"));
        json_put_str(w, str_from(base));
    }
    put(w, "environment", "self-hosted");
    json_end_object(w);
}

static void config(struct call *c)
{
    call_answer(c, 200, write_config, c);
}

static void health(struct call *c)
{
    call_answer_bytes(c, 200, "application/json", STR("{\"status\":\"ok\"}"));
}

static void version(struct call *c)
{
    call_answer_bytes(c, 200, "application/json", STR("{\"version\":\"sandboxer\"}"));
}

static void write_home(struct json_writer *w, const void *what)
{
    (void)what;
    json_begin_object(w);
    put(w, "dir", DAYTONA_HOME);
    json_end_object(w);
}

static void home(struct call *c)
{
    call_answer(c, 200, write_home, NULL);
}

static void not_here(struct call *c)
{
    call_fail_with(c, 501, "unsupported", c->route->summary);
}

#define NOT_HERE(method, path, why)                                                                \
    {                                                                                              \
        method, VERB_READ, path, 0, not_here, why, .face = &daytona_face                           \
    }

const struct route routes_daytona_info[] = {
    { H1_GET, VERB_READ, DAYTONA "/config", 0, config, .face = &daytona_face },
    { H1_GET, VERB_READ, DAYTONA "/health", ROUTE_OPEN, health, .face = &daytona_face },
    { H1_GET, VERB_READ, DAYTONA_INSIDE "/version", DAYTONA_LIVE, version, .face = &toolbox_face },
    { H1_GET, VERB_READ, DAYTONA_INSIDE "/user-home-dir", DAYTONA_LIVE, home,
      .face = &toolbox_face },
    { H1_GET, VERB_READ, DAYTONA_INSIDE "/work-dir", DAYTONA_LIVE, home, .face = &toolbox_face },
    { H1_GET, VERB_READ, DAYTONA_INSIDE "/project-dir", DAYTONA_LIVE, home, .face = &toolbox_face },
    NOT_HERE(H1_POST, DAYTONA_INSIDE "/lsp/{what}", "there are no language servers in sandboxes"),
    NOT_HERE(H1_GET, DAYTONA_INSIDE "/lsp/{what}", "there are no language servers in sandboxes"),
    NOT_HERE(H1_POST, DAYTONA_INSIDE "/env", "variables are given when a sandbox is created"),
    NOT_HERE(H1_GET, DAYTONA "/volumes", "there are no volumes here"),
    NOT_HERE(H1_POST, DAYTONA "/volumes", "there are no volumes here"),
    NOT_HERE(H1_GET, DAYTONA "/volumes/by-name/{name}", "there are no volumes here"),
    NOT_HERE(H1_GET, DAYTONA "/secret", "there are no secrets of an organization here"),
    NOT_HERE(H1_POST, DAYTONA "/secret", "there are no secrets of an organization here"),
    NOT_HERE(H1_GET, DAYTONA "/object-storage/push-access",
             "images are not built here: there is nowhere to put their context"),
    { .path = NULL },
};
