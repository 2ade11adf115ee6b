/* SPDX-License-Identifier: Apache-2.0 */
/* A small, partly ill-behaved HTTP server on the loopback interface, in a process that ends with
 * the test's. What it does depends on the path: see the table in server.c. */
#ifndef TESTS_FETCH_SERVER_H
#define TESTS_FETCH_SERVER_H

#include <stddef.h>

/* Returns the port. */
int server_start(void);
int server_start_everywhere(void); /* at every address of this network namespace */

/* A port on which nobody listens. */
int server_dead_port(void);

/* A TLS server (openssl s_server) for the name localhost. Returns its port, and in ca_file the path
 * of the certificate that it is to be trusted by. Skips the test where there is no openssl. */
int server_start_tls(char *ca_file, size_t cap);

#endif
