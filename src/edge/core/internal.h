/* SPDX-License-Identifier: Apache-2.0 */
/* State and helpers of the API that its files share. */
#ifndef EDGE_CORE_INTERNAL_H
#define EDGE_CORE_INTERNAL_H

#include "edge/core/dialect.h"
#include "control/owner/tokens.h"
#include "edge/mcp/web.h"
#include "domain/model/process.h"
#include "lib/quota/rate.h"
#include "lib/metrics/metrics.h"

struct daemon_facts; /* daemon_facts.h */
struct ssh_supply;   /* ssh_supply.c */
struct limits_answer;
struct usage_answer;
struct tls_listener;
struct tokens;
struct trust;

struct api {
    struct loop *loop;
    struct control *control;
    const struct config *config;
    struct http_server *server;
    struct tls_listener *tls; /* NULL: no HTTPS */
    struct tokens *tokens;
    struct token_watcher token_ends;
    struct trust *trust;
    uid_t owner;
    const struct daemon_facts *daemon;
    struct rate link_checks, address_link_checks; /* in total; per address */
    struct quota requests;                        /* calls without ROUTE_LONG */
    struct list listening;                        /* calls with ROUTE_LONG */
    struct quota uploads; /* bytes of uploads in progress into templates and snapshots */
    size_t calls;         /* all calls, also those without a client */
    bool over;            /* closed; the last call frees the api */
    struct mcp_server mcp;
    struct mcp_web mcp_web;
    struct event_subscriber mcp_events;
    struct metric_set meters;
    struct sockaddr_storage tcp; /* the first TCP address listened on; family 0: none */
    unsigned char token_key[32]; /* key that derives tokens of sandboxes */
    struct dialect_set dialects; /* with their state */
    struct templates *templates; /* templates built by clients */
    struct list replays;         /* struct replay */
    struct ssh_supply *ssh;      /* NULL until first used */
    struct buf openapi;          /* the OpenAPI document; written at the first request */
    void (*on_closed)(void *user);
    void *user;
};

/* --- meters.c: metrics --- */
/* In the order of the metric's label; classes of status first. */
enum call_outcome { CALL_2XX, CALL_3XX, CALL_4XX, CALL_5XX, CALL_STREAMED, CALL_LEFT };
int meters_register(struct api *a, struct err *e);
void meters_ended(struct call *c, enum call_outcome o); /* the first call per request counts */

void api_release(struct api *a); /* after close, when the last call is freed */

/* A struct snapshot_record; a call_write_fn. */
void snapshot_write(struct json_writer *w, const void *what);
double pause_ms(int64_t pause_ns); /* of a sandbox, with three decimals */

struct sandbox_json {
    int64_t expires_ns, deadline_ns; /* as in struct sandbox_view */
    const struct sandbox_record *record;
    const char *step;                    /* current step; NULL or "": none */
    const struct backend_quote *quote;   /* NULL: not estimated */
    const struct sandbox_egress *egress; /* current counters; NULL: those of the record, if any */
    const struct workspace_op *brought;  /* sync of its destroy; NULL: none */
    const struct limits_answer *limits;  /* stats.h; NULL: unknown */
    const struct usage_answer *usage;    /* likewise; NULL: not asked for, or not measured */
};
void sandbox_write(struct json_writer *w, const void *shown); /* struct sandbox_json */
void bytes_write(struct json_writer *w, const char *key, const char *key_b64, struct str data);
void time_write(struct json_writer *w, const char *key, int64_t wall_ns); /* RFC 3339; 0: omitted */

#endif
