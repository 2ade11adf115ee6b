/* SPDX-License-Identifier: Apache-2.0 */
/* Starts sandboxerd when no daemon listens. */
#ifndef CLI_DAEMON_H
#define CLI_DAEMON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Exit status of a daemon that finds another one running. */
enum { DAEMON_NOT_FIRST = 75 };

/* Finds the program: beside this one, in the libexec directory, or in PATH. */
int daemon_find(char *out, size_t cap, struct err *e);

/* Finds a program in the absolute directories of PATH. */
bool daemon_find_in_path(const char *program, char *out, size_t cap);

/* Starts the daemon, detached from this process, and waits until it listens: 1. 0 if another daemon
 * holds its resources; that one may listen soon, or elsewhere. For 0 and for a failure, the error
 * is the daemon's message; its log is sandboxerd.log in the state directory. */
int daemon_start(struct err *e);
/* The same for one that listens on this TCP address, too; NULL: as configured. */
int daemon_start_listening(const char *listen, struct err *e);

/* Runs the program with one option, such as --check-config, and the configuration file (NULL: the
 * usual ones). Its stdout is `out` (-1: nowhere), its stderr is ours. Its exit status, or -ERR_x. */
int daemon_print(const char *option, const char *config, int out, struct err *e);

/* The configuration that the daemon of this user reads. */
int daemon_config_path(char *out, size_t cap, struct err *e);

/* Whether it could start, in its own words, without starting it. */
int daemon_check(struct err *e);
/* The same with a TCP address; NULL: as configured. */
int daemon_check_listening(const char *listen, struct err *e);

#endif
