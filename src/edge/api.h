/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP API of the daemon: REST (docs/api.md), E2B, Daytona and MCP. */
#ifndef EDGE_API_H
#define EDGE_API_H

#include "control/control.h"
#include "edge/core/daemon_facts.h"
#include "lib/http/server.h"

struct api;

struct api_setup {
    struct loop *loop;
    struct control *control;
    const struct config *config;
    uid_t owner; /* user that started the daemon: an administrator beside root */
    const struct daemon_facts *daemon;
};

int api_open(const struct api_setup *s, struct api **ret, struct err *e);
/* Reloads the tool policy from its file; the old one stays in force if that fails. */
void api_reload(struct api *a);
/* Serves a listening socket; takes ownership of it. */
int api_listen(struct api *a, int fd, struct err *e);
/* The same for HTTPS, with a certificate chain and its key (PEM). */
int api_listen_tls(struct api *a, int fd, struct str chain, struct str key, struct err *e);
/* Replaces chain and key; the old ones stay if the new ones are invalid. */
int api_renew_tls(struct api *a, struct str chain, struct str key, struct err *e);
/* Whether no client is connected, no call is under way and none waits for approval. */
bool api_is_idle(const struct api *a);
uint64_t api_requests(const struct api *a); /* that ever arrived */
/* Stops accepting, lets requests finish until the deadline (clock_mono()), frees the api, then
 * calls on_closed. */
void api_close(struct api *a, int64_t deadline, void (*on_closed)(void *user), void *user);

#endif
