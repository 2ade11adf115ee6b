/* The interface's inside, for the files of this module. */
#ifndef API_INSIDE_H
#define API_INSIDE_H

#include "api/call.h"
#include "api/meters.h"
#include "control/tokens.h"
#include "mcp/web.h"
#include "model/process.h"
#include "quota/rate.h"
#include "telemetry/metrics.h"

struct ssh_supply; /* ssh_supply.c */
struct tls_door;
struct tokens;
struct trust;

struct api {
    struct loop *loop;
    struct control *control;
    const struct config *config;
    struct http_server *server;
    struct tls_door *tls; /* NULL: no HTTPS */
    struct tokens *tokens;
    struct token_watcher token_ends;
    struct trust *trust;
    uid_t owner;
    struct rate link_checks, address_link_checks; /* of all; of each address */
    struct quota requests;                        /* calls that are not long ones … */
    struct list listening;                        /* … and those that are */
    struct quota uploads; /* bytes of files that are on their way into a template or snapshot */
    size_t calls;         /* of either kind, also those whose client has gone */
    bool over;            /* everything is closed; the last call frees what is left */
    struct mcp_server mcp;
    struct mcp_web mcp_web;
    struct event_subscriber mcp_events;
    struct metric_set meters;
    struct sockaddr_storage tcp; /* the first TCP address we listen on; family 0: none */
    unsigned char e2b_key[32];   /* that tokens of sandboxes are made with */
    struct list e2b_watchers, e2b_builds;
    bool e2b_builds_closed;              /* their record is what the next start finds */
    struct e2b_templates *e2b_templates; /* that clients built */
    struct list replays;                 /* struct replay */
    struct ssh_supply *ssh;              /* NULL until somebody needs it */
    struct buf openapi;                  /* written once, when it is first asked for */
    void (*on_closed)(void *user);
    void *user;
};

void api_release(struct api *a); /* everything is closed, and the last call is gone */

/* A struct snapshot_record; a call_write_fn. */
void snapshot_write(struct json_writer *w, const void *what);
void pause_write(struct json_writer *w, int64_t pause_ns); /* pause_ms */

struct sandbox_shown {
    const struct sandbox_record *record;
    int64_t expires_ns, deadline_ns;     /* as in struct sandbox_view */
    bool machine;                        /* with numbers of the machine: for administrators */
    const char *step;                    /* that it is at; NULL or "": none */
    const struct ext_quote *quote;       /* NULL: nobody asked what it would cost */
    const struct sandbox_egress *egress; /* as it is now; NULL: as the record has it, if at all */
    const struct workspace_op *brought;  /* by its destroy; NULL: there was no sync */
};
void sandbox_write(struct json_writer *w, const void *shown); /* struct sandbox_shown */
/* Members of an object: how much a sync has written, and what became of which file. */
void sync_put_outcome(struct json_writer *w, const struct workspace_op *op);
void quote_write(struct json_writer *w, const struct ext_quote *q);
void bytes_write(struct json_writer *w, const char *key, const char *key_b64, struct str data);
void time_write(struct json_writer *w, const char *key, int64_t wall_ns); /* RFC 3339; 0: nothing */

#endif
