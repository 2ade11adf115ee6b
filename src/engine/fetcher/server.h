/* SPDX-License-Identifier: Apache-2.0 */
/* The fetch process (program sandboxer-fetch): makes requests for the control plane, on libcurl.
 *
 * It has one socket, no store, no state directory and no rights: a user of its own where the daemon
 * is root's, a fence (engine/fetcher/confine.c) that leaves outgoing connections and the files that
 * TLS and name resolution read. Bytes from servers are parsed here and nowhere else.
 *
 * A request's secrets are in memory while it runs and erased afterwards. Bodies are passed on as
 * they come: buffers are bounded by FETCHER_WINDOW for each request. The process ends when its
 * socket closes or the control plane breaks the protocol. */
#ifndef ENGINE_FETCHER_SERVER_H
#define ENGINE_FETCHER_SERVER_H

/* Serves until the socket closes: the exit status. */
int fetcher_serve(int sock);

#endif
