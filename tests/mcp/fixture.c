/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/http/origin.h"
#include "lib/json/reader.h"
#include "edge/mcp/web.h"

enum { MESSAGE_MAX = 4 << 20, BACKLOG = 64 };

/* --- resources --- */

static const struct {
    const char *uri, *name, *type, *text;
} resources[] = {
    { "test://static-text", "Static text", "text/plain",
      "This is the content of the static text resource." },
    { "test://static-binary", "Static binary", "image/png", NULL },
    { "test://watched-resource", "Watched", "text/plain", "Watched resource content." },
};

static const struct mcp_template templates[] = {
    { "test://template/{id}/data", "template", "Template", "A resource by its id.",
      "application/json" },
};

static void list(struct mcp_request *r, struct str cursor)
{
    struct json_writer *w = mcp_result_for(r, 0);

    json_key(w, STR("resources"));
    json_begin_array(w);
    for (size_t i = 0; i < COUNT_OF(resources); i++)
        mcp_page_resource(w, str_from(resources[i].uri), resources[i].name, "A fixture.",
                          resources[i].type);
    json_end_array(w);
    mcp_reply(r);
}

static bool read_template(struct mcp_request *r, struct str uri)
{
    struct str id;
    char text[256];

    if (!str_starts(uri, STR("test://template/")) || !str_ends(uri, STR("/data")) || uri.n > 120)
        return false;
    id = (struct str){ uri.p + 16, uri.n - 21 };
    snprintf(text, sizeof text,
             "{\"id\":\"%.*s\",\"templateTest\":true,\"data\":\"Data for ID: %.*s\"}", STR_ARG(id),
             STR_ARG(id));
    mcp_read_text(r, uri, "application/json", str_from(text));
    return true;
}

static void read_resource(struct mcp_request *r, struct str uri)
{
    AUTO(buf_done) struct buf png = BUF_INIT(1024);

    for (size_t i = 0; i < COUNT_OF(resources); i++) {
        if (!str_eq(uri, str_from(resources[i].uri)))
            continue;
        if (resources[i].text) {
            mcp_read_text(r, uri, resources[i].type, str_from(resources[i].text));
        } else {
            crypto_unbase64(STR(FIXTURE_PNG), &png, NULL);
            mcp_read_bytes(r, uri, resources[i].type, buf_str(&png));
        }
        return;
    }
    if (!read_template(r, uri))
        mcp_fail_uri(r, uri, "Resource not found");
}

static void watch(struct mcp_request *r, struct str uri)
{
    mcp_watched(r, str_starts(uri, STR("test://")));
}

/* --- answers --- */

const char *fixture_show(struct mcp_request *r, const struct json *v)
{
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 20);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_put_tree(&w, v);
    return json_writer_finish(&w, NULL) < 0 ? "?" : arena_dup(&r->arena, buf_str(&text));
}

void fixture_reply(struct mcp_request *r, const char *text)
{
    const struct json_limits limits = { .bytes = 64 << 10, .depth = 16 };
    struct json_writer *w;
    const struct json *v;
    struct err e;

    if (json_read(str_from(text), limits, &r->arena, &v, &e) < 0) {
        mcp_fail(r, RPC_INTERNAL, "%s", e.msg);
        return;
    }
    w = mcp_result(r);
    for (const struct json *m = json_first(v); m != json_end(v); m++) {
        json_key(w, m->key);
        json_put_tree(w, m);
    }
    mcp_reply(r);
}

void fixture_text(struct mcp_request *r, const char *fmt, ...)
{
    struct json_writer *w;
    char text[4096];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    w = mcp_result(r);
    json_key(w, STR("content"));
    json_begin_array(w);
    json_begin_object(w);
    json_key(w, STR("type"));
    json_put_str(w, STR("text"));
    json_key(w, STR("text"));
    json_put_lossy(w, str_from(text));
    json_end_object(w);
    json_end_array(w);
    mcp_reply(r);
}

/* --- serving --- */

static struct mcp_server engine;
static struct mcp_web web = { .server = &engine, .max = MESSAGE_MAX, .silence_ns = 600 * NS_PER_S };

static void nothing(void *user)
{
}

static void on_request(struct http_exchange *x)
{
    static char nobody;

    if (!origin_is_own(x))
        http_fail(x, 403, STR("Host and Origin must name this address"));
    else if (!str_eq(http_request(x)->path, STR("/mcp")))
        http_fail(x, 404, STR("there is only /mcp"));
    else
        mcp_web_serve(&web, x,
                      (struct mcp_who){ .peer = "test", .user = &nobody, .free_user = nothing });
}

static int listen_on_loopback(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t n = sizeof a;

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        return -1;
    printf("%u\n", ntohs(a.sin_port));
    fflush(stdout);
    return fd;
}

int main(void)
{
    const struct mcp_offer offer = {
        .name = "mcp-fixture",
        .version = "1.0.0",
        .tools = fixture_tools,
        .n_tools = fixture_tool_count,
        .prompts = fixture_prompts,
        .n_prompts = fixture_prompt_count,
        .templates = templates,
        .n_templates = COUNT_OF(templates),
        .lists_change = true,
        .list = list,
        .read = read_resource,
        .watch = watch,
    };
    const struct http_config config = { .on_request = on_request };
    struct http_server *server;
    struct loop loop;
    struct err e = { 0 };
    int fd = listen_on_loopback();

    signal(SIGPIPE, SIG_IGN);
    if (fd < 0 || loop_init(&loop, &e) < 0 ||
        mcp_server_init(&engine, &loop, &offer, NULL, &e) < 0 ||
        http_server_new(&loop, &config, &server, &e) < 0 ||
        http_server_listen(server, fd, &e) < 0 || loop_run(&loop, &e) < 0) {
        fprintf(stderr, "mcp-fixture: %s\n", e.msg);
        return 1;
    }
    return 0;
}
