/* The REST interface on the HTTP server: docs/api.md is its contract. */
#ifndef API_API_H
#define API_API_H

#include "control/control.h"
#include "http/server.h"

struct api;

struct api_setup {
    struct loop *loop;
    struct control *control;
    const struct config *config;
    uid_t owner; /* whoever started the daemon: an administrator beside root */
};

int api_open(const struct api_setup *s, struct api **ret, struct err *e);
/* Reads again what it was told by files: the policy for tools. The old one stays if that fails. */
void api_reload(struct api *a);
/* Serves a listening socket, which becomes the api's. */
int api_listen(struct api *a, int fd, struct err *e);
/* The same for HTTPS, with a chain of certificates and its key (PEM). */
int api_listen_tls(struct api *a, int fd, struct str chain, struct str key, struct err *e);
/* In place of those; if they are not good, the old ones stay. */
int api_renew_tls(struct api *a, struct str chain, struct str key, struct err *e);
/* Stops accepting, lets requests finish until the deadline (clock_mono()), frees itself, then
 * tells. */
void api_close(struct api *a, int64_t deadline, void (*on_closed)(void *user), void *user);

#endif
