/* The launcher: the one process that keeps privilege. It serves one connection and ends with it. */
#ifndef RUNTIME_SERVER_H
#define RUNTIME_SERVER_H

#include "base/err.h"

/* Serves requests on sock until the peer closes it, then destroys every ephemeral sandbox. */
int server_run(int sock, struct err *e);

#endif
